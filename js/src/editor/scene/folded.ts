import type { Graph } from "../document/document";
import type { Row, Run } from "../document/repeats";
import type { Point } from "./placement";

/** The runs that a view shows as one card each; `tests/cases/folding.json` compares with Python's picture. */
export interface Folds {
  /** The runs by their first nodes, whose cards represent them. */
  readonly runs: ReadonlyMap<string, Run>;
  /** All nodes of these, and of each expression that is one card, by the first. */
  readonly members: ReadonlyMap<string, Row>;
  /** For each of the other nodes, the node whose card represents it. */
  readonly heads: ReadonlyMap<string, string>;
  readonly bands: readonly Band[];
}

/** A part of the canvas, across its whole width or height, that is left out of the view. */
interface Band {
  readonly axis: 0 | 1;
  readonly from: number;
  readonly to: number;
}

export const UNFOLDED: Folds = { runs: new Map(), members: new Map(), heads: new Map(), bands: [] };

/** A node's position in the document; null if it has none yet. */
type PlaceOf = (name: string) => Point | null;

export function foldsOf(graph: Graph, runs: readonly Run[], chains: readonly Row[], placeOf: PlaceOf): Folds {
  if (runs.length + chains.length === 0) return UNFOLDED;
  const rows = runs.map((run) => run.flat());
  const members = new Map([...rows, ...chains].map((row) => [row[0] as string, row]));
  const heads = new Map([...members].flatMap(([head, [, ...others]]) => others.map((name) => [name, head])));
  const byHead = new Map(runs.map((run) => [run[0]?.[0] as string, run]));
  return { runs: byHead, members, heads, bands: bandsOf(graph, rows, heads, placeOf) };
}

/** The room that hidden nodes would take is closed where nothing else stands in it, beside them; a frame keeps it open. */
function bandsOf(graph: Graph, rows: readonly (readonly string[])[], heads: Folds["heads"], placeOf: PlaceOf): Band[] {
  if (graph.frames.size > 0 || rows.length === 0) return [];
  const found: Band[] = [];
  for (const row of rows) {
    const first = placeOf(row[0] as string);
    const last = placeOf(row.at(-1) as string);
    if (!first || !last) continue;
    const axis = Math.abs(last[1] - first[1]) >= Math.abs(last[0] - first[0]) ? 1 : 0;
    if (last[axis] > first[axis]) found.push({ axis, from: first[axis], to: last[axis] });
  }
  const places = [...graph.nodes.keys()].flatMap((name) => (heads.has(name) ? [] : [placeOf(name) ?? []]));
  return merged(found).filter(({ axis, from, to }) => !places.some(({ [axis]: at = from }) => at > from && at <= to));
}

function merged(bands: readonly Band[]): Band[] {
  const made: Band[] = [];
  for (const band of [...bands].sort((a, b) => a.axis - b.axis || a.from - b.from)) {
    const before = made.at(-1);
    if (before && before.axis === band.axis && band.from < before.to)
      made[made.length - 1] = { ...before, to: Math.max(before.to, band.to) };
    else made.push(band);
  }
  return made;
}

/** Where a place of the document is shown. */
export function shownAt({ bands }: Folds, place: Point): Point {
  if (bands.length === 0) return place;
  const shown: [number, number] = [place[0], place[1]];
  for (const { axis, from, to } of bands) shown[axis] -= Math.min(Math.max(place[axis] - from, 0), to - from);
  return shown;
}

/** The place of the document that is shown at a point: the inverse of `shownAt`. */
export function placedAt({ bands }: Folds, point: Point): Point {
  if (bands.length === 0) return point;
  const place: [number, number] = [point[0], point[1]];
  // In order, so that each band is met with those before it opened already.
  for (const { axis, from, to } of bands) if (place[axis] > from) place[axis] += to - from;
  return place;
}

/** The places of the document that nodes get when their cards are moved: with a folded card go all that it stands for. */
export function settled(folds: Folds, cards: ReadonlyMap<string, Point>, placeOf: PlaceOf): ReadonlyMap<string, Point> {
  if (folds === UNFOLDED) return cards;
  const places = new Map<string, Point>();
  for (const [name, point] of cards) {
    const members = folds.members.get(name);
    const own = placeOf(name);
    if (!members || !own) {
      places.set(name, placedAt(folds, point));
      continue;
    }
    const [x, y] = shownAt(folds, own);
    for (const member of members) {
      const before = placeOf(member) ?? own;
      places.set(member, [before[0] + point[0] - x, before[1] + point[1] - y]);
    }
  }
  return places;
}
