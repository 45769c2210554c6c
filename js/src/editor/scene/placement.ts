import { type Graph, nodeOf } from "../document/document";
import { wiringOf } from "../document/wiring";
import { type Box, HEADER_HEIGHT, NODE_WIDTH, overlaps, type Size, SUMMARY_HEIGHT } from "./geometry";

export type Point = readonly [x: number, y: number];

/** Distance between the centres of neighbours. */
export const STEP_X = NODE_WIDTH + 32;
export const STEP_Y = HEADER_HEIGHT + SUMMARY_HEIGHT + 44;
/** The same from left to right, with room for a shape along the edge. */
export const STEP_RIGHT = NODE_WIDTH + 96;

/** Where nodes without a position are shown until Python has arranged them: below what feeds them. */
export function provisionalPositions(graph: Graph): ReadonlyMap<string, Point> {
  const missing = [...graph.nodes.values()].filter(({ position }) => !position);
  const provisional = new Map<string, Point>();
  if (missing.length === 0) return provisional;
  const placed = new Map<string, Point>();
  for (const { name, position } of graph.nodes.values()) if (position) placed.set(name, position);
  const { into } = wiringOf(graph);
  const crowd = new Crowd(placed.values());
  let column = Math.max(0, ...[...placed.values()].map(([x]) => x + STEP_X));
  for (const node of missing) {
    const feeding = [...(into.get(node.name)?.values() ?? [])].map((edge) => placed.get(nodeOf(edge.source)));
    const source = feeding.find((position) => position !== undefined);
    const wanted: Point = source ? [source[0], source[1] + STEP_Y] : [column, 0];
    if (!source) column += STEP_X;
    const position = crowd.nearestFree(wanted);
    crowd.add(position);
    placed.set(node.name, position);
    provisional.set(node.name, position);
  }
  return provisional;
}

/** The centre nearest to `wanted` at which something of a size is clear of all boxes. */
export function freePlace(boxes: readonly Box[], wanted: Point, { width, height }: Size): Point {
  const half = [width / 2 + CLEAR, height / 2 + CLEAR] as const;
  return nearest(wanted, ([x, y]) => {
    const area = { left: x - half[0], top: y - half[1], width: 2 * half[0], height: 2 * half[1] };
    return !boxes.some((box) => overlaps(box, area));
  });
}

/** The least distance from a new card to others. */
const CLEAR = 20;

function nearest([x, y]: Point, isFree: (place: Point) => boolean): Point {
  for (let ring = 0; ring < 40; ring += 1) {
    for (const [dx, dy] of ringOf(ring)) {
      const place: Point = [x + dx * (STEP_X / 2), y + dy * (STEP_Y / 2)];
      if (isFree(place)) return place;
    }
  }
  return [x, y];
}

const CELL = 256;

/** Centres of nodes in a coarse grid, so that many free places are found in a large graph quickly. */
class Crowd {
  private readonly cells = new Map<string, Point[]>();

  constructor(points: Iterable<Point>) {
    for (const point of points) this.add(point);
  }

  add(point: Point): void {
    const key = this.key(point[0], point[1]);
    const cell = this.cells.get(key);
    if (cell) cell.push(point);
    else this.cells.set(key, [point]);
  }

  nearestFree(wanted: Point): Point {
    return nearest(wanted, (place) => this.isFree(place));
  }

  private isFree([x, y]: Point): boolean {
    for (const dx of [-CELL, 0, CELL]) {
      for (const dy of [-CELL, 0, CELL]) {
        for (const other of this.cells.get(this.key(x + dx, y + dy)) ?? []) {
          if (Math.abs(other[0] - x) < NODE_WIDTH + 20 && Math.abs(other[1] - y) < STEP_Y - 36) return false;
        }
      }
    }
    return true;
  }

  private key(x: number, y: number): string {
    return `${Math.floor(x / CELL)},${Math.floor(y / CELL)}`;
  }
}

/** Steps at Chebyshev distance `ring`, nearest first. */
function ringOf(ring: number): readonly Point[] {
  if (ring === 0) return [[0, 0]];
  const steps: Point[] = [];
  for (let offset = -ring; offset <= ring; offset += 1) {
    steps.push([ring, offset], [-ring, offset]);
    if (Math.abs(offset) !== ring) steps.push([offset, ring], [offset, -ring]);
  }
  return steps.sort((a, b) => Math.hypot(...a) - Math.hypot(...b));
}
