import { expect, test } from "vitest";
import given from "../../tests/cases/kinds.json";
import { kindsFit } from "../src/editor/document/ports";
import type { PortKind } from "../src/protocol";

const fits = given.fits as [PortKind, PortKind][];
const kinds = [...new Set(fits.flat())];

test("an edge runs between kinds exactly where Python says so", () => {
  const found = kinds.flatMap((source) =>
    kinds.filter((target) => kindsFit(source, target)).map((target) => [source, target]),
  );
  expect(found.map(String).sort()).toEqual(fits.map(String).sort());
});
