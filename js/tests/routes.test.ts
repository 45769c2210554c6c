import { describe, expect, test } from "vitest";
import given from "../../tests/cases/routes.json";
import type { Point } from "../src/editor/scene/placement";
import { routed } from "../src/editor/scene/routes";

interface Case {
  about: string;
  start: Point;
  end: Point;
  boxes: [number, number, number, number][];
  own?: [number, number, number, number][];
  points: Point[];
}

const cases = given.cases as unknown as Case[];

describe("edges run around nodes as in Python", () => {
  test.each(cases)("$about", ({ start, end, boxes, own = [], points }) => {
    const asBoxes = (all: Case["boxes"]) =>
      all.map(([left, top, right, bottom]) => ({ left, top, width: right - left, height: bottom - top }));
    expect(routed(start, end, asBoxes(boxes), false, asBoxes(own))).toEqual(points);
    const turn = ([x, y]: Point): Point => [y, x];
    const turned = (all: Case["boxes"]) => asBoxes(all.map(([left, top, right, bottom]) => [top, left, bottom, right]));
    expect(routed(turn(start), turn(end), turned(boxes), true, turned(own))).toEqual(points.map(turn));
  });
});
