import { expect, test } from "vitest";
import { lines, widths } from "../../tests/cases/cards.json";
import { cases } from "../../tests/cases/inlining.json";
import { EMPTY_GRAPH } from "../src/editor/document/document";
import { giverOf, inliningOf, partAt, withOwn } from "../src/editor/scene/inlining";
import { isWide, linesOf, wordsOf } from "../src/editor/scene/summary";

interface Case {
  /** With what imported code calls the result. */
  nodes: Record<string, [type: string, properties: Record<string, unknown>, variable?: string]>;
  edges: [source: string, target: string][];
}

const partsFrom = (texts: readonly string[]) => texts.map((text) => [{ property: null, text }]);
const NONE: ReadonlySet<string> = new Set();

function graphOf({ nodes, edges }: Case) {
  return {
    ...EMPTY_GRAPH,
    nodes: new Map(
      Object.entries(nodes).map(([name, [type, properties, variable]]) => {
        const origin = variable === undefined ? null : { proof: "equal", variables: { output: variable } };
        return [name, { name, type, properties, origin } as never];
      }),
    ),
    edges: new Map(edges.map(([source, target]) => [target, { source, target }])),
  };
}

test.each(cases)("$about: as in Python's picture", (each) => {
  const found = inliningOf(graphOf(each as unknown as Case), NONE);
  expect([...found.hidden].sort()).toEqual([...each.hidden].sort());
  const written = [...found.written].flatMap(([name, ports]) =>
    [...ports].map(([port, { text }]) => [`${name}.${port}`, text]),
  );
  expect(Object.fromEntries(written)).toEqual(each.written);
  expect(Object.fromEntries(found.picks)).toEqual(each.picks);
  expect(found.chains).toEqual(each.chains);
});

test.each(lines)("$parts stand in the lines that Python draws", ({ parts, wide, lines }) => {
  expect(linesOf(partsFrom(parts), wide).map(wordsOf)).toEqual(lines);
});

test.each(widths)("$about: as wide as in Python", ({ title, kind, parts, marks, wide }) => {
  expect(isWide(title, kind, partsFrom(parts), marks)).toBe(wide);
});

const [, sizes, parts] = cases as unknown as [Case, Case, Case];

test("what a view keeps as a card is drawn, and what leads to it is written on it", () => {
  const found = inliningOf(graphOf(sizes), new Set(["tuple"]));
  expect(found.hidden.has("tuple")).toBe(false);
  expect([...(found.written.get("tuple")?.values() ?? [])].map(({ text }) => text)).toEqual([
    "B",
    "4",
    "x.shape[1]//4",
  ]);
  expect(found.written.has("view")).toBe(false);
});

test("an edge from a part begins at the card that gives it", () => {
  const found = inliningOf(graphOf(parts), NONE);
  expect(giverOf(found, "q.output")).toEqual(["chunk", "q"]);
  expect(giverOf(found, "view.output")).toEqual(["view", "output"]);
});

test("a card goes with what is written for it alone, and with the parts that are taken of it", () => {
  const graph = graphOf(sizes);
  expect([...withOwn(inliningOf(graph, NONE), graph, new Set(["view"]))].sort()).toEqual(
    ["B", "constant", "floordiv", "getattr", "getitem2", "tuple", "view"].sort(),
  );
  const split = graphOf(parts);
  expect([...withOwn(inliningOf(split, NONE), split, new Set(["chunk"]))]).toEqual(["chunk", "q", "k"]);
  expect([...withOwn(inliningOf(split, NONE), split, new Set(["matmul"]))]).toEqual(["matmul"]);
  const labelled = graphOf(cases.find(({ about }) => about.startsWith("a part of a result")) as unknown as Case);
  const labels = inliningOf(labelled, NONE);
  for (const end of ["fc", "flatten"])
    expect([...withOwn(labels, labelled, new Set([end]))].includes("getitem")).toBe(true);
  expect(giverOf(labels, "getitem.output")).toEqual(["flatten", "output"]);
  expect(partAt(labels, "getitem.output")).toBe("flatten[:, 0]");
  const guarded = graphOf(cases.at(-1) as unknown as Case);
  const found = inliningOf(guarded, NONE);
  expect(withOwn(found, guarded, new Set(["x"])).has("check")).toBe(true);
  expect([...withOwn(found, guarded, new Set(["fc"]))]).toEqual(["fc"]);
  expect(inliningOf(guarded, new Set(["check"])).hidden.has("check")).toBe(false);
});
