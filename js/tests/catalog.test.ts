import { describe, expect, it } from "vitest";
import { loadCatalog } from "../src/editor/session/catalog";

describe("the catalogue", () => {
  it("gives each type its properties, which travel once for all types", () => {
    const dim = { name: "dim", type: { type: "int" } } as const;
    const inside = { name: "inside", type: { type: "bool" } } as const;
    const { types } = loadCatalog({
      message: "catalog",
      key: "shared",
      properties: [dim, inside],
      types: [
        { type: "sum", category: "Math", kind: "function", properties: [0, 1] },
        { type: "exp", category: "Math", kind: "function", properties: [1] },
        { type: "Input", category: "Structure", kind: "structural" },
      ],
      id: 1,
      client: "view",
    });
    expect(types.get("sum")?.properties).toEqual([dim, inside]);
    expect(types.get("exp")?.properties).toEqual([inside]);
    expect(types.get("Input")?.properties).toEqual([]);
  });
});
