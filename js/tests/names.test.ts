import { expect, test } from "vitest";
import cases from "../../tests/cases/names.json";
import { freeIdentifier, freeName, whyNotName, whyReserved } from "../src/editor/document/names";

test.each(cases.first)("the first node of type %s is called %s, as in Python", (type, name) => {
  expect(freeName(type as string, new Set())).toBe(name);
});

test.each(cases.free)("%s, where %j are taken, becomes %s", (name, taken, free) => {
  expect(freeIdentifier(name as string, new Set(taken))).toBe(free);
});

test("names are legal exactly where Python says so", () => {
  expect(cases.legal.filter((name) => whyReserved(name) !== null)).toEqual([]);
  expect(cases.illegal.filter((name) => whyReserved(name) === null)).toEqual([]);
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
