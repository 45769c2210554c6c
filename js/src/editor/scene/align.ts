import { middleOf } from "./boxes";
import { type Box, union } from "./geometry";
import type { Point } from "./placement";

type NamedBox = Box & { readonly name: string };

/** For each alignment, whether it moves nodes across or down, and where in each box and in all of them the line is. */
const LINES = {
  left: ["x", 0],
  centre: ["x", 0.5],
  right: ["x", 1],
  top: ["y", 0],
  middle: ["y", 0.5],
  bottom: ["y", 1],
} as const;

export type Alignment = keyof typeof LINES;

/** New centres that bring one side or the middles of the boxes into one line. */
export function aligned(boxes: readonly NamedBox[], how: Alignment): Map<string, Point> {
  const [axis, part] = LINES[how];
  const all = union(boxes);
  const place = (box: NamedBox): Point =>
    axis === "x"
      ? [all.left + part * all.width + (0.5 - part) * box.width, middleOf(box)[1]]
      : [middleOf(box)[0], all.top + part * all.height + (0.5 - part) * box.height];
  return new Map(boxes.map((box) => [box.name, place(box)]));
}

/** New centres with equal gaps between neighbours; the outermost boxes stay. */
export function distributed(boxes: readonly NamedBox[], axis: "x" | "y"): Map<string, Point> {
  const [start, size, place] = axis === "x" ? (["left", "width", 0] as const) : (["top", "height", 1] as const);
  const sorted = [...boxes].sort((a, b) => middleOf(a)[place] - middleOf(b)[place]);
  const [first, last] = [sorted[0], sorted.at(-1)];
  if (!first || !last) return new Map();
  const span = last[start] + last[size] - first[start];
  const gap = (span - sorted.reduce((sum, box) => sum + box[size], 0)) / (sorted.length - 1);
  let next = first[start];
  return new Map(
    sorted.map((box) => {
      const at = next + box[size] / 2;
      next += box[size] + gap;
      return [box.name, axis === "x" ? [at, middleOf(box)[1]] : [middleOf(box)[0], at]];
    }),
  );
}
