import type { EdgeState, Op } from "../../protocol";
import { matchPorts, portsIn, type Scene } from "./connection";
import { nodeOf, splitPort } from "./document";
import { kindsFit, type Ports } from "./ports";

/** The edge between `port` and whichever port of another node takes it; that node need not be in the graph yet. */
export function edgeFrom(
  scene: Scene,
  port: string,
  side: "input" | "output",
  other: string,
  theirs: Ports,
): EdgeState | null {
  const [name, wanted] = splitPort(port);
  const node = scene.graph.nodes.get(name);
  if (!node) return null;
  const mine = portsIn(scene, node);
  if (side === "output") {
    const outputs = mine.outputs.filter((candidate) => candidate.name === wanted);
    return matchPorts(name, { inputs: [], outputs }, other, theirs);
  }
  const inputs = mine.inputs.filter((candidate) => candidate.name === wanted);
  return matchPorts(other, theirs, name, { inputs, outputs: [] });
}

/** The ops that put a node into an edge, or null when it does not fit there. */
export function insertOps(scene: Scene, name: string, ports: Ports, edge: EdgeState, graph: string): Op[] | null {
  if (nodeOf(edge.source) === name || nodeOf(edge.target) === name) return null;
  const into = edgeFrom(scene, edge.source, "output", name, ports);
  const [target, port] = splitPort(edge.target);
  const taken = scene.graph.nodes.get(target);
  const kind = taken && portsIn(scene, taken).inputs.find((candidate) => candidate.name === port)?.kind;
  const out = kind && ports.outputs.find((candidate) => kindsFit(candidate.kind, kind));
  if (!into || !out) return null;
  return [
    { op: "disconnect", ...edge, graph },
    { op: "connect", ...into, graph },
    { op: "connect", source: `${name}.${out.name}`, target: edge.target, graph },
  ];
}

/** The edges that close the gap which removed nodes leave, when one thing went in; none otherwise. */
export function bridges(scene: Scene, removed: ReadonlySet<string>): EdgeState[] {
  const edges = [...scene.graph.edges.values()];
  const into = edges.filter((edge) => removed.has(nodeOf(edge.target)) && !removed.has(nodeOf(edge.source)));
  const [source] = new Set(into.map((edge) => edge.source));
  if (source === undefined || into.some((edge) => edge.source !== source)) return [];
  const kind = portKind(scene, source, "outputs");
  return edges
    .filter((edge) => removed.has(nodeOf(edge.source)) && !removed.has(nodeOf(edge.target)))
    .filter((edge) => {
      const wanted = portKind(scene, edge.target, "inputs");
      return kind && wanted && kindsFit(kind, wanted);
    })
    .map((edge) => ({ source, target: edge.target }));
}

function portKind(scene: Scene, address: string, side: keyof Ports) {
  const [name, port] = splitPort(address);
  const node = scene.graph.nodes.get(name);
  return node && portsIn(scene, node)[side].find((candidate) => candidate.name === port)?.kind;
}
