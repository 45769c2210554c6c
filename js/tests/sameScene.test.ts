import { expect, test } from "vitest";
import given from "../../tests/cases/cards.json";
import type { GraphDocument } from "../src/editor/document/document";
import { applyOps, Refusal } from "../src/editor/document/reduce";
import { wiringOf } from "../src/editor/document/wiring";
import { SceneMaker } from "../src/editor/scene/scene";
import { NOTHING_DERIVED } from "../src/editor/session/derived";
import type { SessionState } from "../src/editor/session/session";
import type { NodeTypeState, Op } from "../src/protocol";

const types = given.types as unknown as NodeTypeState[];
const catalog = { key: "k", types: new Map(types.map((type) => [type.type, type])) };
const EMPTY: GraphDocument = {
  name: "g",
  graphs: new Map([["", { nodes: new Map(), edges: new Map(), frames: new Map() }]]),
};
const NONE = new Set<string>();
const PATH: string[] = [];

/** Numbers that are the same in every run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

function randomOp(
  next: () => number,
  { nodes, edges }: { nodes: string[]; edges: { source: string; target: string }[] },
) {
  const any = <T>(list: readonly T[]) => list[Math.floor(next() * list.length)] as T;
  const kinds = ["addNode", "moveNode", "connect", "disconnect", "removeNode", "renameNode", "setProperty"] as const;
  const kind = nodes.length < 4 ? "addNode" : any(kinds);
  const name = any(nodes);
  switch (kind) {
    case "addNode":
      return {
        op: kind,
        name: `n${Math.floor(next() * 1e6)}`,
        type: any(["Linear", "ReLU", "add", "getattr", "Input"]),
      };
    case "moveNode":
      return { op: kind, name, position: [Math.floor(next() * 900), Math.floor(next() * 900)] };
    case "connect":
      return { op: kind, source: `${name}.output`, target: `${any(nodes)}.${any(["input", "other"])}` };
    case "disconnect":
      return edges.length > 0 ? { op: kind, ...any(edges) } : null;
    case "removeNode":
      return next() < 0.3 ? { op: kind, name } : null;
    case "renameNode":
      return { op: kind, name, newName: `r${Math.floor(next() * 1e6)}` };
    case "setProperty":
      return { op: kind, node: name, property: "out_features", value: Math.floor(next() * 9) };
  }
}

test("what is kept of the scene and the wiring before an edit is as if it were made anew", () => {
  const generator = numbers(19);
  const next = () => generator.next().value;
  const maker = new SceneMaker();
  let document = EMPTY;
  let applied = 0;
  for (let turn = 0; turn < 400; turn += 1) {
    const graph = document.graphs.get("");
    const op = randomOp(next, { nodes: [...(graph?.nodes.keys() ?? [])], edges: [...(graph?.edges.values() ?? [])] });
    try {
      document = op ? applyOps(document, [op as Op]) : document;
      applied += 1;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
    const sync = { version: turn, confirmed: document, pending: [], shown: document, history: {} };
    const state = { sync, derived: NOTHING_DERIVED, catalog, pictured: NONE } as unknown as SessionState;
    const kept = maker.make(state, PATH, NONE, NONE, NONE);
    const anew = new SceneMaker().make(state, PATH, NONE, NONE, NONE);
    expect([...(kept?.cards ?? [])]).toEqual([...(anew?.cards ?? [])]);
    expect(kept?.wires).toEqual(anew?.wires);
    expect(kept?.provisional).toEqual(anew?.provisional);
    const now = document.graphs.get("");
    if (!now) throw new Error("The outermost graph is gone.");
    const { into, outOf } = wiringOf(now);
    const made = wiringOf({ ...now, edges: new Map(now.edges) });
    expect(into).toEqual(made.into);
    const sorted = (all: typeof outOf) => new Map([...all].map(([name, list]) => [name, new Set(list)]));
    expect(sorted(outOf)).toEqual(sorted(made.outOf));
  }
  expect(applied).toBeGreaterThan(200);
});
