import { middleOf } from "./boxes";
import { type Box, union } from "./geometry";
import type { Point } from "./placement";

type NamedBox = Box & { readonly name: string };

export type Alignment = "left" | "centre" | "right" | "top" | "middle" | "bottom";

/** New centres that bring one side or the middles of the boxes into one line. */
export function aligned(boxes: readonly NamedBox[], how: Alignment): Map<string, Point> {
  const all = union(boxes);
  const place = (box: NamedBox): Point => {
    const [x, y] = middleOf(box);
    switch (how) {
      case "left":
        return [all.left + box.width / 2, y];
      case "right":
        return [all.left + all.width - box.width / 2, y];
      case "centre":
        return [middleOf(all)[0], y];
      case "top":
        return [x, all.top + box.height / 2];
      case "bottom":
        return [x, all.top + all.height - box.height / 2];
      case "middle":
        return [x, middleOf(all)[1]];
    }
  };
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
