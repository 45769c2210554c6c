import type { DocumentState, EdgeState, Frame, GraphState, Json, NodeState } from "../../protocol";

/** One graph of a document; both maps keep the order of the file. */
export interface Graph {
  readonly nodes: ReadonlyMap<string, NodeState>;
  /** By target `"node.port"`: an input accepts one edge. */
  readonly edges: ReadonlyMap<string, EdgeState>;
  readonly frames: ReadonlyMap<string, Frame>;
}

/** An immutable document; `""` is the root graph, others are definitions of Subgraph nodes. */
export interface GraphDocument {
  readonly name: string;
  readonly graphs: ReadonlyMap<string, Graph>;
  /** Named sizes in their JSON form. */
  readonly sizes?: Readonly<Record<string, Json>>;
}

export const EMPTY_GRAPH: Graph = { nodes: new Map(), edges: new Map(), frames: new Map() };

export function fromState(state: DocumentState): GraphDocument {
  const graphs = new Map<string, Graph>();
  for (const [id, graph] of Object.entries(state.graphs)) {
    graphs.set(id, {
      nodes: new Map((graph.nodes ?? []).map((node) => [node.name, node])),
      edges: new Map((graph.edges ?? []).map((edge) => [edge.target, edge])),
      frames: new Map((graph.frames ?? []).map((frame) => [frame.name, frame])),
    });
  }
  if (!graphs.has("")) graphs.set("", EMPTY_GRAPH);
  return { name: state.name, graphs, sizes: state.sizes ?? {} };
}

/** The JSON of a `.pnne.json` file, so that a graph can be saved when the kernel is gone. */
export function toState(document: GraphDocument): DocumentState {
  const graphs: Record<string, GraphState> = {};
  for (const [id, graph] of document.graphs) graphs[id] = graphState(graph);
  return { format: "pnne-graph", formatVersion: 1, name: document.name, graphs, sizes: document.sizes ?? {} };
}

export function graphState({ nodes, edges, frames }: Graph): GraphState {
  return { nodes: [...nodes.values()], edges: [...edges.values()], frames: [...frames.values()] };
}

export function edgeId(edge: EdgeState): string {
  return `${edge.source}->${edge.target}`;
}

/** Splits `"node.port"` at its first dot. */
export function splitPort(address: string): [node: string, port: string] {
  const dot = address.indexOf(".");
  return dot < 0 ? [address, ""] : [address.slice(0, dot), address.slice(dot + 1)];
}

export function nodeOf(address: string): string {
  return splitPort(address)[0];
}

/** Names of the definition that a chain of Subgraph nodes leads to; null when the chain is broken. */
export function graphAt(document: GraphDocument, path: readonly string[]): string | null {
  let id = "";
  for (const name of path) {
    const node = document.graphs.get(id)?.nodes.get(name);
    const definition = node?.properties?.definition;
    if (typeof definition !== "string" || !document.graphs.has(definition)) return null;
    id = definition;
  }
  return id;
}
