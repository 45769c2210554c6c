import { expect, test } from "vitest";
import { cases as directions } from "../../tests/cases/directions.json";
import { cases } from "../../tests/cases/geometry.json";
import { geometryOf, runsRight } from "../src/editor/scene/geometry";

const view = (name: string) => ({ name, kind: "tensor" as const, optional: false, wired: false, doc: "" });

test.each(cases)("a node with $inputs and $outputs has the size that Python arranges it with", (wanted) => {
  const ports = { inputs: wanted.inputs.map(view), outputs: wanted.outputs.map(view) };
  const geometry = geometryOf(ports, wanted.lines, wanted.wide, wanted.collapsed, wanted.across);
  expect([geometry.width, geometry.height]).toEqual([wanted.width, wanted.height]);
  const places = (side: string) =>
    geometry.handles.filter((place) => place.side === side).map(({ x, y }) => (wanted.across ? y : x));
  expect(places("input")).toEqual(wanted.inputPlaces);
  expect(places("output")).toEqual(wanted.outputPlaces);
});

test.each(directions)("$about: the same direction as in Python", ({ ends, right }) => {
  expect(runsRight(ends as [number, number, number, number][])).toBe(right);
});
