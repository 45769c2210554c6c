import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { summaryOf } from "../src/editor/canvas/card";
import { shapeLabel } from "../src/editor/canvas/shapes";
import type { Json, NodeTypeState } from "../src/protocol";

interface Cases {
  types: NodeTypeState[];
  cards: { type: string; properties: Record<string, Json>; resolved?: Record<string, Json>; summary: string }[];
  edges: { shape: (number | string)[]; dtype: string; label: string }[];
}

const path = fileURLToPath(new URL("../../tests/cases/cards.json", import.meta.url));
const { types, cards, edges } = JSON.parse(readFileSync(path, "utf8")) as Cases;

describe("what a picture says without a browser, the page says too", () => {
  test.each(cards)("$type $properties", ({ type, properties, resolved, summary }) => {
    const declared = types.find((candidate) => candidate.type === type);
    expect(summaryOf({ name: "node", type, properties }, declared, resolved)).toBe(summary);
  });
  test.each(edges)("$shape $dtype", ({ shape, dtype, label }) => {
    expect(shapeLabel({ shape, dtype })).toBe(label);
  });
});
