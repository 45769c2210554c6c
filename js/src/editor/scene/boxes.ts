import type { Card } from "./card";
import type { Point } from "./placement";
import { centreOf, type ShownScene } from "./scene";
import { STILL, type ViewState } from "./view";

/** A rectangle in the canvas's pixels. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface NodeBox extends Box {
  readonly name: string;
  readonly card: Card;
}

export function topLeft(card: Card, [x, y]: Point): Point {
  return [x - card.geometry.width / 2, y - card.geometry.height / 2];
}

export function centre(card: Card, [x, y]: Point): [number, number] {
  return [x + card.geometry.width / 2, y + card.geometry.height / 2];
}

const resting = new WeakMap<ShownScene, NodeBox[]>();

/** The place of every node; worked out once per scene as long as nothing moves. */
export function boxesOf(scene: ShownScene, moving: ViewState["moving"]): NodeBox[] {
  const known = moving.size === 0 ? resting.get(scene) : undefined;
  if (known) return known;
  const boxes: NodeBox[] = [];
  for (const [name, card] of scene.cards) {
    const [left, top] = topLeft(card, centreOf(scene, name, moving));
    boxes.push({ name, card, left, top, width: card.geometry.width, height: card.geometry.height });
  }
  if (moving.size === 0) resting.set(scene, boxes);
  return boxes;
}

/** The box at which the edges of each node end: those of nodes without a card end at the card that stands for them. */
export function endsOf(scene: ShownScene, boxes: readonly NodeBox[]): ReadonlyMap<string, NodeBox> {
  const ends = new Map(boxes.map((box) => [box.name, box]));
  for (const [name, head] of scene.folds.heads) {
    const box = ends.get(head);
    if (box) ends.set(name, box);
  }
  for (const [name, giver] of scene.inlined.picks) {
    const box = ends.get(giver);
    if (box) ends.set(name, box);
  }
  return ends;
}

export function overlaps(a: Box, b: Box): boolean {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
}

export function union(boxes: readonly Box[]): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of boxes) {
    left = Math.min(left, box.left);
    top = Math.min(top, box.top);
    right = Math.max(right, box.left + box.width);
    bottom = Math.max(bottom, box.top + box.height);
  }
  return { left, top, width: right - left, height: bottom - top };
}

/** The place of all that is drawn, frames included; null for nothing. */
export function extentOf(scene: ShownScene): Box | null {
  const frames = [...scene.graph.frames.values()].map(({ box: [left, top, width, height] }) => ({
    left,
    top,
    width,
    height,
  }));
  const all = [...boxesOf(scene, STILL), ...frames];
  return all.length > 0 ? union(all) : null;
}

/** The topmost node under a point. */
export function nodeAt(boxes: readonly NodeBox[], [x, y]: Point): string | null {
  const hit = boxes.findLast(
    (box) => x >= box.left && y >= box.top && x <= box.left + box.width && y <= box.top + box.height,
  );
  return hit?.name ?? null;
}

/** Nodes that touch the rectangle between two points. */
export function nodesBetween(boxes: readonly NodeBox[], [x1, y1]: Point, [x2, y2]: Point): string[] {
  const [left, right] = [Math.min(x1, x2), Math.max(x1, x2)];
  const [top, bottom] = [Math.min(y1, y2), Math.max(y1, y2)];
  return boxes
    .filter((box) => box.left < right && box.top < bottom && box.left + box.width > left && box.top + box.height > top)
    .map((box) => box.name);
}
