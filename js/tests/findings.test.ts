import { expect, test } from "vitest";
import { barLengths, bringBackText, curvePath, shortNumber } from "../src/controls/findings";

test("numbers of evidence are short", () => {
  expect([0, 0.97, 1234.6, 1e-6, 2.5e7, -3].map(shortNumber)).toEqual(["0", "0.97", "1,230", "1.0e-6", "2.5e7", "-3"]);
});

test("bars are as long as their numbers, and of numbers that are far apart as their powers of ten", () => {
  expect(barLengths([0.5, 1])).toEqual([0.5, 1]);
  expect(barLengths([0, 0])).toEqual([0, 0]);
  expect(barLengths([-2, 4])).toEqual([0.5, 1]);
  const far = barLengths([1, 1000, 0]);
  expect(far[0]).toBeCloseTo(0.25);
  expect(far[1]).toBeCloseTo(1);
  expect(far[2]).toBe(0);
});

test("a curve has gaps where nothing is a number, and lies in the middle where it does not change", () => {
  expect(curvePath([0, null, 1, 0], 0, 1)).toBe("M2.0 33.0M87.3 3.0L130.0 33.0");
  expect(curvePath([2, 2], 2, 2)).toBe("M2.0 18.0L130.0 18.0");
});

test("what was dismissed is counted", () => {
  expect([0, 1, 3].map(bringBackText)).toEqual(["", "Show the dismissed finding", "Show 3 dismissed findings"]);
});
