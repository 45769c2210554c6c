import { expect, test } from "vitest";
import { matchPorts, portsIn, type Scene, whyNotConnect } from "../src/editor/document/connection";
import { EMPTY_GRAPH, fromState } from "../src/editor/document/document";
import { type NodeState, type NodeTypeState, type PortKind, UNKNOWN } from "../src/protocol";
import { documentOf } from "./openEditor";

const port = (name: string, kind: PortKind = "tensor") => ({ name, kind });
const TYPES: NodeTypeState[] = [
  { type: "Input", category: UNKNOWN, kind: "structural", outputs: [port("output", "value")] },
  { type: "ReLU", category: UNKNOWN, kind: "module", inputs: [port("input")], outputs: [port("output")] },
  {
    type: "add",
    category: UNKNOWN,
    kind: "function",
    inputs: [port("input"), port("other")],
    outputs: [port("output")],
  },
  {
    type: "cat",
    category: UNKNOWN,
    kind: "function",
    inputs: [{ name: "tensors", variadic: true }],
    outputs: [port("output")],
  },
  {
    type: "SGD",
    category: UNKNOWN,
    kind: "training",
    inputs: [{ name: "groups", kind: "parameters", optional: true }],
  },
  {
    type: "Pool",
    category: UNKNOWN,
    kind: "module",
    inputs: [port("input")],
    outputs: [port("output"), { name: "indices", when: "return_indices" }],
    properties: [{ name: "return_indices", type: { type: "bool" }, default: false }],
  },
];
const node = (name: string, type: string, properties: NodeState["properties"] = {}): NodeState => ({
  name,
  type,
  properties,
});

const document = fromState(
  documentOf({
    "": {
      nodes: [
        node("x", "Input"),
        node("a", "ReLU"),
        node("b", "ReLU"),
        node("sum", "add"),
        node("join", "cat"),
        node("sgd", "SGD"),
        node("block", "Subgraph", { definition: "inner" }),
        node("pool", "Pool", { return_indices: true }),
      ],
      edges: [
        { source: "x.output", target: "a.input" },
        { source: "a.output", target: "b.input" },
        { source: "a.output", target: "join.tensors_0" },
        { source: "b.output", target: "join.tensors_2" },
      ],
    },
    inner: { nodes: [node("image", "Input"), node("label", "Output")] },
  }),
);
const graph = document.graphs.get("") ?? EMPTY_GRAPH;
const scene: Scene = { document, graph, types: new Map(TYPES.map((type) => [type.type, type])) };
const named = (name: string) => graph.nodes.get(name) as NodeState;
const names = (name: string) => portsIn(scene, named(name));

test.each([
  ["x.output", "sum.input", null],
  ["x.output", "a.input", "connected already"],
  ["b.output", "a.input", "close a loop"],
  ["sum.output", "sum.other", "cannot feed itself"],
  ["x.output", "sgd.groups", "gives a value, but sgd.groups takes parameters"],
  ["x.input", "sum.input", "x.input is not an output"],
  ["x.output", "sum.third", "sum.third is not an input"],
  ["a.output", "block.image", null],
  ["block.label", "join.tensors_1", null],
])("%s to %s: %s", (source, target, reason) => {
  const why = whyNotConnect(scene, source, target);
  if (reason === null) expect(why).toBeNull();
  else expect(why).toContain(reason);
});

test("a connection that closes a loop is refused", () => {
  expect(whyNotConnect(scene, "join.output", "sum.input")).toBeNull();
  const looped = {
    ...graph,
    edges: new Map(graph.edges).set("sum.input", { source: "join.output", target: "sum.input" }),
  };
  expect(whyNotConnect({ ...scene, graph: looped }, "sum.output", "a.other")).toContain("not an input");
  const free = new Map(looped.edges);
  free.delete("a.input");
  expect(whyNotConnect({ ...scene, graph: { ...looped, edges: free } }, "sum.output", "a.input")).toContain("loop");
});

test("a variadic input shows its slots, the gaps between them, and one to spare", () => {
  expect(names("join").inputs.map((shown) => [shown.name, shown.wired])).toEqual([
    ["tensors_0", true],
    ["tensors_1", false],
    ["tensors_2", true],
    ["tensors_3", false],
  ]);
});

test("a nested graph's ports are its Input and Output nodes", () => {
  expect(names("block").inputs.map(({ name }) => name)).toEqual(["image"]);
  expect(names("block").outputs.map(({ name }) => name)).toEqual(["label"]);
});

test("an output may depend on a property", () => {
  expect(names("pool").outputs.map(({ name }) => name)).toEqual(["output", "indices"]);
  const plain = portsIn(scene, node("pool", "Pool"));
  expect(plain.outputs.map(({ name }) => name)).toEqual(["output"]);
});

test("nodes are connected at their first free ports that match", () => {
  expect(matchPorts("x", names("x"), "sum", names("sum"))).toEqual({ source: "x.output", target: "sum.input" });
  expect(matchPorts("x", names("x"), "join", names("join"))).toEqual({ source: "x.output", target: "join.tensors_1" });
  expect(matchPorts("x", names("x"), "sgd", names("sgd"))).toBeNull();
  expect(matchPorts("x", names("x"), "a", names("a"))).toBeNull();
});
