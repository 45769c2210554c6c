import { describe, expect, test } from "vitest";
import given from "../../tests/cases/routes.json";
import type { Point } from "../src/editor/scene/placement";
import { labelPlace, parted, routed } from "../src/editor/scene/routes";

interface Case {
  about: string;
  start: Point;
  end: Point;
  boxes: [number, number, number, number][];
  own?: [number, number, number, number][];
  points: Point[];
}

interface Lanes {
  about: string;
  boxes: Case["boxes"];
  routes: [port: string, ...points: Point[]][];
  parted: Point[][];
}

const cases = given.cases as unknown as Case[];
const lanes = given.lanes as unknown as Lanes[];

const asBoxes = (all: Case["boxes"]) =>
  all.map(([left, top, right, bottom]) => ({ left, top, width: right - left, height: bottom - top }));
const turn = ([x, y]: Point): Point => [y, x];
const turned = (all: Case["boxes"]) => asBoxes(all.map(([left, top, right, bottom]) => [top, left, bottom, right]));

describe("edges run around nodes as in Python", () => {
  test.each(cases)("$about", ({ start, end, boxes, own = [], points }) => {
    expect(routed(start, end, asBoxes(boxes), false, asBoxes(own))).toEqual(points);
    expect(routed(turn(start), turn(end), turned(boxes), true, turned(own))).toEqual(points.map(turn));
  });
  test.each(lanes)("$about: no two share a line", ({ boxes, routes, parted: wanted }) => {
    expect(
      parted(
        routes.map(([port, ...points]) => [port, points] as const),
        asBoxes(boxes),
      ),
    ).toEqual(wanted);
    const across = routes.map(([port, ...points]) => [port, points.map(turn)] as const);
    expect(parted(across, turned(boxes), true)).toEqual(wanted.map((points) => points.map(turn)));
  });
});

test("a label that would run behind a card stands on the other side of its edge, or at its start", () => {
  const points: Point[] = [
    [0, 0],
    [0, 200],
  ];
  const ends = [-60, 200].map((top) => ({ left: -75, top, width: 150, height: 60 }));
  const right = { left: 20, top: 80, width: 100, height: 40 };
  const left = { ...right, left: -120 };
  expect(labelPlace(points, "N×T×64", ends)).toEqual({ at: [0, 100], side: 1 });
  expect(labelPlace(points, "N×T×64", [...ends, right])).toEqual({ at: [0, 100], side: -1 });
  expect(labelPlace(points, "N×T×64", [...ends, right, left])).toEqual({ at: [0, 10], side: 1 });
  expect(labelPlace(points, "N×T×64", [...ends, { ...right, top: 0, height: 200 }, left])).toEqual({
    at: [0, 10],
    side: -1,
  });
});
