import type { Frame } from "../../protocol";
import { columnOf, type Size, type Span, TOUCH, touches } from "./geometry";
import type { Point } from "./placement";

/**
 * The room for blocks that are open in place: in the view, and not in the document, what stands beside them moves on.
 *
 * A card that stands clear of an open block, beyond one of its edges, moves on by what the block has grown there; along
 * the edges, only if it is in the block's column. So no two cards overlap that did not before, and what stood in one
 * column or row still does.
 */
export interface Pushed {
  readonly pushes: readonly Push[];
  /** Centres as shown, of all cards; empty while no block is open. */
  readonly places: ReadonlyMap<string, Point>;
}

/** What one block moves when it opens. Places are those after the blocks before it have opened. */
interface Push {
  readonly name: string;
  /** Upper left and lower right corner of its closed card. */
  readonly start: Point;
  readonly end: Point;
  /** How far all before it moves back, and all after it on: right and down. */
  readonly before: Point;
  readonly after: Point;
  /** The axis of the edges, and what the block's column takes up on the other. */
  readonly along: 0 | 1;
  readonly column: Span;
}

export interface Placed {
  readonly name: string;
  readonly centre: Point;
  readonly closed: Size;
  /** As large as it is when it is open; null for all other cards. */
  readonly open: Size | null;
}

export const UNPUSHED: Pushed = { pushes: [], places: new Map() };

const AXES = [0, 1] as const;

/** Where cards are shown. An open block keeps its edge where edges enter, and grows on both sides across them. */
export function pushedBy(cards: readonly Placed[], across: boolean, frames: readonly Frame[] = []): Pushed {
  if (cards.every(({ open }) => open === null)) return UNPUSHED;
  const boxes = cards.map(({ centre: [x, y], closed: { width, height }, ...card }) => ({
    ...card,
    start: [x - width / 2, y - height / 2] as [number, number],
    end: [x + width / 2, y + height / 2] as [number, number],
  }));
  const pushes: Push[] = [];
  const [along, aside] = across ? ([0, 1] as const) : ([1, 0] as const);
  for (const block of boxes) {
    if (!block.open) continue;
    const { name, start, end, open } = block;
    const growth: Point = [open.width - end[0] + start[0], open.height - end[1] + start[1]];
    const before: Point = across ? [0, growth[1] / 2] : [growth[0] / 2, 0];
    const after: Point = [growth[0] - before[0], growth[1] - before[1]];
    const framed = frames.map(({ box }): Span => (aside === 0 ? [box[0], box[0] + box[2]] : [box[1], box[1] + box[3]]));
    const spans = [...boxes.map((box): Span => [box.start[aside], box.end[aside]]), ...framed];
    const column = columnOf(spans, [start[aside], end[aside]]);
    const push: Push = { name, start: [...start], end: [...end], before, after, along, column };
    pushes.push(push);
    for (const box of boxes) {
      const isOwn = box === block;
      const by = isOwn ? before : shiftsOf(push, box.start, box.end);
      for (const axis of AXES) {
        box.start[axis] += isOwn ? -before[axis] : by[axis];
        box.end[axis] += isOwn ? after[axis] : by[axis];
      }
    }
  }
  const middle = (a: Point, b: Point): Point => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  return { pushes, places: new Map(boxes.map(({ name, start, end }) => [name, middle(start, end)])) };
}

/** How far a push moves what reaches from one corner to another. */
function shiftsOf(push: Push, from: Point, to: Point): Point {
  const aside = push.along === 0 ? 1 : 0;
  const isInColumn = touches(push.column, [from[aside], to[aside]]);
  const shift = (axis: 0 | 1) => (axis === aside || isInColumn ? shiftOf(push, axis, from[axis], to[axis]) : 0);
  return [shift(0), shift(1)];
}

function shiftOf({ start, end, before, after }: Push, axis: 0 | 1, from: number, to: number): number {
  if (from >= end[axis] - TOUCH) return after[axis];
  return to <= start[axis] + TOUCH ? -before[axis] : 0;
}

/** Frames as shown: each edge moves as a card there would, so that a frame grows around a block that opens in it. */
export function pushedFrames(frames: ReadonlyMap<string, Frame>, { pushes }: Pushed): ReadonlyMap<string, Frame> {
  if (pushes.length === 0) return frames;
  return new Map(
    [...frames].map(([name, frame]) => {
      let [left, top, width, height] = frame.box;
      for (const push of pushes) {
        const isInColumn = touches(push.column, push.along === 0 ? [top, top + height] : [left, left + width]);
        const moved = (at: number, axis: 0 | 1) =>
          axis !== push.along || isInColumn ? at + shiftOf(push, axis, at, at) : at;
        const [right, bottom] = [moved(left + width, 0), moved(top + height, 1)];
        [left, top] = [moved(left, 0), moved(top, 1)];
        [width, height] = [right - left, bottom - top];
      }
      return [name, { ...frame, box: [left, top, width, height] }];
    }),
  );
}

/**
 * The place at which a card is shown at `centre`: the inverse of what opening does.
 *
 * Beside the part by which a block has grown there is room that belongs to no place: the card goes to the nearest.
 * `moved` says how far open blocks are moved with it; `name` is the card's own.
 */
export function unpushed(
  { pushes }: Pushed,
  centre: Point,
  size: Size,
  moved: ReadonlyMap<string, Point> = new Map(),
  name = "",
): Point {
  const place: [number, number] = [centre[0], centre[1]];
  const extent: [number, number] = [size.width, size.height];
  for (const push of [...pushes].reverse()) {
    const by = moved.get(push.name) ?? [0, 0];
    const { along } = push;
    const aside = along === 0 ? 1 : 0;
    const half = extent[aside] / 2;
    const column: Span = [
      push.column[0] - push.before[aside] + by[aside],
      push.column[1] + push.after[aside] + by[aside],
    ];
    const isInColumn = push.name === name || touches(column, [place[aside] - half, place[aside] + half]);
    for (const axis of isInColumn ? AXES : ([aside] as const)) {
      const [start, end] = [push.start[axis] + by[axis], push.end[axis] + by[axis]];
      const [before, after] = [push.before[axis], push.after[axis]];
      const half = extent[axis] / 2;
      if (push.name === name) {
        place[axis] -= (after - before) / 2;
        extent[axis] = end - start;
      } else if (place[axis] - half >= end + after - TOUCH) place[axis] -= after;
      else if (place[axis] + half <= start - before + TOUCH) place[axis] += before;
      else {
        // Beyond the block, before it, or beside it: whichever is nearest to where it is.
        const isBeside = place[axis] - half < end - TOUCH && place[axis] + half > start + TOUCH;
        const clear = Math.min(end - 2 * TOUCH + half, Math.max(start + 2 * TOUCH - half, place[axis]));
        const beside = isBeside ? place[axis] : clear;
        const ways = [
          [Math.abs(beside - place[axis]), beside],
          [Math.abs(end + after + half - place[axis]), end + half],
          [Math.abs(start - before - half - place[axis]), start - half],
        ] as const;
        place[axis] = ways.reduce((best, way) => (way[0] < best[0] ? way : best))[1];
      }
    }
  }
  return place;
}
