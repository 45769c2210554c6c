import { describe, expect, test } from "vitest";
import given from "../../tests/cases/cards.json";
import { shapeLabel } from "../src/editor/scene/shapes";
import { mainProperties, partsOf, wordsOf } from "../src/editor/scene/summary";
import type { Json, NodeTypeState } from "../src/protocol";

interface Cases {
  types: NodeTypeState[];
  cards: { type: string; properties: Record<string, Json>; resolved?: Record<string, Json>; summary: string }[];
  edges: { shape: (number | string)[]; dtype: string; label: string }[];
}

const { types, cards, edges } = given as unknown as Cases;

describe("what a picture says without a browser, the page says too", () => {
  test.each(cards)("$type $properties", ({ type, properties, resolved, summary }) => {
    const declared = types.find((candidate) => candidate.type === type);
    expect(wordsOf(partsOf({ name: "node", type, properties }, declared, resolved))).toBe(summary);
  });
  test.each(cards)(
    "what the line of $type tells can be edited on the card",
    ({ type, properties, resolved, summary }) => {
      const declared = types.find((candidate) => candidate.type === type);
      const names = mainProperties({ name: "node", type, properties }, declared, resolved).map(({ name }) => name);
      const required = declared?.properties?.filter((property) => property.required && property.role !== "call") ?? [];
      if (type === "Subgraph") expect(names).toEqual([]);
      else for (const { name } of required) expect(names).toContain(name);
      expect(new Set(names).size).toBe(names.length);
      if (summary !== "" && declared) expect(names.length).toBeGreaterThanOrEqual(summary.split(" · ").length);
    },
  );
  test.each(edges)("$shape $dtype", ({ shape, dtype, label }) => {
    expect(shapeLabel({ shape, dtype })).toBe(label);
  });
});
