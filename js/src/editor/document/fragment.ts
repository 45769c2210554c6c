import type { EdgeState, Frame, GraphState, NodeState, Op } from "../../protocol";
import { addGraphOps, contains, definitionOf, sameGraph, usedBy } from "./definitions";
import { fromState, type Graph, type GraphDocument, graphState, nodeOf, splitPort } from "./document";
import { shifted } from "./frame";
import { copyName, freeIdentifier, freeName } from "./names";

/** A part of a graph on the clipboard, as JSON; what its Subgraph nodes show travels with it. */
export interface Fragment {
  readonly format: "pnne-fragment";
  readonly nodes: readonly NodeState[];
  readonly edges: readonly EdgeState[];
  /** Edges from the nodes around it. */
  readonly incoming?: readonly EdgeState[];
  readonly frames: readonly Frame[];
  readonly definitions: Readonly<Record<string, GraphState>>;
}

export function fragmentOf(
  document: GraphDocument,
  graph: Graph,
  names: ReadonlySet<string>,
  frames: ReadonlySet<string>,
): Fragment {
  const nodes = [...graph.nodes.values()].filter((node) => names.has(node.name));
  const entering = [...graph.edges.values()].filter((edge) => names.has(nodeOf(edge.target)));
  return {
    format: "pnne-fragment",
    nodes,
    edges: entering.filter((edge) => names.has(nodeOf(edge.source))),
    incoming: entering.filter((edge) => !names.has(nodeOf(edge.source))),
    frames: [...graph.frames.values()].filter((frame) => frames.has(frame.name)),
    definitions: Object.fromEntries(
      usedBy(document.graphs, nodes).map((id) => [id, graphState(document.graphs.get(id) as Graph)]),
    ),
  };
}

/** Reads clipboard text; null when it is something else. */
export function parseFragment(text: string): Fragment | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || !("format" in value) || value.format !== "pnne-fragment")
      return null;
    const { nodes, edges, incoming = [], frames = [], definitions = {} } = value as Partial<Fragment>;
    const lists = [nodes, edges, incoming, frames].every(Array.isArray);
    return lists && nodes && edges ? { format: "pnne-fragment", nodes, edges, incoming, frames, definitions } : null;
  } catch {
    return null;
  }
}

/**
 * The ops that add a fragment under new names, `offset` away from where it was; and those names.
 *
 * With `keepIncoming`, what fed the originals feeds the copies too, as far as it is in the graph.
 */
export function pasteOps(
  fragment: Fragment,
  document: GraphDocument,
  graphId: string,
  offset: readonly [number, number],
  keepIncoming = false,
): { ops: Op[]; names: string[]; frames: string[] } {
  const graph = document.graphs.get(graphId) as Graph;
  const { ops, ids } = definitionOps(fragment, document, graphId);
  const taken = new Set(graph.nodes.keys());
  const renamed = new Map<string, string>();
  for (const node of fragment.nodes) {
    const name = copyName(node.name, taken);
    taken.add(name);
    renamed.set(node.name, name);
  }
  const sharing: Op[] = [];
  const nameOf = (node: NodeState) => renamed.get(node.name) ?? node.name;
  for (const node of fragment.nodes) {
    const { shares } = node.properties ?? {};
    const definition = definitionOf(node);
    const properties = { ...node.properties };
    const value = typeof shares === "string" ? renamed.get(shares) : undefined;
    if (value !== undefined) {
      delete properties.shares;
      // A node can share only with one that is there.
      sharing.push({ op: "setProperty", node: nameOf(node), property: "shares", value, graph: graphId });
    }
    if (definition !== null) properties.definition = ids.get(definition) ?? definition;
    ops.push({
      op: "addNode",
      name: nameOf(node),
      type: node.type,
      properties,
      position: node.position ? [node.position[0] + offset[0], node.position[1] + offset[1]] : null,
      graph: graphId,
      collapsed: node.collapsed ?? false,
    });
  }
  ops.push(...sharing);
  const follow = (address: string) => {
    const [node, port] = splitPort(address);
    return `${renamed.get(node)}.${port}`;
  };
  for (const edge of fragment.edges) {
    ops.push({ op: "connect", source: follow(edge.source), target: follow(edge.target), graph: graphId });
  }
  for (const { source, target } of keepIncoming ? (fragment.incoming ?? []) : []) {
    if (graph.nodes.has(nodeOf(source))) ops.push({ op: "connect", source, target: follow(target), graph: graphId });
  }
  const frames: string[] = [];
  const takenFrames = new Set(graph.frames.keys());
  for (const frame of fragment.frames) {
    const name = freeName("frame", takenFrames);
    takenFrames.add(name);
    frames.push(name);
    ops.push({ op: "addFrame", ...frame, name, box: shifted(frame.box, ...offset), graph: graphId });
  }
  return { ops, names: [...renamed.values()], frames };
}

/**
 * The ops that bring a fragment's definitions along, and the ids that they have in the document.
 *
 * One that the document has already, equal in all it shows, is used as it is: what is pasted beside its original is
 * one more use of it. Another of the same name gets a free one.
 */
export function definitionOps(
  fragment: Fragment,
  document: GraphDocument,
  graphId: string,
): { ops: Op[]; ids: ReadonlyMap<string, string> } {
  const foreign = fromState({ format: "", formatVersion: 1, name: "", graphs: fragment.definitions }).graphs;
  const ops: Op[] = [];
  const ids = new Map<string, string>();
  const taken = new Set(document.graphs.keys());
  for (const id of usedBy(foreign, fragment.nodes)) {
    const graph = foreign.get(id) as Graph;
    const own = document.graphs.get(id);
    // A graph cannot contain itself: what holds this very graph comes as a copy.
    if (own && sameGraph(own, graph, ids) && !contains(document.graphs, id, graphId)) {
      ids.set(id, id);
      continue;
    }
    const free = freeIdentifier(id, taken);
    taken.add(free);
    ids.set(id, free);
    ops.push(...addGraphOps(free, graph, ids));
  }
  return { ops, ids };
}
