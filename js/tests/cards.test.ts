import { describe, expect, test } from "vitest";
import given from "../../tests/cases/cards.json";
import type { Graph } from "../src/editor/document/document";
import { shapeLabel } from "../src/editor/scene/shapes";
import { blockWords, mainProperties, partsOf, rowTitle, wordsOf } from "../src/editor/scene/summary";
import type { Json, NodeTypeState } from "../src/protocol";

interface Cases {
  types: NodeTypeState[];
  cards: { type: string; properties: Record<string, Json>; resolved?: Record<string, Json>; summary: string }[];
  blocks: {
    name: string;
    definition: string;
    graphs: Record<string, [name: string, type: string, what: string][]>;
    words: string;
  }[];
  rows: [first: string, last: string, title: string][];
  edges: { shape: (number | string)[]; dtype: string; label: string }[];
}

const { types, cards, blocks, rows, edges } = given as unknown as Cases;

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
  test.each(blocks)("$about", ({ name, definition, graphs, words }) => {
    const node = (name: string, type: string, what: string) => ({
      name,
      type,
      properties: { [type === "Subgraph" ? "definition" : "target"]: what },
    });
    const shown = Object.entries(graphs).map(([id, nodes]) => {
      const all = new Map(nodes.map((each) => [each[0], node(...each)]));
      return [id, { nodes: all, edges: new Map(), frames: new Map() } as unknown as Graph] as const;
    });
    expect(blockWords(node(name, "Subgraph", definition), new Map(shown))).toBe(words);
  });
  test.each(rows)("%s to %s", (first, last, title) => {
    expect(rowTitle(first, last)).toBe(title);
  });
  test.each(edges)("$shape $dtype", ({ shape, dtype, label }) => {
    expect(shapeLabel({ shape, dtype })).toBe(label);
  });
});
