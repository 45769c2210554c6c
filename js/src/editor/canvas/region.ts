import { type ReactFlowState, useStore } from "@xyflow/react";
import { useMemo } from "react";
import type { EdgeState } from "../../protocol";
import { definitionOf } from "../document/definitions";
import { nodeOf } from "../document/document";
import { type Columns, columnsOf, wiringOf } from "../document/wiring";
import { boxOf, type NodeBox } from "../scene/boxes";
import { UNFOLDED } from "../scene/folded";
import { type Box, overlaps, union } from "../scene/geometry";
import { NOTHING_INLINED } from "../scene/inlining";
import { UNPUSHED } from "../scene/pushed";
import { cardFor, centreOf, type ShownScene } from "../scene/scene";
import { STILL } from "../scene/view";

/** Cells that the view is wide, at least: fewer and larger ones make changes rarer and React Flow's work larger. */
const CELLS = 3;

/** What React Flow is given of a graph: what stands in or near the view, with the ends of every edge that passes. */
export interface Region {
  readonly names: ReadonlySet<string>;
  readonly edges: readonly EdgeState[];
}

/** The part of the canvas in view, widened to whole cells, so that it changes only now and then on panning. */
export function useWindow(): Box {
  const key = useStore(cellsInView);
  return useMemo(() => {
    const [left = 0, top = 0, width = 0, height = 0] = key.split(" ").map(Number);
    return { left, top, width, height };
  }, [key]);
}

function cellsInView({ transform: [x, y, zoom], width, height }: ReactFlowState): string {
  const size = 2 ** Math.ceil(Math.log2(Math.max(width, height, 1) / zoom / CELLS));
  const down = (value: number) => Math.floor(value / size) * size;
  const up = (value: number) => Math.ceil(value / size) * size;
  const [left, top] = [down(-x / zoom), down(-y / zoom)];
  return `${left} ${top} ${up((width - x) / zoom) - left} ${up((height - y) / zoom) - top}`;
}

/** Farther than this from its centre, no card reaches that has few ports. */
const REACH = 600;
const FEW_PORTS = 16;

const known = new WeakMap<ShownScene, Columns>();

/** Where cards stand and wires end: of tens of thousands, no card is made before it comes near the view. */
function placesOf(scene: ShownScene): Columns {
  const earlier = known.get(scene);
  if (earlier) return earlier;
  const places = isPlain(scene) ? columnsOf(scene.graph) : ownPlaces(scene);
  known.set(scene, places);
  return places;
}

/** Whether everything is shown where it stands in the document. */
function isPlain({ cards, folds, graph, inlined, provisional, pushed }: ShownScene): boolean {
  const isWhole = cards.size === graph.nodes.size && inlined === NOTHING_INLINED;
  return isWhole && folds === UNFOLDED && pushed === UNPUSHED && provisional.size === 0;
}

function ownPlaces(scene: ShownScene): Columns {
  const { cards, inlined, wires } = scene;
  const names = [...cards.keys()];
  const [xs, ys] = [new Float64Array(names.length), new Float64Array(names.length)];
  const index = new Map<string, number>();
  for (const [place, name] of names.entries()) {
    index.set(name, place);
    [xs[place], ys[place]] = centreOf(scene, name, STILL);
  }
  const endAt = (address: string) => {
    const name = nodeOf(address);
    return index.get(name) ?? index.get(cardFor(scene, inlined.picks.get(name) ?? name)) ?? -1;
  };
  const from = Int32Array.from(wires, ({ source }) => endAt(source));
  const to = Int32Array.from(wires, ({ target }) => endAt(target));
  return { names, xs, ys, from, to };
}

/** The nodes whose cards may reach far from their centres. */
function largeOf({ graph }: ShownScene): ReadonlySet<string> {
  const { into, outOf } = wiringOf(graph);
  const large = new Set<string>();
  for (const [name, { size }] of into) if (size > FEW_PORTS) large.add(name);
  for (const [name, { length }] of outOf) if (length > FEW_PORTS) large.add(name);
  for (const node of graph.nodes.values()) if (definitionOf(node) !== null) large.add(node.name);
  return large;
}

/** Nodes and edges that touch the window, and the nodes that are selected: those may be dragged from anywhere. */
export function regionOf(scene: ShownScene, window: Box, selected: ReadonlySet<string>): Region {
  const { names: all, xs, ys, from, to } = placesOf(scene);
  const large = largeOf(scene);
  const made = new Map<number, NodeBox>();
  const boxAt = (place: number): NodeBox => {
    const box = made.get(place) ?? (boxOf(scene, all[place] as string) as NodeBox);
    made.set(place, box);
    return box;
  };
  const [left, right] = [window.left - REACH, window.left + window.width + REACH];
  const [top, bottom] = [window.top - REACH, window.top + window.height + REACH];
  const inside = new Uint8Array(all.length);
  const names = new Set<string>();
  for (let place = 0; place < all.length; place += 1) {
    const [x, y] = [xs[place] as number, ys[place] as number];
    const name = all[place] as string;
    const isNear = (x >= left && x <= right && y >= top && y <= bottom) || (large.size > 0 && large.has(name));
    if (!isNear || !overlaps(boxAt(place), window)) continue;
    inside[place] = 1;
    names.add(name);
  }
  for (const name of selected) if (scene.cards.has(name)) names.add(name);
  const edges: EdgeState[] = [];
  for (let wire = 0; wire < from.length; wire += 1) {
    const [a, b] = [from[wire] as number, to[wire] as number];
    if (a < 0 || b < 0) continue;
    if (inside[a] === 0 && inside[b] === 0 && !selected.has(all[a] as string) && !selected.has(all[b] as string)) {
      const [x1, y1, x2, y2] = [xs[a], ys[a], xs[b], ys[b]] as [number, number, number, number];
      const isAside = (x1 < left && x2 < left) || (x1 > right && x2 > right);
      if (isAside || (y1 < top && y2 < top) || (y1 > bottom && y2 > bottom)) continue;
      if (!overlaps(union([boxAt(a), boxAt(b)]), window)) continue;
    }
    edges.push(scene.wires[wire] as EdgeState);
    names.add(all[a] as string);
    names.add(all[b] as string);
  }
  return { names, edges };
}
