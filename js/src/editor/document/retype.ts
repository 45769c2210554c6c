import type { EdgeState, NodeState, NodeTypeState, Op } from "../../protocol";
import { portsIn, type Scene } from "./connection";
import { definitionOf, type Located } from "./definitions";
import { edgeId, type GraphDocument, splitPort } from "./document";
import { kindsFit, type Ports, type PortView, portsOf } from "./ports";
import { applyOps } from "./reduce";
import { UNWIRED, wiringOf } from "./wiring";

/** Why a node cannot get another type in its place, or the ops that give it one. */
type Retyping =
  | { readonly refusal: string /** The edges for which it has no port. */; readonly lost?: readonly EdgeState[] }
  | { readonly ops: readonly Op[] };

/**
 * Gives a node another type under its name and at its place.
 *
 * Values of properties that the new type has too are kept, and all edges: each goes to the port of the same name, or
 * else to the one at the same place among the ports of its side. Nothing is changed if an edge has nowhere to go.
 */
export function retyped(scene: Scene, name: string, type: NodeTypeState, graphId: string): Retyping {
  const node = scene.graph.nodes.get(name);
  if (!node) return { refusal: `There is no node ${name}.` };
  const reason = whyFixed(scene, node, type);
  if (reason) return { refusal: reason };
  const known = new Set((type.properties ?? []).map((property) => property.name));
  const properties = Object.fromEntries(Object.entries(node.properties ?? {}).filter(([key]) => known.has(key)));
  const fresh: NodeState = { name, type: type.type, properties };
  const { into, outOf } = wiringOf(scene.graph);
  const incoming = [...(into.get(name)?.values() ?? [])];
  const outgoing = outOf.get(name) ?? [];
  const before = portsIn(scene, node);
  // A variadic input has a slot for each edge that came in.
  const sockets = portsOf(scene.document, fresh, type, into.get(name) ?? UNWIRED, outgoing, scene.exposed);
  const declared = portsOf(scene.document, fresh, type);
  const inputs = sockets.inputs.filter((port) => known.has(port.name) || isSlot(declared.inputs, port));
  const ports = { inputs, outputs: declared.outputs };
  const moved: EdgeState[] = [];
  const lost: EdgeState[] = [];
  const taken = new Set<string>();
  for (const edge of incoming) {
    const port = counterpart(before, ports, "inputs", splitPort(edge.target)[1], taken);
    if (port === null) lost.push(edge);
    else moved.push({ source: edge.source, target: `${name}.${port}` });
    if (port !== null) taken.add(port);
  }
  for (const edge of outgoing) {
    const port = counterpart(before, ports, "outputs", splitPort(edge.source)[1], new Set());
    if (port === null) lost.push(edge);
    else moved.push({ source: `${name}.${port}`, target: edge.target });
  }
  if (lost.length > 0) {
    const edges = lost.map(edgeId).join(", ").replaceAll("->", " → ");
    return {
      refusal: `${name} keeps its type ${node.type}: ${type.type} has no port for ${edges}. Disconnect it first.`,
      lost,
    };
  }
  const index = [...scene.graph.nodes.keys()].indexOf(name);
  const { position = null, collapsed = false } = node;
  return {
    ops: [
      { op: "removeNode", name, graph: graphId },
      { op: "addNode", name, type: type.type, properties, position, collapsed, index, graph: graphId },
      ...moved.map((edge): Op => ({ op: "connect", ...edge, graph: graphId })),
    ],
  };
}

/** The same for several nodes, those that share a module among them, one after the other. */
export function allRetyped(
  scene: Pick<Scene, "document" | "types">,
  places: readonly Located[],
  type: NodeTypeState,
): Retyping {
  let { document } = scene;
  const ops: Op[] = [];
  const apply = (more: readonly Op[]) => {
    document = applyOps(document, more);
    ops.push(...more);
  };
  const ties = tiesAmong(document, places);
  apply(ties.map(({ node, property, graph }): Op => ({ op: "resetProperty", node, property, graph })));
  for (const { graph: id, node } of places) {
    const graph = document.graphs.get(id);
    if (!graph || (node.type === type.type && places.length > 1)) continue;
    const outcome = retyped({ ...scene, document, graph }, node.name, type, id);
    if ("refusal" in outcome) return outcome;
    apply(outcome.ops);
  }
  if (type.properties?.some(({ name }) => name === "shares")) ops.push(...ties);
  return { ops };
}

/** What ties nodes to one another that share a module, all of which are among them. */
function tiesAmong(document: GraphDocument, places: readonly Located[]) {
  const chosen = new Set(places.map(({ node }) => node));
  return places.flatMap(({ graph, node: { name: node, properties } }) => {
    const owner = properties?.shares;
    const nodes = [...(document.graphs.get(graph)?.nodes.values() ?? [])];
    const isOf = (each: NodeState) => each.name === owner || each.properties?.shares === owner;
    if (owner == null || !nodes.every((each) => chosen.has(each) || !isOf(each))) return [];
    return [{ op: "setProperty" as const, node, property: "shares", value: owner, graph }];
  });
}

function whyFixed({ graph }: Scene, node: NodeState, type: NodeTypeState): string | null {
  if (node.type === type.type) return `${node.name} is a ${type.type} already.`;
  if (definitionOf(node) !== null) return `${node.name} is a block: its inside would be lost. Ungroup it first.`;
  if ([node.type, type.type].some((name) => name === "Input" || name === "Output"))
    return `${node.name} cannot become a ${type.type}: an Input or Output stays what it is.`;
  const sharing = [...graph.nodes.values()].find(({ properties }) => properties?.shares === node.name);
  if (sharing) return `${node.name} keeps its type ${node.type}: ${sharing.name} shares its weights.`;
  if (node.properties?.shares) return `${node.name} keeps its type ${node.type}: it shares weights of another node.`;
  return null;
}

function isSlot(declared: readonly PortView[], { name }: PortView): boolean {
  const stem = name.replace(/_\d+$/, "_0");
  return declared.some((port) => port.name === name || port.name === stem);
}

/** The port that takes the place of another one: that of its name, else that of its place among its side's ports. */
function counterpart(
  before: Ports,
  after: Ports,
  side: keyof Ports,
  name: string,
  taken: ReadonlySet<string>,
): string | null {
  const place = before[side].findIndex((port) => port.name === name);
  const old = before[side][place];
  if (!old) return null;
  const same = after[side].find((port) => port.name === name);
  const found = same ?? after[side][place];
  const fits = found && (side === "inputs" ? kindsFit(old.kind, found.kind) : kindsFit(found.kind, old.kind));
  return fits && !taken.has(found.name) ? found.name : null;
}
