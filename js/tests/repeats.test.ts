import { describe, expect, test } from "vitest";
import given from "../../tests/cases/repeats.json";
import { fromState, type Graph } from "../src/editor/document/document";
import { runsOf } from "../src/editor/document/repeats";
import { foldsOf, placedAt, settled, shownAt } from "../src/editor/scene/folded";
import type { Point } from "../src/editor/scene/placement";
import type { DocumentState } from "../src/protocol";

interface Case {
  about: string;
  document: DocumentState;
  resolved: Record<string, unknown>;
  runs: string[][][];
  shown: Record<string, Point>;
}

const cases = given.cases as unknown as Case[];

function read({ document, resolved }: Case) {
  const whole = fromState(document);
  const graph = whole.graphs.get("") as Graph;
  const runs = runsOf(whole, graph, (name) => resolved[name]);
  const placeOf = (name: string) => graph.nodes.get(name)?.position ?? null;
  return { graph, runs, placeOf, folds: foldsOf(graph, runs, [], placeOf) };
}

describe("rows are found and folded as in Python", () => {
  test.each(cases)("$about", (each) => {
    const { graph, runs, folds, placeOf } = read(each);
    expect(runs).toEqual(each.runs);
    const visible = [...graph.nodes.keys()].filter((name) => !folds.heads.has(name));
    expect(Object.fromEntries(visible.map((name) => [name, shownAt(folds, placeOf(name) as Point)]))).toEqual(
      each.shown,
    );
  });
});

describe("a place on the screen leads back to the document", () => {
  test.each(cases)("$about", (each) => {
    const { folds } = read(each);
    for (let at = -60; at < 700; at += 7)
      for (const point of [
        [at, 30],
        [30, at],
        [at, at],
      ] as const)
        expect(shownAt(folds, placedAt(folds, point))).toEqual(point);
  });
  test("with a folded card go all that it stands for", () => {
    const { folds, placeOf } = read(cases[0] as Case);
    const moved = settled(
      folds,
      new Map<string, Point>([
        ["a", [10, 105]],
        ["y", [0, 230]],
      ]),
      placeOf,
    );
    expect([...moved]).toEqual([
      ["a", [10, 105]],
      ["b", [10, 205]],
      ["c", [10, 305]],
      ["y", [0, 430]],
    ]);
  });
});
