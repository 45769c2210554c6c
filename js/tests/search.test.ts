import { expect, test } from "vitest";
import { placesOf } from "../src/editor/document/definitions";
import { fromState } from "../src/editor/document/document";
import { nodeSimilarity, searchTypes, similarity } from "../src/editor/panels/search";
import { type NodeTypeState, UNKNOWN } from "../src/protocol";
import { documentOf } from "./openEditor";

const type = (name: string, category: string, doc = ""): NodeTypeState => ({
  type: name,
  category: { ...UNKNOWN, name: category },
  kind: "module",
  doc,
});
const TYPES = [
  type("AvgPool2d", "Pooling"),
  type("MaxPool2d", "Pooling", "Takes the largest of each window."),
  type("FractionalMaxPool2d", "Pooling"),
  type("Conv2d", "Convolution"),
  type("ConvTranspose2d", "Convolution"),
  type("LazyConv2d", "Convolution"),
  type("conv2d", "Convolution"),
  type("Linear", "Linear"),
  type("relu", "Activation"),
  type("LeakyReLU", "Activation"),
];
const found = (text: string) => searchTypes(TYPES, text).map(({ type }) => type);

test("an empty text finds everything in its order", () => {
  expect(found(" ")).toEqual(TYPES.map(({ type }) => type));
});

test.each([
  ["conv2d", "Conv2d"],
  ["maxp", "MaxPool2d"],
  ["mp2", "MaxPool2d"],
  ["lin", "Linear"],
  ["leaky relu", "LeakyReLU"],
  ["window", "MaxPool2d"],
])("%s finds %s first", (text, first) => {
  expect(found(text)[0]).toBe(first);
});

test("a category finds its members", () => {
  expect(new Set(found("pooling"))).toEqual(new Set(["AvgPool2d", "MaxPool2d", "FractionalMaxPool2d"]));
});

test("every word must fit", () => {
  expect(found("conv pool")).toEqual([]);
  expect(found("zzz")).toEqual([]);
});

test("the start of a part of a name fits better than its middle", () => {
  expect(similarity("MaxPool2d", "pool")).toBeGreaterThan(similarity("Whirlpool", "pool"));
});

const block = (name: string, definition: string) => ({ name, type: "Subgraph", properties: { definition } });
const NET = fromState(
  documentOf({
    "": { nodes: [{ name: "conv1", type: "Conv2d" }, block("layer1", "Stage"), block("layer2", "Stage")] },
    Stage: { nodes: [block("0", "BasicBlock"), block("1", "BasicBlock")] },
    BasicBlock: { nodes: [{ name: "conv1", type: "Conv2d" }] },
  }),
);

test("nodes are at every place where they are seen, the outermost first", () => {
  const paths = placesOf(NET).map(({ path }) => path);
  expect(paths.slice(0, 5)).toEqual(["conv1", "layer1", "layer2", "layer1.0", "layer1.1"]);
  expect(paths.filter((path) => path.endsWith("conv1"))).toHaveLength(5);
  expect(placesOf(NET, 4)).toHaveLength(4);
});

test.each([
  ["layer1.0.conv1", "layer1.0.conv1", ""],
  ["1.conv1", "layer1.1.conv1", "layer1.1."],
  ["conv1", "conv1", ""],
  ["conv1", "layer2.1.conv1", "layer2.1."],
  ["basicblock", "layer1.0", ""],
])("a node is found by %s", (word, best, shown) => {
  const [first] = placesOf(NET)
    .map((place) => ({ path: place.path, score: nodeSimilarity(place, word, shown) }))
    .sort((a, b) => b.score - a.score);
  expect(first?.path).toBe(best);
});

test("what suits the tensor that comes in is offered first, and what the graph uses", () => {
  const type = (name: string) => ({ type: name, category: { name: "Layers" } }) as unknown as NodeTypeState;
  const all = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "Flatten", "Hardswish", "Linear", "LSTM", "Sigmoid"].map(
    type,
  );
  const first = (shape: (string | number)[], dtype = "float32", counts: [string, number][] = []) =>
    searchTypes(all, "", { shape: { shape, dtype }, counts: new Map(counts) }).map((each) => each.type);
  expect(first(["N", 3, 32, 32])[0]).toBe("Conv2d");
  expect(first(["N", 16])[0]).toBe("Linear");
  expect(first(["N", 8, 16]).slice(0, 2)).toContain("LSTM");
  expect(first(["N", 8], "int64")[0]).toBe("Embedding");
  expect(first(["N", 3, 32, 32]).at(-1)).not.toBe("Flatten");
  const used = first(["N", 16], "float32", [["Hardswish", 3]]);
  expect(used.indexOf("Hardswish")).toBeLessThan(used.indexOf("Sigmoid"));
  const named = searchTypes(all, "conv", { shape: { shape: ["N", 1, 2, 3, 4], dtype: "float32" }, counts: new Map() });
  expect(named[0]?.type).toBe("Conv3d");
});
