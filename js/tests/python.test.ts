import { expect, test } from "vitest";
import { tokensOf } from "../src/editor/fields/python";

const coloured = (source: string) =>
  tokensOf(source)
    .filter(({ kind }) => kind !== null)
    .map(({ kind, text }) => `${kind} ${text}`);

test("Python is coloured by what its pieces are", () => {
  expect(coloured('class Net(nn.Module):  # if "so"\n    eps = 1e-05\n')).toEqual([
    "keyword class",
    "defined Net",
    'comment # if "so"',
    "number 1e-05",
  ]);
  expect(coloured('def forward(self, x1): return f\'a # {x1}\' if inform else "\\" in"')).toEqual([
    "keyword def",
    "defined forward",
    "keyword return",
    "string f'a # {x1}'",
    "keyword if",
    "keyword else",
    'string "\\" in"',
  ]);
  expect(coloured('"""One class.\n\nand more"""')).toEqual(['string """One class.\n\nand more"""']);
});

test.each(["", "x", "'unended\nclass", '"""', "a = 0x1F + 3.5j"])("the pieces of %j are all of it", (source) => {
  expect(
    tokensOf(source)
      .map(({ text }) => text)
      .join(""),
  ).toBe(source);
});
