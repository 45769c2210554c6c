import { expect, test } from "vitest";
import { fromState } from "../src/editor/document/document";
import { placesOf } from "../src/editor/document/places";
import { nodeSimilarity, searchTypes, similarity } from "../src/editor/panels/search";
import { type NodeTypeState, UNKNOWN } from "../src/protocol";

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
const NET = fromState({
  format: "pnne-graph",
  formatVersion: 1,
  name: "net",
  graphs: {
    "": { nodes: [{ name: "conv1", type: "Conv2d" }, block("layer1", "Stage"), block("layer2", "Stage")] },
    Stage: { nodes: [block("0", "BasicBlock"), block("1", "BasicBlock")] },
    BasicBlock: { nodes: [{ name: "conv1", type: "Conv2d" }] },
  },
});

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
