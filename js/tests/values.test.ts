import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { calculate, type Sizes } from "../src/editor/values/calculate";
import { check, describe as inWords } from "../src/editor/values/check";
import { parseLiteral } from "../src/editor/values/literal";
import { parseAs, textOf } from "../src/editor/values/text";
import type { PropertyType } from "../src/protocol";

interface Case {
  type: PropertyType;
  value: unknown;
  accepted?: unknown;
  refused?: string;
}

const folder = fileURLToPath(new URL("../../tests/cases/values", import.meta.url));
const cases = readdirSync(folder)
  .filter((file) => file.endsWith(".json"))
  .flatMap((file) => JSON.parse(readFileSync(join(folder, file), "utf8")) as Case[]);

test.each(cases)("$type takes or refuses $value as Python does", ({ type, value, accepted, refused }) => {
  const checked = check(type, value);
  if (refused !== undefined) {
    expect(checked.ok).toBe(false);
    expect(inWords(type)).toBe(refused);
  } else {
    expect(checked).toEqual({ ok: true, value: accepted });
  }
});

test.each(cases.filter(({ refused }) => refused === undefined))(
  "$type reads back the text of $accepted",
  ({ type, accepted }) => {
    const text = textOf(type, accepted);
    // An empty field means the default; a text property alone can hold the empty text.
    if (text.trim() !== "") expect(parseAs(type, text)).toEqual({ ok: true, value: accepted });
  },
);

test.each([
  ["3", 3],
  ["-2.5e3", -2500],
  ["1_000", 1000],
  ["3, 5", [3, 5]],
  ["(3, 5)", [3, 5]],
  ["(3)", 3],
  ["3,", [3]],
  [
    "(1, 2), (3, 4)",
    [
      [1, 2],
      [3, 4],
    ],
  ],
  ["[1, 2]", { $list: [1, 2] }],
  ["[(1, 2)]", { $list: [[1, 2]] }],
  ["()", []],
  ["{'a': 1}", { $dict: [["a", 1]] }],
  ["'it\\'s'", "it's"],
  ["None", null],
  ["True", true],
  ["-inf", { $float: "-inf" }],
  ["2j", { $complex: [0, 2] }],
  ["torch.float16", { $torch: "float16" }],
  ["...", { $ellipsis: true }],
  ["slice(1, None)", { $slice: [1, null, null] }],
  ["slice(4)", { $slice: [null, 4, null] }],
  ["N, 1, 28", ["N", 1, 28]],
])("%s is read as a Python constant", (text, value) => {
  expect(parseLiteral(text)).toEqual(value);
});

const calculations = JSON.parse(
  readFileSync(fileURLToPath(new URL("../../tests/cases/calculations.json", import.meta.url)), "utf8"),
) as [string, number | null, Sizes?][];

test.each(calculations)("%s calculates as in Python", (text, value, sizes) => {
  const found = calculate(text, sizes);
  expect(found?.length === text.length ? found.value : null).toBe(value);
});

test.each([
  [{ type: "int", minimum: 1 }, "2*64", 128],
  [{ type: "tuple", item: { type: "int" }, length: 2, scalar: true }, "6//2, (1 + 1)*3", [3, 6]],
  [{ type: "optional", item: { type: "shape" } }, "None, 3, 32, 32", ["N", 3, 32, 32]],
  [{ type: "optional", item: { type: "shape" } }, "-1, 3, -1, 2*16", ["N", 3, "D2", 32]],
  [{ type: "shape" }, "N×3×32×32", ["N", 3, 32, 32]],
] as const)("a field of %j takes %s", (type, text, value) => {
  expect(parseAs(type as PropertyType, text)).toEqual({ ok: true, value });
});

test.each([
  ["2*", ""],
  ["64//0", " Or does it divide by zero?"],
  ["2*hiden", " The graph has no size hiden; add it under Sizes, in the panel of the graph."],
])("%s is refused with what the field takes", (text, why) => {
  const reason = `It must be a whole number ≥ 1.${why}`;
  expect(parseAs({ type: "int", minimum: 1 }, text, { hidden: 64 })).toEqual({ ok: false, reason });
});

test.each([
  [{ type: "int", minimum: 1 }, "4 * hidden", { $size: ["4*hidden", 256] }],
  [{ type: "float" }, "hidden", { $size: ["hidden", 64] }],
  [{ type: "shape" }, "N, hidden, 3", ["N", { $size: ["hidden", 64] }, 3]],
  [{ type: "tuple", item: { type: "int" }, scalar: true }, "hidden//32, 5", [{ $size: ["hidden//32", 2] }, 5]],
] as const)("a field of %j takes %s, and shows it again", (type, text, value) => {
  const kind = type as PropertyType;
  expect(parseAs(kind, text, { hidden: 64 })).toEqual({ ok: true, value });
  expect(textOf(kind, value)).toBe(text.replace("4 * hidden", "4*hidden"));
});

test.each(["", "(1", "1)", "'open", "{1}", "1 2", "3x", "+", "99999999999999999999"])("%s is no constant", (text) => {
  expect(parseLiteral(text)).toBeUndefined();
});
