import type { EdgeState } from "../../protocol";
import { nodeOf, splitPort } from "../document/document";
import { endsOf, type NodeBox } from "./boxes";
import type { HandlePlace } from "./geometry";
import type { Point } from "./placement";
import type { ShownScene } from "./scene";

const SAMPLES = 24;

/** The four points of an edge's curve, which runs out of the lower side of one node into the upper side of another. */
export type Curve = readonly [Point, Point, Point, Point];

export function curveOf(edge: EdgeState, boxes: ReadonlyMap<string, NodeBox>): Curve | null {
  const source = boxes.get(nodeOf(edge.source));
  const target = boxes.get(nodeOf(edge.target));
  if (!source || !target) return null;
  const [x1, y1] = portPlace(source, splitPort(edge.source)[1], "output");
  const [x2, y2] = portPlace(target, splitPort(edge.target)[1], "input");
  // As React Flow bends them.
  const bend = y2 >= y1 ? (y2 - y1) / 2 : 6.25 * Math.sqrt(y1 - y2);
  return [
    [x1, y1],
    [x1, y1 + bend],
    [x2, y2 - bend],
    [x2, y2],
  ];
}

/** The edge that runs within `reach` of a point, nearest first; those of the node `except` do not count. */
export function edgeAt(
  scene: ShownScene,
  boxes: readonly NodeBox[],
  [x, y]: Point,
  reach: number,
  except = "",
): EdgeState | null {
  const ends = endsOf(scene, boxes);
  let best: EdgeState | null = null;
  let nearest = reach;
  for (const edge of scene.wires) {
    if (nodeOf(edge.source) === except || nodeOf(edge.target) === except) continue;
    const curve = curveOf(edge, ends);
    if (!curve || !mayPass(curve, x, y, reach)) continue;
    for (let step = 1; step < SAMPLES; step += 1) {
      const [px, py] = pointOn(curve, step / SAMPLES);
      const distance = Math.hypot(px - x, py - y);
      if (distance < nearest) [best, nearest] = [edge, distance];
    }
  }
  return best;
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

function pointOn([a, b, c, d]: Curve, t: number): Point {
  const s = 1 - t;
  const mix = (axis: 0 | 1) =>
    s * s * s * a[axis] + 3 * s * s * t * b[axis] + 3 * s * t * t * c[axis] + t * t * t * d[axis];
  return [mix(0), mix(1)];
}
