import type { EdgeState } from "../../protocol";
import { nodeOf } from "../document/document";
import type { Card } from "./card";
import { type Box, insideAt, overlaps } from "./geometry";
import type { Point } from "./placement";
import { centreOf, extentOf, type ShownScene, sizeOf } from "./scene";
import { STILL, type ViewState } from "./view";

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

export function middleOf({ left, top, width, height }: Box): Point {
  return [left + width / 2, top + height / 2];
}

export function holds({ left, top, width, height }: Box, [x, y]: Point): boolean {
  return x >= left && y >= top && x <= left + width && y <= top + height;
}

const resting = new WeakMap<ShownScene, NodeBox[]>();

/** The place of every node; worked out once per scene as long as nothing moves. */
export function boxesOf(scene: ShownScene, moving: ViewState["moving"]): NodeBox[] {
  const known = moving.size === 0 ? resting.get(scene) : undefined;
  if (known) return known;
  const boxes: NodeBox[] = [];
  for (const name of scene.cards.keys()) boxes.push(boxOf(scene, name, moving) as NodeBox);
  if (moving.size === 0) resting.set(scene, boxes);
  return boxes;
}

export function boxOf(scene: ShownScene, name: string, moving: ViewState["moving"] = STILL): NodeBox | undefined {
  const card = scene.cards.get(name);
  if (!card) return undefined;
  const [x, y] = centreOf(scene, name, moving);
  const { width, height } = card.geometry;
  return { name, card, left: x - width / 2, top: y - height / 2, width, height };
}

/** The box at which the edges of a node end, as in `endsOf`. */
function endOf(scene: ShownScene, name: string): NodeBox | undefined {
  const giver = nodeOf(scene.inlined.picks.get(name) ?? name);
  return boxOf(scene, name) ?? boxOf(scene, scene.folds.heads.get(giver) ?? giver);
}

/** The box at which the edges of each node end: those of nodes without a card end at the card that stands for them. */
export function endsOf(scene: ShownScene, boxes: readonly NodeBox[]): ReadonlyMap<string, NodeBox> {
  const ends = new Map(boxes.map((box) => [box.name, box]));
  for (const [name, shown] of [...scene.folds.heads, ...scene.inlined.picks]) {
    const box = ends.get(nodeOf(shown));
    if (box) ends.set(name, box);
  }
  return ends;
}

/** The same for the nodes of some edges alone. */
export function endsOfEdges(scene: ShownScene, edges: readonly EdgeState[]): ReadonlyMap<string, NodeBox> {
  const ends = new Map<string, NodeBox>();
  for (const name of edges.flatMap(({ source, target }) => [nodeOf(source), nodeOf(target)])) {
    const box = ends.get(name) ?? endOf(scene, name);
    if (box) ends.set(name, box);
  }
  return ends;
}

/** The topmost node under a point. */
export function nodeAt(boxes: readonly NodeBox[], point: Point): string | null {
  return boxes.findLast((box) => holds(box, point))?.name ?? null;
}

/** No card of a large graph that is not made yet reaches further from its centre. */
const REACH = 600;

/** The same of all cards; of a large graph, only those near the point are made. */
export function cardAt(scene: ShownScene, [x, y]: Point, moving: ViewState["moving"]): string | null {
  const near: NodeBox[] = [];
  for (const name of scene.cards.keys()) {
    const [left, top] = centreOf(scene, name, moving);
    const isNear = Math.abs(left - x) <= REACH && Math.abs(top - y) <= REACH;
    if (isNear || scene.open.has(name)) near.push(boxOf(scene, name, moving) as NodeBox);
  }
  return nodeAt(near, [x, y]);
}

/** Nodes that touch the rectangle between two points. */
export function nodesBetween(boxes: readonly NodeBox[], [x1, y1]: Point, [x2, y2]: Point): string[] {
  const area = { left: Math.min(x1, x2), top: Math.min(y1, y2), width: Math.abs(x2 - x1), height: Math.abs(y2 - y1) };
  return boxes.filter((box) => overlaps(box, area)).map((box) => box.name);
}

/** One of the graphs that are drawn: the outermost one, or that of a block which is open in place. */
export interface Layer {
  /** What the ids of its nodes and edges begin with in React Flow: `""`, or `"block/"`. */
  readonly id: string;
  readonly scene: ShownScene;
  /** Where its origin is on the canvas. */
  readonly at: Point;
}

/** All graphs that are drawn, each after the one around it; `moving` are nodes of the one with the prefix `within`. */
export function layersOf(root: ShownScene, moving: ViewState["moving"] = STILL, within = ""): readonly Layer[] {
  const layers: Layer[] = [{ id: "", scene: root, at: [0, 0] }];
  for (const { id, scene, at } of layers) {
    for (const [name, inside] of scene.open) {
      const card = scene.cards.get(name);
      const size = sizeOf(inside);
      if (!card || !size) continue;
      const [left, top] = topLeft(card, centreOf(scene, name, scene.prefix === within ? moving : STILL));
      const [x, y] = insideAt(card.geometry, size, card.collapsed);
      const corner = extentOf(inside) ?? { left: 0, top: 0 };
      layers.push({
        id: `${id}${name}/`,
        scene: inside,
        at: [at[0] + left + x - corner.left, at[1] + top + y - corner.top],
      });
    }
  }
  return layers;
}

/** The area of an open block on the canvas, its frame included. */
export function frameOf({ scene, at }: Layer, name: string): Box | null {
  const box = boxOf(scene, name);
  return box ? { ...box, left: at[0] + box.left, top: at[1] + box.top } : null;
}
