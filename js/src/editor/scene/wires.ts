import type { EdgeState } from "../../protocol";
import { nodeOf, splitPort } from "../document/document";
import { endsOf, type NodeBox } from "./boxes";
import type { HandlePlace } from "./geometry";
import { giverOf } from "./inlining";
import type { Point } from "./placement";
import { type Curve, curvesThrough, parted, pointOn, routed } from "./routes";
import type { ShownScene } from "./scene";

const SAMPLES = 24;

/** Up to so many nodes, edges run around those that stand in their way: each edge in view looks at all of them. */
export const MOST_ROUTED = 500;

const known = new WeakMap<readonly NodeBox[], ReadonlyMap<EdgeState, readonly Point[]>>();

/** The points that each edge passes, around the nodes between its ends and beside other edges; among many, straight on. */
export function routesOf(scene: ShownScene, boxes: readonly NodeBox[]): ReadonlyMap<EdgeState, readonly Point[]> {
  const made = known.get(boxes);
  if (made) return made;
  const ends = endsOf(scene, boxes);
  const drawn = scene.wires.flatMap((edge) => {
    const points = endsAt(scene, edge, ends);
    return points ? [{ edge, id: `${edge.source} ${edge.target}`, points }] : [];
  });
  let found: readonly (readonly Point[])[] = drawn.map(({ points }) => points);
  if (boxes.length <= MOST_ROUTED) {
    drawn.sort((a, b) => (a.id < b.id ? -1 : 1));
    const routes = drawn.map(({ edge, points }) => {
      const own = [edge.source, edge.target].map((address) => ends.get(nodeOf(address)) as NodeBox);
      const others = boxes.filter((box) => !own.includes(box));
      return [edge.source, routed(points[0], points[1], others, scene.across, own)] as const;
    });
    found = parted(routes, boxes, scene.across);
  }
  const all = new Map(drawn.map(({ edge }, place) => [edge, found[place] ?? []]));
  known.set(boxes, all);
  return all;
}

/** Where an edge leaves and arrives. */
export function endsAt(
  { inlined }: ShownScene,
  edge: EdgeState,
  ends: ReadonlyMap<string, NodeBox>,
): readonly [Point, Point] | null {
  const source = ends.get(nodeOf(edge.source));
  const target = ends.get(nodeOf(edge.target));
  if (!source || !target) return null;
  const [, port] = giverOf(inlined, edge.source);
  return [portPlace(source, port, "output"), portPlace(target, splitPort(edge.target)[1], "input")];
}

/** The edge that runs within `reach` of a point, nearest first; those of the node `except` do not count. */
export function edgeAt(
  scene: ShownScene,
  boxes: readonly NodeBox[],
  [x, y]: Point,
  reach: number,
  except = "",
): EdgeState | null {
  // A node that is held over an edge is not in its way.
  const routes = routesOf(scene, except ? boxes.filter((box) => box.name !== except) : boxes);
  let best: EdgeState | null = null;
  let nearest = reach;
  for (const edge of scene.wires) {
    if (nodeOf(edge.source) === except || nodeOf(edge.target) === except) continue;
    const distance = distanceTo(routes.get(edge) ?? [], scene.across, [x, y], nearest);
    if (distance < nearest) [best, nearest] = [edge, distance];
  }
  return best;
}

/** How far a place is from an edge along these points; `most`: no nearer than that. */
export function distanceTo(points: readonly Point[], across: boolean, [x, y]: Point, most: number): number {
  let nearest = most;
  for (const curve of curvesThrough(points, across)) {
    if (!mayPass(curve, x, y, nearest)) continue;
    for (let step = 1; step < SAMPLES; step += 1) {
      const [px, py] = pointOn(curve, step / SAMPLES);
      nearest = Math.min(nearest, Math.hypot(px - x, py - y));
    }
  }
  return nearest;
}

/** The edges that a stroke from point to point crosses. */
export function edgesAcross(scene: ShownScene, boxes: readonly NodeBox[], stroke: readonly Point[]): EdgeState[] {
  const routes = routesOf(scene, boxes);
  return scene.wires.filter((edge) =>
    curvesThrough(routes.get(edge) ?? [], scene.across).some((curve) => {
      const points = Array.from({ length: SAMPLES + 1 }, (_, step) => pointOn(curve, step / SAMPLES));
      return pairs(points).some(([a, b]) => pairs(stroke).some(([c, d]) => doCross(a, b, c, d)));
    }),
  );
}

function pairs(points: readonly Point[]): (readonly [Point, Point])[] {
  return points.slice(1).map((point, place) => [points[place] as Point, point]);
}

function doCross(a: Point, b: Point, c: Point, d: Point): boolean {
  const side = ([px, py]: Point, [qx, qy]: Point, [x, y]: Point) => (qx - px) * (y - py) - (qy - py) * (x - px);
  return side(a, b, c) > 0 !== side(a, b, d) > 0 && side(c, d, a) > 0 !== side(c, d, b) > 0;
}

function portPlace(box: NodeBox, port: string, side: HandlePlace["side"]): Point {
  const place = box.card.geometry.handles.find((handle) => handle.port === port && handle.side === side);
  return [box.left + (place?.x ?? box.width / 2), box.top + (place?.y ?? (side === "input" ? 0 : box.height))];
}

/** A curve stays inside the box of its four points. */
function mayPass(curve: Curve, x: number, y: number, reach: number): boolean {
  const xs = curve.map((point) => point[0]);
  const ys = curve.map((point) => point[1]);
  return (
    x > Math.min(...xs) - reach &&
    x < Math.max(...xs) + reach &&
    y > Math.min(...ys) - reach &&
    y < Math.max(...ys) + reach
  );
}
