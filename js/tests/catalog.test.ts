import { describe, expect, it } from "vitest";
import { loadCatalog } from "../src/editor/session/catalog";
import { type Category, STRUCTURE } from "../src/protocol";

const MATH: Category = { name: "Math", hue: 120, chroma: 0.1, icon: "M8 3.5v9M3.5 8h9" };

describe("the catalogue", () => {
  it("gives each type its category and its properties, which travel once for all types", () => {
    const dim = { name: "dim", type: { type: "int" } } as const;
    const inside = { name: "inside", type: { type: "bool" } } as const;
    const { types } = loadCatalog({
      message: "catalog",
      key: "shared",
      categories: [MATH, STRUCTURE],
      templates: { format: "pnne-graph", formatVersion: 1, name: "templates", graphs: {} },
      properties: [dim, inside],
      types: [
        { type: "sum", category: 0, kind: "function", properties: [0, 1] },
        { type: "exp", category: 0, kind: "function", properties: [1] },
        { type: "Input", category: 1, kind: "structural" },
      ],
      id: 1,
      client: "view",
    });
    expect(types.get("sum")?.properties).toEqual([dim, inside]);
    expect(types.get("exp")?.properties).toEqual([inside]);
    expect(types.get("Input")?.properties).toEqual([]);
    expect([...types.values()].map(({ category }) => category)).toEqual([MATH, MATH, STRUCTURE]);
  });
});
