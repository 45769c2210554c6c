/** How nodes of a category look. Categories that are not listed get a colour by their name. */
export interface Look {
  /** Hue in degrees of oklch; chroma 0 means grey. */
  readonly hue: number;
  readonly chroma: number;
  /** Path of a 16 × 16 pictogram, drawn with strokes. */
  readonly icon: string;
}

const GRID = "M2.5 2.5h11v11h-11zM6.2 2.5v11M9.8 2.5v11M2.5 6.2h11M2.5 9.8h11";
const DOT = "M8 4.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7";

const LOOKS: readonly (readonly [RegExp, Look])[] = [
  [/conv/i, { hue: 255, chroma: 0.15, icon: GRID }],
  [/pool|upsampl|vision/i, { hue: 195, chroma: 0.11, icon: "M2.5 3h11L10 8v5H6V8z" }],
  [/activ|non-?linear/i, { hue: 55, chroma: 0.14, icon: "M2 12h5l6.5-8.5M2 12" }],
  [/norm/i, { hue: 300, chroma: 0.14, icon: "M1.5 12.5c4 0 4-9 6.5-9s2.5 9 6.5 9" }],
  [
    /drop|regular/i,
    { hue: 10, chroma: 0.08, icon: "M4 4h.01M8 4h.01M12 4h.01M4 8h.01M12 8h.01M8 12h.01M4 12h.01M8 8l4 4" },
  ],
  [/recurrent|rnn|sequence/i, { hue: 150, chroma: 0.13, icon: "M13 8a5 5 0 1 1-2-4M11 1.5V4H8.5" }],
  [/attention|transformer/i, { hue: 335, chroma: 0.15, icon: "M8 3.5L3 12.5M8 3.5l5 9M8 3.5v9M3 12.5h10" }],
  [/linear|dense/i, { hue: 275, chroma: 0.14, icon: "M2.5 2.5v11h11M4.5 11.5l8-8" }],
  [/embed/i, { hue: 225, chroma: 0.1, icon: "M2.5 4h11M2.5 8h11M2.5 12h11M6 2.5v11" }],
  [/loss/i, { hue: 27, chroma: 0.17, icon: "M2 3c2 7 5 9.5 12 9.5M2.5 13.5V2" }],
  [/optim|schedul|train/i, { hue: 85, chroma: 0.13, icon: "M2.5 13L6 8l3 2.5L13.5 3M10 3h3.5v3.5" }],
  [
    /data|metric/i,
    { hue: 170, chroma: 0.1, icon: "M3 4c0-2 10-2 10 0v8c0 2-10 2-10 0zM3 4c0 2 10 2 10 0M3 8c0 2 10 2 10 0" },
  ],
  [/math|arith|operat|compar|reduc/i, { hue: 120, chroma: 0.1, icon: "M8 3.5v9M3.5 8h9" }],
  [/shape|reshap|tensor|index|join|split/i, { hue: 210, chroma: 0.08, icon: "M2.5 5.5h7v8h-7zM5.5 5V2.5h8v8H10" }],
  [/block/i, { hue: 240, chroma: 0.07, icon: "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6" }],
  [/struct|input|output|graph|general/i, { hue: 255, chroma: 0.03, icon: "M2.5 8h8M7.5 4.5L11 8l-3.5 3.5M13.5 3v10" }],
];

const known = new Map<string, Look>();

export function lookOf(category: string): Look {
  let look = known.get(category);
  if (!look) {
    look = LOOKS.find(([pattern]) => pattern.test(category))?.[1] ?? { hue: hueOf(category), chroma: 0.1, icon: DOT };
    known.set(category, look);
  }
  return look;
}

/** A stable hue for a category that we do not know. */
function hueOf(text: string): number {
  let hash = 0;
  for (const character of text) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 3600;
  return hash / 10;
}
