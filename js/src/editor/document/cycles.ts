import type { EdgeState } from "../../protocol";
import type { Graph } from "./document";
import { nodeOf } from "./document";
import type { Wiring } from "./wiring";

/** Whether an edge from `source` to `target` would close a loop, i.e. whether `target` already leads to `source`. */
export function closesCycle(graph: Graph, source: string, target: string): boolean {
  return source === target || downstream(graph, target).has(source);
}

/** Whether a path leads from one node to another, by a wiring that is known: only what is on the way is looked at. */
export function leadsTo({ outOf }: Wiring, start: string, goal: string): boolean {
  const seen = new Set([start]);
  for (const name of seen) {
    if (name === goal) return true;
    for (const { target } of outOf.get(name) ?? []) seen.add(nodeOf(target));
  }
  return false;
}

/** Names of all nodes that `start` leads to, without `start` unless it lies on a loop. */
export function downstream(graph: Graph, start: string): ReadonlySet<string> {
  return reach(graph, start, (edge) => [edge.source, edge.target]);
}

/** Names of all nodes that lead to `start`. */
export function upstream(graph: Graph, start: string): ReadonlySet<string> {
  return reach(graph, start, (edge) => [edge.target, edge.source]);
}

function reach(graph: Graph, start: string, ends: (edge: EdgeState) => [from: string, to: string]): Set<string> {
  const next = new Map<string, string[]>();
  for (const edge of graph.edges.values()) {
    const [from, to] = ends(edge);
    const list = next.get(nodeOf(from));
    if (list) list.push(nodeOf(to));
    else next.set(nodeOf(from), [nodeOf(to)]);
  }
  const seen = new Set<string>();
  const stack = [start];
  for (let name = stack.pop(); name !== undefined; name = stack.pop()) {
    for (const neighbour of next.get(name) ?? []) {
      if (seen.has(neighbour)) continue;
      seen.add(neighbour);
      stack.push(neighbour);
    }
  }
  return seen;
}
