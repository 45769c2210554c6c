import { type Box, overlaps } from "./geometry";
import type { Point } from "./placement";

/** The four points of a curve that leaves the first and reaches the last of them vertically, or horizontally. */
export type Curve = readonly [Point, Point, Point, Point];

/** How far beside the nodes that stand in its way an edge runs. */
const CLEARANCE = 16;
const SAMPLES = 12;
/** How far from its ends an edge turns that leads back up; its label has room there. */
const TURN = 20;
/** How far beside nodes it rises, where there is room: in the middle between two columns. */
const BETWEEN = 36;
/** The least between what rises and a node. */
const BESIDE = 8;
/** Between edges of different ports, the most for which there is room; and the places tried, in these distances. */
const APART = [8, 4, 2] as const;
const ASIDE = [0, ...[1, 2, 3, 4, 5, 6, 7, 8].flatMap((step) => [step, -step])];
/** Between an edge and its label, and how wide a letter of it is where letters are drawn larger, from further away. */
export const LABEL_GAP = 7;
const LABEL_LETTER = 8;
/** How far beside all cards a label may reach: as far as a view of the whole graph shows. */
const RIM = 24;
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
  const lanes = [
    Math.min(...between.map((box) => box.left)) - CLEARANCE,
    Math.max(...between.map((box) => box.left + box.width)) + CLEARANCE,
  ];
  const blocked = (lane: number) => {
    const ways = [curveBetween(start, [lane, top]), curveBetween([lane, bottom], end)];
    const along = pieceBetween([lane, top], [lane, bottom]);
    return beside.filter((box) => meet(along, box) || ways.some((way) => crosses(way, box))).length;
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

/**
 * Routes of which no two share a line, unless they leave the same port: the longer one moves, outwards first, as in
 * Python's `parted`. Each is the port that it leaves and its points, in the order of the edges' names.
 */
export function parted(
  routes: readonly (readonly [port: string, points: readonly Point[]])[],
  nodes: readonly Box[],
  across = false,
): Point[][] {
  const turn = (points: readonly Point[]) => (across ? points.map(turned) : [...points]);
  const upright = across ? nodes.map(turnedBox) : nodes;
  const made = routes.map(([port, points]) => [port, turn(points)] as const);
  const taken: { axis: 0 | 1; lane: number; span: readonly number[]; port: string }[] = [];
  for (const [port, points] of routes) {
    const [[x, y], [end, low], ...more] = turn(points) as [Point, Point, ...Point[]];
    if (more.length === 0 && Math.abs(x - end) < APART[0]) taken.push({ axis: 0, lane: x, span: [y, low], port });
  }
  const pieces = made.flatMap(([port, points]) =>
    points.slice(1, -2).map(([x, y], before) => {
      const [right, down] = points[before + 2] as Point;
      // Lanes first: the pieces that lead to them end there.
      const axis: 0 | 1 = points.length > DETOUR && before !== 1 ? 1 : 0;
      return { axis, length: Math.hypot(right - x, down - y), points, port, before };
    }),
  );
  for (const { axis, points, port, before } of pieces.sort((a, b) => a.axis - b.axis || a.length - b.length)) {
    const ends = points.slice(before + 1, before + 3);
    const wanted = (ends[0] as Point)[axis];
    const [low = 0, high = 0] = ends.map((end) => end[axis ? 0 : 1]).sort((a, b) => a - b);
    const others = taken.filter(({ axis: its, port: from, span: [start = 0, end = 0] }) => {
      return its === axis && from !== port && low < end && start < high;
    });
    const at = (lane: number, along: number): Point => (axis ? [along, lane] : [lane, along]);
    const outward = wanted >= (points[0] as Point)[axis] ? 1 : -1;
    const isFree = (lane: number, apart: number) => {
      const piece = pieceBetween(at(lane - BESIDE / 2, low), at(lane + BESIDE / 2, high));
      const isClear = lane === wanted || !upright.some((box) => meet(piece, box));
      return isClear && others.every((other) => Math.abs(other.lane - lane) >= apart);
    };
    const tried = APART.flatMap((apart) => ASIDE.map((step) => [wanted + outward * apart * step, apart] as const));
    const [lane] = tried.find(([lane, apart]) => isFree(lane, apart)) ?? [wanted];
    points.splice(before + 1, 2, ...ends.map((end) => at(lane, end[axis ? 0 : 1])));
    taken.push({ axis, lane, span: [low, high], port });
  }
  return made.map(([, points]) => turn(points));
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

export interface LabelPlace {
  readonly at: Point;
  readonly side: -1 | 1;
}

/**
 * Where an edge's label stands, and on which side: beside the edge's middle, away from the nodes that it passes; on the
 * other side, or at the edge's start, where its text would run behind one of the boxes.
 */
export function labelPlace(points: readonly Point[], text = "", boxes: readonly Box[] = []): LabelPlace {
  const width = LABEL_LETTER * text.length;
  const start = points[0] ?? [0, 0];
  const below: Point = [start[0], start[1] + TURN / 2];
  const [a, b] = points.length > 2 ? [points[1] ?? start, points[2] ?? start] : [start, points[1] ?? start];
  const isDetour = points.length > DETOUR;
  const at: Point = isDetour ? below : [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  const side = !isDetour && points.length > 2 && a[0] < start[0] ? -1 : 1;
  const usual: LabelPlace = { at, side };
  if (boxes.length === 0) return usual;
  const right = Math.max(...boxes.map((box) => box.left + box.width));
  const isFree = ({ at: [x, y], side }: LabelPlace) => {
    const box = { left: side > 0 ? x + LABEL_GAP : x - LABEL_GAP - width, top: y - 5, width, height: 10 };
    const isInView = boxes.some((other) => other.left - RIM < box.left && width + box.left < right + RIM);
    return isInView && !boxes.some((other) => overlaps(box, other));
  };
  const others: LabelPlace[] = [
    { at, side: side > 0 ? -1 : 1 },
    { at: below, side: 1 },
    { at: below, side: -1 },
  ];
  return [usual, ...others].find(isFree) ?? usual;
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
  // So close to each other that no node of a long edge lies between two.
  const samples = Math.max(SAMPLES, Math.ceil((3 * (d[1] - a[1])) / height));
  for (let step = 1; step < samples; step += 1) {
    const [x, y] = pointOn(curve, step / samples);
    if (left < x && x < left + width && top < y && y < top + height) return true;
  }
  return false;
}
