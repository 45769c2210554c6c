import type { EdgeState, Op } from "../../protocol";
import { nodeOf } from "../document/document";
import { type FrameBox, held } from "../document/frame";
import { boxesOf, endsOf, middleOf } from "./boxes";
import { type Box, columnOf, NODE_WIDTH, overlaps, type Size, type Span, touches } from "./geometry";
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
 * The room for a node between the two ends of an edge, or before its target if there is none between them.
 *
 * Where there is too little of it, the node goes before the target, and in their column, all that stands beyond moves on
 * by as much as is lacking, and frames that begin before it grow. `pnne_nb/graph/edits/gaps.py` has the same rule.
 */
export function roomFor(scene: ShownScene, edge: EdgeState, at: Point, size: Size, name?: string): Room {
  const axes = scene.across ? ALONG_RIGHT : ALONG_DOWN;
  const { along, aside } = axes;
  const cards = boxesOf(scene, STILL);
  const ends = endsOf(scene, cards);
  const [source, target] = [ends.get(nodeOf(edge.source)), ends.get(nodeOf(edge.target))];
  const moves = new Map<string, Point>();
  const frames = new Map<string, FrameBox>();
  if (!source || !target) return { at, moves, frames };
  const length = size[along.length];
  const boxes = cards.filter((box) => box.name !== name);
  const [from, to] = [source[along.start] + source[along.length], target[along.start]];
  const boxAt = (begin: number, centre: number): Box => ({
    ...size,
    ...(scene.across ? { left: begin, top: centre - size.height / 2 } : { left: centre - size.width / 2, top: begin }),
  });
  const covered = (box: Box) => boxes.filter((other) => overlaps(box, other));
  const found = (box: Box): Room => ({ at: middleOf(box), moves, frames });
  if (to - from >= length + 2 * LEAST) {
    const begin = Math.min(to - LEAST - length, Math.max(from + LEAST, at[along.axis] - length / 2));
    const between = boxAt(begin, at[aside.axis]);
    if (covered(between).length === 0) return found(between);
  }
  const middle = middleOf(target)[aside.axis];
  const isNear = Math.abs(at[aside.axis] - middle) < size[aside.length] / 2;
  const gap = scene.across ? MADE_ACROSS : MADE;
  const isAhead = from <= to && touches(spanOf(source, aside), spanOf(target, aside));
  let box = boxAt(isAhead ? from + gap : to, isNear ? at[aside.axis] : middle);
  for (let others: Box[] = boxes; others.length > 0; ) {
    others = covered(box).filter((other) => other[along.start] < to);
    const end = Math.max(...others.map((other) => other[along.start] + other[along.length]));
    if (others.length > 0) box = boxAt(end + gap, middleOf(box)[aside.axis]);
  }
  const framed = [...scene.frames.values()].map((frame) => ({ frame, box: boxOfFrame(frame.box) }));
  const spans = [...boxes, box, ...framed.map((each) => each.box)].map((each) => spanOf(each, aside));
  const column = columnOf(spans, spanOf(target, aside));
  const isBeyond = (other: Box) => touches(column, spanOf(other, aside)) && other[along.start] >= to;
  const lacking = Math.max(0, box[along.start] + length + gap - to);
  const [dx, dy] = scene.across ? [lacking, 0] : [0, lacking];
  for (const other of boxes.filter(isBeyond)) {
    const [x, y] = middleOf(other);
    moves.set(other.name, [x + dx, y + dy]);
  }
  for (const { frame, box: around } of framed) {
    const { left, top, width, height } = around;
    if (isBeyond(around)) frames.set(frame.name, [left + dx, top + dy, width, height]);
    else if (touches(column, spanOf(around, aside)) && around[along.start] + around[along.length] > to)
      frames.set(frame.name, [left, top, width + dx, height + dy]);
  }
  return found(box);
}

const RIGHT = { axis: 0, start: "left", length: "width" } as const;
const DOWN = { axis: 1, start: "top", length: "height" } as const;
const ALONG_RIGHT = { along: RIGHT, aside: DOWN };
const ALONG_DOWN = { along: DOWN, aside: RIGHT };

function spanOf(box: Box, { start, length }: typeof RIGHT | typeof DOWN): Span {
  return [box[start], box[start] + box[length]];
}

function boxOfFrame([left, top, width, height]: FrameBox): Box {
  return { left, top, width, height };
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
