import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { freeName, RESERVED, stemOf, whyNotName } from "../src/editor/document/names";

test("the reserved names are Python's", () => {
  const source = readFileSync(new URL("../../pnne_nb/graph/names.py", import.meta.url), "utf8");
  const attributes = /MODULE_ATTRIBUTES = frozenset\(\s*"""([^"]+)"""/.exec(source)?.[1]?.trim().split(/\s+/) ?? [];
  expect(attributes.length).toBeGreaterThan(80);
  expect(attributes.filter((name) => !RESERVED.has(name))).toEqual([]);
});

test.each([
  ["Conv2d", "conv2d"],
  ["MaxPool2d", "max_pool2d"],
  ["ReLU", "relu"],
  ["PReLU", "prelu"],
  ["LSTM", "lstm"],
  ["CrossEntropyLoss", "cross_entropy_loss"],
  ["scaled_dot_product_attention", "scaled_dot_product_attention"],
])("nodes of type %s are called %s", (type, stem) => {
  expect(stemOf(type)).toBe(stem);
});

test("a new node gets the smallest free number", () => {
  expect(freeName("Conv2d", new Set(["conv2d1", "conv2d3"]))).toBe("conv2d2");
});

test.each([
  ["", "A name is needed"],
  ["a b", "letters, digits and underscores"],
  ["a".repeat(101), "at most 100"],
  ["forward", "means something in Python"],
  ["__x", "means something in Python"],
  ["taken", "already a node taken"],
])("%s is refused as a name", (name, reason) => {
  const taken = { name: "taken", type: "ReLU", properties: {}, position: null, origin: null };
  expect(
    whyNotName({ nodes: new Map([["taken", taken]]), edges: new Map(), frames: new Map() }, "here", name),
  ).toContain(reason);
});
