import type { Box } from "./geometry";
import type { Point } from "./placement";

/** The four points of a curve that leaves the first and reaches the last of them vertically, or horizontally. */
export type Curve = readonly [Point, Point, Point, Point];

/** How far beside the nodes that stand in its way an edge runs. */
const CLEARANCE = 16;
/**
 * How much farther out, times the root of their number, one that passes more than a few: of two that skip, one around the
 * other, each has its own lane.
 */
const OUTWARD = 8;
const FEW = 3;
const SAMPLES = 12;
/** How far from its ends an edge turns that leads back up; its label has room there. */
const TURN = 20;
/** How far beside nodes it rises, where there is room: in the middle between two columns. */
const BETWEEN = 36;
/** The least between what rises and a node. */
const BESIDE = 8;
/** How many lanes are tried, the nearest first: each looks at all nodes. */
const LANES = 32;
/** Points of an edge that is bent; one with more runs straight from point to point. */
const DETOUR = 4;

/**
 * The points that an edge passes vertically: its ends, and two beside what it would run behind;
 * `tests/cases/routes.json` compares with Python's picture. `boxes` are the nodes between which it runs, without those at its ends. Edges that run right (`across`)
 * pass the points horizontally, here and below. An edge that leads back up, as to the head of the next column, passes
 * six in straight lines, around the nodes at its ends (`own`) too.
 */
export function routed(
  start: Point,
  end: Point,
  boxes: readonly Box[],
  across = false,
  own: readonly Box[] = [],
): readonly Point[] {
  if (across) return routed(turned(start), turned(end), boxes.map(turnedBox), false, own.map(turnedBox)).map(turned);
  if (end[1] < start[1]) return rising(start, end, boxes, own);
  const [left, right] = [Math.min(start[0], end[0]), Math.max(start[0], end[0])];
  // The edge stays between the heights of its ends.
  const beside = boxes.filter((box) => start[1] < box.top + box.height && box.top < end[1]);
  const between = beside.filter((box) => left < box.left + box.width && box.left < right + 1e-6);
  const direct = curveBetween(start, end);
  if (!between.some((box) => crosses(direct, box))) return [start, end];
  // What stands beside the blocking nodes must be passed as well.
  // And nothing before the edge leaves, or after it has arrived.
  const room = Math.max(0, Math.min(CLEARANCE, (end[1] - start[1]) / 2));
  const top = Math.max(start[1] + room, Math.min(...between.map((box) => box.top)));
  const bottom = Math.min(end[1] - room, Math.max(...between.map((box) => box.top + box.height)));
  const gap = CLEARANCE + OUTWARD * Math.sqrt(Math.max(0, between.length - FEW));
  const lanes = [
    Math.min(...between.map((box) => box.left)) - gap,
    Math.max(...between.map((box) => box.left + box.width)) + gap,
  ];
  const blocked = (lane: number) => {
    const ways = [curveBetween(start, [lane, top]), curveBetween([lane, bottom], end)];
    return beside.filter((box) => standsIn(lane, top, bottom, box) || ways.some((way) => crosses(way, box))).length;
  };
  let [lane, count] = freest(lanes, start, end, blocked);
  if (count > 0) {
    // Farther away, between other nodes: where the fewest of them are in the way.
    const others = beside.filter((box) => box.top < bottom && top < box.top + box.height);
    lanes.push(...others.flatMap((box) => [box.left - CLEARANCE, box.left + box.width + CLEARANCE]));
    [lane] = freest(lanes, start, end, blocked);
  }
  return [start, [lane, top], [lane, bottom], end];
}

/** The lane with the fewest nodes in its way, and their number; of several, the one with the least detour. */
function freest(
  lanes: readonly number[],
  start: Point,
  end: Point,
  blocked: (lane: number) => number,
): readonly [number, number] {
  const detour = (lane: number) => Math.abs(lane - start[0]) + Math.abs(lane - end[0]);
  const nearest = [...new Set(lanes)].sort((a, b) => detour(a) - detour(b) || a - b).slice(0, LANES);
  let [best, fewest] = [nearest[0] ?? start[0], Number.POSITIVE_INFINITY];
  for (const lane of nearest) {
    const count = blocked(lane);
    if (count < fewest) [best, fewest] = [lane, count];
    if (fewest === 0) break;
  }
  return [best, fewest];
}

