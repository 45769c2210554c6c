import { expect, test } from "vitest";
import { searchTypes, similarity } from "../src/editor/panels/search";
import type { NodeTypeState } from "../src/protocol";

const type = (name: string, category: string, doc = ""): NodeTypeState => ({
  type: name,
  category,
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
