import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { INK, pictogram } from "../src/editor/values/pictogram";

const LOOK = { name: "Layers", hue: 255, chroma: 0.12, icon: "M2 2h12" };

test("a pictogram is an image for either theme, made once for a category", () => {
  const style = pictogram(LOOK) as Record<string, string>;
  expect(pictogram(LOOK)).toBe(style);
  for (const theme of ["light", "dark"] as const) {
    const svg = decodeURIComponent(style[`--pn-icon-${theme}`] ?? "");
    expect(svg).toContain(`stroke="oklch(${INK[theme]} 0.12 255)"`);
    expect(svg).toContain('d="M2 2h12"');
  }
});

test("its lightness is that of what else is drawn in a category's colour", () => {
  const tokens = readFileSync(new URL("../src/editor/styles/tokens.css", import.meta.url), "utf8");
  const found = [...tokens.matchAll(/--pn-ink-lightness: ([\d.]+)/g)].map(([, value]) => Number(value));
  expect(found).toEqual([INK.light, INK.dark]);
});
