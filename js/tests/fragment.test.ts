import { expect, test } from "vitest";
import { discardOps, usedBy, usesOf } from "../src/editor/document/definitions";
import { fromState, type GraphDocument } from "../src/editor/document/document";
import { fragmentOf, parseFragment, pasteOps } from "../src/editor/document/fragment";
import { applyOps } from "../src/editor/document/reduce";
import type { GraphState, NodeState } from "../src/protocol";

const block = (name: string, definition: string): NodeState => ({ name, type: "Subgraph", properties: { definition } });
const inner: GraphState = { nodes: [{ name: "relu", type: "ReLU" }] };
const outer: GraphState = { nodes: [block("deep", "inner"), { name: "fc", type: "Linear" }] };

function documentOf(graphs: Record<string, GraphState>): GraphDocument {
  return fromState({ format: "pnne-graph", formatVersion: 1, name: "net", graphs });
}

const whole = documentOf({ "": { nodes: [block("a", "outer"), block("b", "outer")] }, outer, inner });

function copied(document: GraphDocument, ...names: string[]) {
  const graph = document.graphs.get("");
  if (!graph) throw new Error("A document has a root.");
  return fragmentOf(document, graph, new Set(names), new Set());
}

test("a fragment has every definition that its nodes show, inner ones first", () => {
  expect(Object.keys(copied(whole, "a").definitions)).toEqual(["inner", "outer"]);
  expect(usedBy(whole.graphs, [block("c", "inner")])).toEqual(["inner"]);
  expect(usesOf(whole).get("outer")).toBe(2);
});

test("what is there already is used, and what only has the same name is left alone", () => {
  const { ops } = pasteOps(copied(whole, "a"), whole, "", [0, 0]);
  expect(ops.map((op) => op.op)).toEqual(["addNode"]);
  const other = documentOf({ "": { nodes: [] }, inner: { nodes: [{ name: "gelu", type: "GELU" }] } });
  const pasted = applyOps(other, pasteOps(copied(whole, "a"), other, "", [0, 0]).ops);
  expect([...pasted.graphs.keys()]).toEqual(["", "inner", "inner2", "outer"]);
  expect(pasted.graphs.get("outer")?.nodes.get("deep")?.properties?.definition).toBe("inner2");
  expect(pasted.graphs.get("inner")?.nodes.has("gelu")).toBe(true);
});

test("where nodes stand makes no other definition of it", () => {
  const moved = documentOf({ "": {}, outer, inner: { nodes: [{ name: "relu", type: "ReLU", position: [5, 5] }] } });
  expect(pasteOps(copied(whole, "a"), moved, "", [0, 0]).ops.map((op) => op.op)).toEqual(["addNode"]);
});

test("a graph does not end up inside itself", () => {
  const pasted = applyOps(whole, pasteOps(copied(whole, "a"), whole, "inner", [0, 0]).ops);
  const node = [...(pasted.graphs.get("inner")?.nodes.values() ?? [])].find(({ type }) => type === "Subgraph");
  expect(node?.properties?.definition).toBe("outer2");
});

test("sharing survives a paste in any order", () => {
  const shared = documentOf({
    "": {
      nodes: [
        { name: "tied", type: "Linear", properties: { shares: "own" } },
        { name: "own", type: "Linear" },
      ],
    },
  });
  const { ops, names } = pasteOps(copied(shared, "tied", "own"), shared, "", [0, 0]);
  expect(ops.at(-1)).toEqual({ op: "setProperty", node: names[0], property: "shares", value: names[1], graph: "" });
});

test("what nothing shows any more is discarded, once the last use is gone", () => {
  const nodes = [...(whole.graphs.get("")?.nodes.values() ?? [])];
  expect(discardOps(whole, nodes.slice(0, 1))).toEqual([]);
  const removal = [
    ...nodes.map(({ name }) => ({ op: "removeNode" as const, name, graph: "" })),
    ...discardOps(whole, nodes),
  ];
  expect([...applyOps(whole, removal).graphs.keys()]).toEqual([""]);
});

test.each(["", "3", '{"format": "other"}', '{"format": "pnne-fragment", "nodes": {}, "edges": []}', "{"])(
  "%s is no fragment",
  (text) => expect(parseFragment(text)).toBeNull(),
);
