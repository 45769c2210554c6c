import type { EdgeState } from "../../protocol";
import { nodeOf } from "../document/document";
import type { FrameBox } from "../document/frame";
import { type Box, boxesOf, centre, endsOf } from "./boxes";
import { NODE_WIDTH } from "./geometry";
import { type Point, STEP_RIGHT } from "./placement";
import type { ShownScene } from "./scene";
import { STILL } from "./view";

/** The least distance between neighbours along an edge, and the one that is made; in the canvas's pixels. */
const LEAST = 24;
const MADE = 44;
const MADE_ACROSS = STEP_RIGHT - NODE_WIDTH;

/** Where a node goes that is put into an edge, and what moves so that it has room there. */
export interface Room {
  readonly at: Point;
  /** New centres, as shown. */
  readonly moves: ReadonlyMap<string, Point>;
  readonly frames: ReadonlyMap<string, FrameBox>;
}

/**
 * The room for a node between the two ends of an edge.
 *
 * Where there is too little of it, all that stands beyond the edge's target moves on by as much as is lacking, and
 * frames that begin before it grow. An edge that runs backwards is left as it is.
 */
export function roomFor(
  scene: ShownScene,
  edge: EdgeState,
  at: Point,
  size: Pick<Box, "width" | "height">,
  name?: string,
): Room {
  const [axis, start, length] = scene.across ? ([0, "left", "width"] as const) : ([1, "top", "height"] as const);
  const boxes = boxesOf(scene, STILL);
  const ends = endsOf(scene, boxes);
  const [source, target] = [ends.get(nodeOf(edge.source)), ends.get(nodeOf(edge.target))];
  const moves = new Map<string, Point>();
  const frames = new Map<string, FrameBox>();
  if (!source || !target || target[start] < source[start] + source[length]) return { at, moves, frames };
  const from = source[start] + source[length];
  const half = size[length] / 2;
  const onAxis = (place: number): Point => (scene.across ? [place, at[1]] : [at[0], place]);
  if (target[start] - from >= size[length] + 2 * LEAST) {
    const place = Math.min(target[start] - LEAST - half, Math.max(from + LEAST + half, at[axis]));
    return { at: onAxis(place), moves, frames };
  }
  const gap = scene.across ? MADE_ACROSS : MADE;
  const lacking = from + size[length] + 2 * gap - target[start];
  for (const box of boxes) {
    if (box[start] < target[start] || box.name === name) continue;
    const [x, y] = centre(box.card, [box.left, box.top]);
    moves.set(box.name, scene.across ? [x + lacking, y] : [x, y + lacking]);
  }
  for (const { name: frame, box } of scene.graph.frames.values()) {
    const [left, top, width, height] = box;
    const [begin, end] = scene.across ? [left, left + width] : [top, top + height];
    if (begin >= target[start])
      frames.set(frame, scene.across ? [left + lacking, top, width, height] : [left, top + lacking, width, height]);
    else if (end > target[start])
      frames.set(frame, scene.across ? [left, top, width + lacking, height] : [left, top, width, height + lacking]);
  }
  return { at: onAxis(from + gap + half), moves, frames };
}
