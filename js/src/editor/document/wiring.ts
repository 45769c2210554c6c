import type { EdgeState } from "../../protocol";
import type { Graph } from "./document";
import { splitPort } from "./document";

/** The edges of a graph by node: what each view of a node needs to know. */
export interface Wiring {
  /** Edges into each port, by node and port name. */
  readonly into: ReadonlyMap<string, ReadonlyMap<string, EdgeState>>;
  readonly outOf: ReadonlyMap<string, readonly EdgeState[]>;
}

const known = new WeakMap<Graph, Wiring>();

export const UNWIRED: ReadonlyMap<string, EdgeState> = new Map();

/** The wiring of a graph, worked out once per version of it. */
export function wiringOf(graph: Graph): Wiring {
  const earlier = known.get(graph);
  if (earlier) return earlier;
  const into = new Map<string, Map<string, EdgeState>>();
  const outOf = new Map<string, EdgeState[]>();
  for (const edge of graph.edges.values()) {
    const [target, port] = splitPort(edge.target);
    const [source] = splitPort(edge.source);
    const ports = into.get(target);
    if (ports) ports.set(port, edge);
    else into.set(target, new Map([[port, edge]]));
    const list = outOf.get(source);
    if (list) list.push(edge);
    else outOf.set(source, [edge]);
  }
  const wiring = { into, outOf };
  known.set(graph, wiring);
  return wiring;
}
