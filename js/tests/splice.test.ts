import { expect, test } from "vitest";
import { fromState } from "../src/editor/document/document";
import { bridges, edgeFrom, insertOps } from "../src/editor/document/splice";
import { aligned, distributed } from "../src/editor/scene/align";
import { type NodeState, type NodeTypeState, UNKNOWN } from "../src/protocol";
import { documentOf } from "./openEditor";

const TYPES: NodeTypeState[] = [
  { type: "Input", category: UNKNOWN, kind: "structural", outputs: [{ name: "output", kind: "value" }] },
  { type: "ReLU", category: UNKNOWN, kind: "module", inputs: [{ name: "input" }], outputs: [{ name: "output" }] },
  {
    type: "add",
    category: UNKNOWN,
    kind: "function",
    inputs: [{ name: "a" }, { name: "b" }],
    outputs: [{ name: "output" }],
  },
  { type: "SGD", category: UNKNOWN, kind: "training", inputs: [{ name: "groups", kind: "parameters" }] },
];
const node = (name: string, type: string): NodeState => ({ name, type });
const document = fromState(
  documentOf({
    "": {
      nodes: [node("x", "Input"), node("r", "ReLU"), node("s", "add"), node("t", "ReLU")],
      edges: [
        { source: "x.output", target: "r.input" },
        { source: "r.output", target: "s.a" },
        { source: "r.output", target: "s.b" },
        { source: "s.output", target: "t.input" },
      ],
    },
  }),
);
const graph = document.graphs.get("");
if (!graph) throw new Error("The document has a root graph.");
const scene = { document, graph, types: new Map(TYPES.map((type) => [type.type, type])) };
const relu = {
  inputs: [{ name: "input", kind: "tensor" as const, optional: false, wired: false, doc: "" }],
  outputs: [{ name: "output", kind: "tensor" as const, optional: false, wired: false, doc: "" }],
};

test("an edge is found from either end, to a node that is not there yet", () => {
  expect(edgeFrom(scene, "x.output", "output", "new", relu)).toEqual({ source: "x.output", target: "new.input" });
  expect(edgeFrom(scene, "t.output", "input", "new", relu)).toBeNull();
});

test("a node goes into an edge with three ops, and not into its own", () => {
  const edge = { source: "s.output", target: "t.input" };
  expect(insertOps(scene, "new", relu, edge, "")?.map((op) => op.op)).toEqual(["disconnect", "connect", "connect"]);
  expect(insertOps(scene, "t", relu, edge, "")).toBeNull();
  expect(insertOps(scene, "sink", { ...relu, outputs: [] }, edge, "")).toBeNull();
});

test("a gap is closed from its one source to everything that it fed", () => {
  expect(bridges(scene, new Set(["r"]))).toEqual([
    { source: "x.output", target: "s.a" },
    { source: "x.output", target: "s.b" },
  ]);
  expect(bridges(scene, new Set(["r", "s"]))).toEqual([{ source: "x.output", target: "t.input" }]);
  expect(bridges(scene, new Set(["x"]))).toEqual([]);
  expect(bridges(scene, new Set(["t"]))).toEqual([]);
});

const box = (name: string, x: number, y: number, width = 100, height = 40) => {
  return { name, left: x - width / 2, top: y - height / 2, width, height };
};

test("nodes of different sizes are aligned by their sides", () => {
  const nodes = [box("a", 50, 0), box("b", 130, 90, 60)];
  expect([...aligned(nodes, "left").values()]).toEqual([
    [50, 0],
    [30, 90],
  ]);
  expect([...aligned(nodes, "right").values()]).toEqual([
    [110, 0],
    [130, 90],
  ]);
  expect([...aligned(nodes, "middle").values()].map(([, y]) => y)).toEqual([45, 45]);
});

test("gaps are made equal and the outermost nodes stay", () => {
  const spread = distributed([box("a", 0, 0), box("c", 0, 300), box("b", 0, 40, 100, 80)], "y");
  expect([spread.get("a"), spread.get("b"), spread.get("c")]).toEqual([
    [0, 0],
    [0, 150],
    [0, 300],
  ]);
});
