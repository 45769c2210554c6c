import { expect, test } from "vitest";
import { bytesText, countText, exampleText } from "../src/editor/values/amounts";

test("counts are short, and no step is skipped", () => {
  expect([0, 7, 999, 1000, 86_400, 999_999, 1_500_000_000].map(countText)).toEqual([
    "0",
    "7",
    "999",
    "1 k",
    "86.4 k",
    "1 M",
    "1.5 G",
  ]);
});

test("sizes are in steps of 1,024 bytes", () => {
  expect([0, 1000, 1023, 1024, 246_824, 1_048_575].map(bytesText)).toEqual([
    "0 B",
    "1000 B",
    "1023 B",
    "1 KiB",
    "241 KiB",
    "1 MiB",
  ]);
});

test("what costs are for is said as briefly as it can be", () => {
  expect(exampleText({})).toBe("");
  expect(exampleText({ N: 1 })).toBe("per sample");
  expect(exampleText({ N: 1, H: 256 })).toBe("at N=1, H=256");
  expect(exampleText({ T: 6 })).toBe("at T=6");
});
