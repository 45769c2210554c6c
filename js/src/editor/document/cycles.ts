import type { EdgeState } from "../../protocol";
import { type Graph, nodeOf } from "./document";
import { type Wiring, wiringOf } from "./wiring";

/** The edges at a node: those out of it, and those into it. */
export interface Neighbours {
  readonly outOf: (name: string) => Iterable<EdgeState>;
  readonly into: (name: string) => Iterable<EdgeState>;
}

export function neighboursIn({ into, outOf }: Wiring): Neighbours {
  return { outOf: (name) => outOf.get(name) ?? [], into: (name) => into.get(name)?.values() ?? [] };
}

/**
 * Whether a path leads from one node to another.
 *
 * It is looked for from both ends in turns, and ends where one of them has nothing more: what a path could begin with, or
 * end with, is often little.
 */
export function leadsTo({ outOf, into }: Neighbours, start: string, goal: string): boolean {
  if (start === goal) return true;
  const [ahead, behind] = [new Set([start]), new Set([goal])];
  const [forward, backward] = [ahead.values(), behind.values()];
  while (true) {
    const from = forward.next();
    if (from.done) return false;
    for (const { target } of outOf(from.value)) {
      const name = nodeOf(target);
      if (behind.has(name)) return true;
      ahead.add(name);
    }
    const to = backward.next();
    if (to.done) return false;
    for (const { source } of into(to.value)) {
      const name = nodeOf(source);
      if (ahead.has(name)) return true;
      behind.add(name);
    }
  }
}

/** So many answers are kept for the same edges: while a link is drawn, one start is asked about again and again. */
const MOST_KEPT = 8;
const known = new WeakMap<Graph["edges"], Map<string, ReadonlySet<string>>>();

/** Names of all nodes that `start` leads to, or that lead to it; without `start` unless it lies on a loop. */
export function reach(graph: Graph, start: string, way: "downstream" | "upstream"): ReadonlySet<string> {
  const found = known.get(graph.edges) ?? new Map<string, ReadonlySet<string>>();
  known.set(graph.edges, found);
  const key = `${way} ${start}`;
  const earlier = found.get(key);
  if (earlier) return earlier;
  const { outOf, into } = neighboursIn(wiringOf(graph));
  const seen = new Set<string>();
  const add = (name: string) => {
    if (way === "downstream") for (const { target } of outOf(name)) seen.add(nodeOf(target));
    else for (const { source } of into(name)) seen.add(nodeOf(source));
  };
  add(start);
  for (const name of seen) add(name);
  if (found.size >= MOST_KEPT) found.clear();
  found.set(key, seen);
  return seen;
}
