import type { EdgeState, Op } from "../../protocol";
import { nodeOf } from "../document/document";
import { type FrameBox, held } from "../document/frame";
import { boxesOf, endsOf, middleOf } from "./boxes";
import { NODE_WIDTH, type Size } from "./geometry";
import { type Point, STEP_RIGHT } from "./placement";
import { centreOf, type ShownScene, settledAt } from "./scene";
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
export function roomFor(scene: ShownScene, edge: EdgeState, at: Point, size: Size, name?: string): Room {
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
    const [x, y] = middleOf(box);
    moves.set(box.name, scene.across ? [x + lacking, y] : [x, y + lacking]);
  }
  for (const { name: frame, box } of scene.frames.values()) {
    const [left, top, width, height] = box;
    const [begin, end] = scene.across ? [left, left + width] : [top, top + height];
    if (begin >= target[start])
      frames.set(frame, scene.across ? [left + lacking, top, width, height] : [left, top + lacking, width, height]);
    else if (end > target[start])
      frames.set(frame, scene.across ? [left, top, width + lacking, height] : [left, top, width, height + lacking]);
  }
  return { at: onAxis(from + gap + half), moves, frames };
}

/** The ops that bring nodes to centres as shown, and frames to boxes. */
export function moveOps(
  scene: ShownScene,
  places: ReadonlyMap<string, Point>,
  boxes: ReadonlyMap<string, FrameBox>,
): Op[] {
  const ops: Op[] = [];
  for (const [name, [x, y]] of settledAt(scene, places)) {
    const before = scene.graph.nodes.get(name)?.position;
    const position: [number, number] = [Math.round(x), Math.round(y)];
    if (scene.graph.nodes.has(name) && (before?.[0] !== position[0] || before?.[1] !== position[1])) {
      ops.push({ op: "moveNode", name, position, graph: scene.graphId });
    }
  }
  for (const [name, shown] of boxes) {
    const box = documentBox(scene, name, shown);
    if (box && scene.graph.frames.get(name)?.box.some((part, place) => part !== box[place]))
      ops.push({ op: "changeFrame", name, box, graph: scene.graphId });
  }
  return ops;
}

/** The box in the document of a frame that is shown in a box: it changes by as much as what is shown does. */
export function documentBox(scene: ShownScene, name: string, shown: FrameBox): FrameBox | null {
  const [box, before] = [scene.graph.frames.get(name)?.box, scene.frames.get(name)?.box];
  if (!box || !before) return null;
  const changed = (place: 0 | 1 | 2 | 3) => Math.round(box[place] + shown[place] - before[place]);
  return scene.frames === scene.graph.frames ? shown : [changed(0), changed(1), changed(2), changed(3)];
}

/** The frames and their contents, which move together. */
export function carriedBy(
  scene: ShownScene,
  names: ReadonlySet<string>,
): { nodes: ReadonlySet<string>; frames: ReadonlySet<string> } {
  const nodes = new Set<string>();
  const frames = new Set<string>();
  if (names.size === 0) return { nodes, frames };
  const all = [...scene.frames.values()];
  const centres = [...scene.cards.keys()].map((name) => [name, centreOf(scene, name, STILL)] as const);
  for (const frame of all) {
    if (!names.has(frame.name)) continue;
    const inside = held(frame, centres, all);
    frames.add(frame.name);
    for (const name of inside.nodes) nodes.add(name);
    for (const name of inside.frames) frames.add(name);
  }
  return { nodes, frames };
}
