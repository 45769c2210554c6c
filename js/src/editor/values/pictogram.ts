import type { CSSProperties } from "react";
import type { Category } from "../../protocol";

/** The lightness of a pictogram in either theme: `--pn-ink-lightness` in `tokens.css`. */
export const INK = { light: 0.45, dark: 0.82 } as const;

const known = new WeakMap<Category, CSSProperties>();

/**
 * A category's pictogram as background images, one for each theme. The browser paints an svg element on each card as a
 * layer of its own, and sorts all layers in every frame in which the view moves.
 */
export function pictogram(look: Category): CSSProperties {
  const earlier = known.get(look);
  if (earlier) return earlier;
  const made = { "--pn-icon-light": imageOf(look, INK.light), "--pn-icon-dark": imageOf(look, INK.dark) };
  known.set(look, made as CSSProperties);
  return made as CSSProperties;
}

function imageOf({ icon, chroma, hue }: Category, lightness: number): string {
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" fill="none" stroke="oklch(${lightness} ${chroma} ${hue})" ` +
    `stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"><path d="${icon}"/></svg>`;
  return `url("data:image/svg+xml,${encodeURIComponent(svg)}")`;
}
