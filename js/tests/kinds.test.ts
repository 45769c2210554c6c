import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { kindsFit } from "../src/editor/document/ports";
import type { PortKind } from "../src/protocol";

const path = fileURLToPath(new URL("../../tests/cases/kinds.json", import.meta.url));
const { fits } = JSON.parse(readFileSync(path, "utf8")) as { fits: [PortKind, PortKind][] };
const kinds = [...new Set(fits.flat())];

test("an edge runs between kinds exactly where Python says so", () => {
  const found = kinds.flatMap((source) =>
    kinds.filter((target) => kindsFit(source, target)).map((target) => [source, target]),
  );
  expect(found.map(String).sort()).toEqual(fits.map(String).sort());
});
