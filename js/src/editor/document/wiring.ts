import type { EdgeState } from "../../protocol";
import type { Graph } from "./document";
import { splitPort } from "./document";

/** The edges of a graph by node: what each view of a node needs to know. */
export interface Wiring {
  /** Edges into each port, by node and port name. */
  readonly into: ReadonlyMap<string, ReadonlyMap<string, EdgeState>>;
  readonly outOf: ReadonlyMap<string, readonly EdgeState[]>;
}

const known = new WeakMap<Graph["edges"], Wiring>();

export const UNWIRED: ReadonlyMap<string, EdgeState> = new Map();

/** The wiring of a graph, worked out once for the same edges; they must not change any more. */
export function wiringOf(graph: Graph): Wiring {
  const earlier = known.get(graph.edges);
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
  known.set(graph.edges, wiring);
  return wiring;
}

/** Notes the wiring of edges of which only those into some ports differ from earlier ones: most nodes keep theirs. */
export function rewire(before: Graph["edges"], after: Graph["edges"], targets: Iterable<string>): void {
  const earlier = known.get(before);
  if (!earlier) return;
  const [into, outOf] = [new Map(earlier.into), new Map(earlier.outOf)];
  for (const target of targets) {
    const [node, port] = splitPort(target);
    const [old, made] = [before.get(target), after.get(target)];
    if (old === made) continue;
    const ports = new Map(into.get(node));
    if (made) ports.set(port, made);
    else ports.delete(port);
    if (ports.size > 0) into.set(node, ports);
    else into.delete(node);
    for (const edge of [old, made]) {
      if (!edge) continue;
      const [source] = splitPort(edge.source);
      const others = (outOf.get(source) ?? []).filter((each) => each !== edge);
      if (edge === made) others.push(edge);
      if (others.length > 0) outOf.set(source, others);
      else outOf.delete(source);
    }
  }
  known.set(after, { into, outOf });
}
