import { expect, test } from "vitest";
import { fromState } from "../src/editor/document/document";
import { SceneMaker } from "../src/editor/scene/scene";
import { NOTHING_DERIVED } from "../src/editor/session/derived";
import type { SessionState } from "../src/editor/session/session";
import type { DocumentState, NodeTypeState } from "../src/protocol";

const NONE = new Set<string>();
const outputs = ["output", "h_n", "c_n"].map((name) => ({ name }));
const catalog = {
  key: "k",
  types: new Map([
    ["LSTM", { type: "LSTM", inputs: [{ name: "input" }], outputs } as unknown as NodeTypeState],
    ["ReLU", { type: "ReLU", inputs: [{ name: "input" }], outputs: [{ name: "output" }] } as unknown as NodeTypeState],
  ]),
};

/** An LSTM and what takes one of its outputs, as drawn: the outputs of its card, and whether the switch of values is there. */
function drawn(isImported: boolean, taken: string | null, outlined: ReadonlySet<string> | "all" = NONE) {
  const origin = isImported ? { proof: "equal" } : null;
  const nodes = [
    { name: "lstm", type: "LSTM", origin },
    { name: "act", type: "ReLU" },
  ];
  const edges = taken ? [{ source: `lstm.${taken}`, target: "act.input" }] : [];
  const state = { format: "pnne-graph", formatVersion: 1, name: "net", graphs: { "": { nodes, edges } } };
  const document = fromState(state as unknown as DocumentState);
  const session = {
    sync: { shown: document },
    derived: NOTHING_DERIVED,
    catalog,
    pictured: NONE,
  } as unknown as SessionState;
  const scene = new SceneMaker().make(session, [], NONE, NONE, outlined);
  return [scene?.cards.get("lstm")?.ports.outputs.map(({ name }) => name), scene?.absorbs()];
}

const ALL = ["output", "h_n", "c_n"];

test("outputs that imported code does not use are not drawn, unless all values are", () => {
  expect(drawn(true, "output")).toEqual([["output"], true]);
  expect(drawn(true, "h_n")).toEqual([["h_n"], true]);
  expect(drawn(true, "output", "all")).toEqual([ALL, true]);
});

test("of what a person draws, and where none is used, all outputs are there to be connected", () => {
  expect(drawn(false, "output")).toEqual([ALL, false]);
  expect(drawn(true, null)).toEqual([ALL, true]);
});
