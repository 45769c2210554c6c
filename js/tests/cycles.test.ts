import { expect, test } from "vitest";
import { leadsTo, neighboursIn, reach } from "../src/editor/document/cycles";
import type { Graph } from "../src/editor/document/document";
import { applyOps, Refusal } from "../src/editor/document/reduce";
import { wiringOf } from "../src/editor/document/wiring";
import type { EdgeState } from "../src/protocol";

const NODES = 9;

/** Edges from lower numbers to higher ones, by a generator that always draws the same. */
function drawn(seed: number): Graph {
  let state = seed;
  const next = (most: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * most);
  };
  const nodes = new Map(Array.from({ length: NODES }, (_, at) => [`n${at}`, { name: `n${at}`, type: "add" }]));
  const edges = new Map<string, EdgeState>();
  for (let count = 0; count < NODES; count += 1) {
    const [a, b] = [next(NODES), next(NODES)].sort((one, other) => one - other) as [number, number];
    const target = `n${b}.${next(2) === 0 ? "input" : "other"}`;
    if (a !== b) edges.set(target, { source: `n${a}.output`, target });
  }
  return { nodes, edges, frames: new Map() } as unknown as Graph;
}

/** The nodes that one leads to, by going one step again and again. */
function reached(graph: Graph, start: string): Set<string> {
  const found = new Set<string>();
  for (let step = 0; step < NODES; step += 1)
    for (const { source, target } of graph.edges.values()) {
      const [from = "", to = ""] = [source.split(".")[0], target.split(".")[0]];
      if (from === start || found.has(from)) found.add(to);
    }
  return found;
}

test.each(Array.from({ length: 40 }, (_, seed) => seed))("paths are found from both ends: seed %i", (seed) => {
  const graph = drawn(seed);
  const names = [...graph.nodes.keys()];
  const neighbours = neighboursIn(wiringOf(graph));
  for (const start of names) {
    const found = reached(graph, start);
    expect(new Set(reach(graph, start, "downstream"))).toEqual(found);
    for (const goal of names) {
      expect(leadsTo(neighbours, start, goal)).toBe(start === goal || found.has(goal));
      expect(reach(graph, goal, "upstream").has(start)).toBe(found.has(goal));
    }
  }
});

test("an edge that another one of the same edit makes room for, or closes a loop with, is judged with it", () => {
  const graph = drawn(3);
  const document = { name: "net", graphs: new Map([["", graph]]) };
  for (const edge of graph.edges.values()) {
    const [from = "", to = ""] = [edge.source.split(".")[0], edge.target.split(".")[0]];
    const turned = { op: "connect", source: `${to}.output`, target: `${from}.free` } as const;
    const rest = new Map(graph.edges);
    rest.delete(edge.target);
    const isLoop = reached({ ...graph, edges: rest }, from).has(to);
    const turn = () => applyOps(document, [{ op: "disconnect", ...edge }, turned]);
    if (isLoop) expect(turn).toThrow(Refusal);
    else expect(turn().graphs.get("")?.edges.get(turned.target)?.source).toBe(turned.source);
    expect(() => applyOps(document, [turned])).toThrow("would close a loop");
  }
});
