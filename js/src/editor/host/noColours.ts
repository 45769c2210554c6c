/**
 * Takes the place of d3-color in the bundle (`build.mjs`), which has ten kilobytes: nothing that d3 moves here, the view
 * alone, changes its colour. d3 asks whether a value is a colour, and none is.
 */
export function color(): null {
  return null;
}

export { color as cubehelix, color as hcl, color as hsl, color as lab, color as rgb };
