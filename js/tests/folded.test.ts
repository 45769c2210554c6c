import { expect, test } from "vitest";
import { cases } from "../../tests/cases/folding.json";
import { EMPTY_GRAPH } from "../src/editor/document/document";
import { foldsOf, shownAt } from "../src/editor/scene/folded";
import type { Point } from "../src/editor/scene/placement";

test.each(cases)("the room of $runs is closed as in Python's picture", ({ places, runs, shown }) => {
  const at = new Map(Object.entries(places as Record<string, unknown>) as [string, Point][]);
  const nodes = new Map([...at.keys()].map((name) => [name, { name, type: "ReLU" }]));
  const folds = foldsOf(
    { ...EMPTY_GRAPH, nodes },
    runs.map((run) => [run]),
    [],
    (name) => at.get(name) ?? null,
  );
  const visible = [...at].filter(([name]) => !folds.heads.has(name));
  expect(Object.fromEntries(visible.map(([name, place]) => [name, shownAt(folds, place)]))).toEqual(shown);
});