function rising(start: Point, end: Point, boxes: readonly Box[], own: readonly Box[]): readonly Point[] {
  const [direct, between] = [curveBetween(start, end), pieceBetween(start, end)];
  if (!boxes.some((box) => meet(between, box)) && !own.some((box) => crosses(direct, box))) return [start, end];
  const [low, high] = [start[1] + TURN, end[1] - TURN];
  const obstacles = [...boxes, ...own].filter((box) => box.top <= low && high <= box.top + box.height);
  const blocked = (lane: number) => {
    const pieces = [
      pieceBetween([start[0], low], [lane, low]),
      pieceBetween([lane - BESIDE, high], [lane + BESIDE, low]),
      pieceBetween([end[0], high], [lane, high]),
    ];
    return pieces.reduce((sum, piece) => sum + obstacles.filter((box) => meet(piece, box)).length, 0);
  };
  let [lane, fewest] = [Math.min(start[0], end[0]) - BETWEEN, Number.POSITIVE_INFINITY];
  // Nearer to a node, other edges run that go around it.
  for (const room of obstacles.length > 0 ? [BETWEEN, CLEARANCE] : []) {
    const lanes = obstacles.flatMap((box) => [box.left - room, box.left + box.width + room]);
    const [other, count] = freest(lanes, start, end, blocked);
    if (count < fewest) [lane, fewest] = [other, count];
    if (fewest === 0) break;
  }
  return [start, [start[0], low], [lane, low], [lane, high], [end[0], high], end];
}

function pieceBetween([x1, y1]: Point, [x2, y2]: Point): Box {
  return { left: Math.min(x1, x2), top: Math.min(y1, y2), width: Math.abs(x2 - x1), height: Math.abs(y2 - y1) };
}

function meet(piece: Box, box: Box): boolean {
  return (
    piece.left < box.left + box.width &&
    box.left < piece.left + piece.width + 1e-6 &&
    piece.top < box.top + box.height &&
    box.top < piece.top + piece.height + 1e-6
  );
}

/** The curves through points that are passed vertically. */
export function curvesThrough(points: readonly Point[], across = false): Curve[] {
  return points.slice(1).map((point, place) => {
    const before = points[place] as Point;
    if (points.length > DETOUR) return [before, before, point, point];
    if (!across) return curveBetween(before, point);
    const [a, b, c, d] = curveBetween(turned(before), turned(point));
    return [turned(a), turned(b), turned(c), turned(d)];
  });
}

export function pathThrough(points: readonly Point[], across = false): string {
  const [start] = points;
  return `M${start}${curvesThrough(points, across)
    .map(([, b, c, d]) => `C${b} ${c} ${d}`)
    .join("")}`;
}

/** Where an edge's label stands, and on which side: beside the edge's middle, away from the nodes that it passes. */
export function labelPlace(points: readonly Point[]): { readonly at: Point; readonly side: -1 | 1 } {
  const start = points[0] ?? [0, 0];
  if (points.length > DETOUR) return { at: [start[0], start[1] + TURN / 2], side: 1 };
  const [a, b] = points.length > 2 ? [points[1] ?? start, points[2] ?? start] : [start, points[1] ?? start];
  return { at: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2], side: points.length > 2 && a[0] < start[0] ? -1 : 1 };
}

function turnedBox({ left, top, width, height }: Box): Box {
  return { left: top, top: left, width: height, height: width };
}

/** With the axes changed: what runs right, as what runs down. */
function turned([x, y]: Point): Point {
  return [y, x];
}

/** As React Flow bends it: half the way down, or a wide turn where the target is above. */
function curveBetween([x1, y1]: Point, [x2, y2]: Point): Curve {
  const bend = y2 >= y1 ? (y2 - y1) / 2 : 6.25 * Math.sqrt(y1 - y2);
  return [
    [x1, y1],
    [x1, y1 + bend],
    [x2, y2 - bend],
    [x2, y2],
  ];
}

export function pointOn([a, b, c, d]: Curve, t: number): Point {
  const s = 1 - t;
  const mix = (axis: 0 | 1) =>
    s * s * s * a[axis] + 3 * s * s * t * b[axis] + 3 * s * t * t * c[axis] + t * t * t * d[axis];
  return [mix(0), mix(1)];
}

function crosses(curve: Curve, { left, top, width, height }: Box): boolean {
  const [a, b, c, d] = curve;
  // Most nodes are beside the four points, between which the curve lies.
  if (Math.max(a[0], d[0]) <= left || left + width <= Math.min(a[0], d[0])) return false;
  if (Math.max(b[1], d[1]) <= top || top + height <= Math.min(a[1], c[1])) return false;
  for (let step = 1; step < SAMPLES; step += 1) {
    const [x, y] = pointOn(curve, step / SAMPLES);
    if (left < x && x < left + width && top < y && y < top + height) return true;
  }
  return false;
}

function standsIn(lane: number, top: number, bottom: number, box: Box): boolean {
  return box.left < lane && lane < box.left + box.width && box.top < bottom && top < box.top + box.height;
}
