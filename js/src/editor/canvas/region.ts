import { type ReactFlowState, useStore, useStoreApi } from "@xyflow/react";
import { useCallback, useEffect, useRef } from "react";
import type { EdgeState } from "../../protocol";
import { definitionOf } from "../document/definitions";
import { type Columns, columnsOf, wiringOf } from "../document/wiring";
import { boxOf, type NodeBox } from "../scene/boxes";
import { UNFOLDED } from "../scene/folded";
import { type Box, contains, overlaps, union } from "../scene/geometry";
import { giverOf, NOTHING_INLINED } from "../scene/inlining";
import { UNPUSHED } from "../scene/pushed";
import { cardFor, centreOf, type ShownScene } from "../scene/scene";
import { STILL } from "../scene/view";

/** What React Flow is given of a graph: what stands in or near the view, with the ends of every edge that passes. */
export interface Region {
  readonly names: ReadonlySet<string>;
  /** Of these, what is only where an edge ends: React Flow has to know it, and need not draw it. */
  readonly ends: ReadonlySet<string>;
  readonly edges: readonly EdgeState[];
}

/** How far cards are made beyond the view, in views: on every side of a view that rests, and ahead of one that moves. */
const BEYOND = 1 / 16;
/** How much more than the view it may be that has cards. */
const MOST = 2;
/** How much nearer or farther a view may come before its cards are told in letters of another size. */
const STRETCH = 1.35;
/** When a view rests, in milliseconds. */
const RESTS_AFTER = 120;

/**
 * The part of the canvas that has cards. It grows with a view that moves, because making and removing them takes most of
 * the time of a frame, and is the view and a little more again when that rests.
 */
export function useWindow(): Box {
  return useKept(followed);
}

/** The zoom for which cards are drawn: other letters mean that the browser sets the text of all of them. */
export function useDrawnZoom(): number {
  return useKept(stretched);
}

/** A value that `follow` computes from the view and from its value before; it is computed afresh when the view rests. */
function useKept<T>(follow: (kept: T | null, state: ReactFlowState) => T): T {
  const flow = useStoreApi();
  const kept = useRef<T>(null);
  const value = useStore(
    useCallback(
      (state: ReactFlowState) => {
        kept.current = follow(kept.current, state);
        return kept.current;
      },
      [follow],
    ),
  );
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let frame = 0;
    // Where a frame takes longer than the pause, the next move comes with the next frame.
    const rest = () => {
      frame = requestAnimationFrame(() => {
        frame = requestAnimationFrame(() => {
          kept.current = null;
          // So that it is asked again.
          flow.setState({});
        });
      });
    };
    const stop = () => {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
    };
    const end = flow.subscribe(({ transform, width, height }, before) => {
      if (transform === before.transform && width === before.width && height === before.height) return;
      stop();
      timer = setTimeout(rest, RESTS_AFTER);
    });
    return () => {
      end();
      stop();
    };
  }, [flow]);
  return value;
}

function viewOf({ transform: [x, y, zoom], width, height }: ReactFlowState): Box {
  return { left: -x / zoom, top: -y / zoom, width: width / zoom, height: height / zoom };
}

/** What has cards when the view has moved. */
function followed(kept: Box | null, state: ReactFlowState): Box {
  const view = viewOf(state);
  const wide = {
    left: view.left - BEYOND * view.width,
    top: view.top - BEYOND * view.height,
    width: (1 + 2 * BEYOND) * view.width,
    height: (1 + 2 * BEYOND) * view.height,
  };
  if (!kept) return wide;
  const grown = contains(kept, view) ? kept : union([kept, wide]);
  return grown.width * grown.height <= MOST * wide.width * wide.height ? grown : wide;
}

function stretched(kept: number | null, { transform: [, , zoom] }: ReactFlowState): number {
  return kept !== null && zoom < kept * STRETCH && zoom > kept / STRETCH ? kept : zoom;
}

/** Farther than this from its centre, no card reaches that has few ports. */
const REACH = 600;
const FEW_PORTS = 7;

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
  const endAt = (address: string) => index.get(cardFor(scene, giverOf(inlined, address)[0])) ?? -1;
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
  const [OUTSIDE, END, INSIDE] = [0, 1, 2];
  const where = new Uint8Array(all.length);
  for (let place = 0; place < all.length; place += 1) {
    const [x, y] = [xs[place] as number, ys[place] as number];
    const name = all[place] as string;
    const isNear = (x >= left && x <= right && y >= top && y <= bottom) || (large.size > 0 && large.has(name));
    if ((isNear && overlaps(boxAt(place), window)) || (selected.size > 0 && selected.has(name))) where[place] = INSIDE;
  }
  const edges: EdgeState[] = [];
  for (let wire = 0; wire < from.length; wire += 1) {
    const [a, b] = [from[wire] as number, to[wire] as number];
    if (a < 0 || b < 0) continue;
    if (where[a] !== INSIDE && where[b] !== INSIDE) {
      const [x1, y1, x2, y2] = [xs[a], ys[a], xs[b], ys[b]] as [number, number, number, number];
      const isAside = (x1 < left && x2 < left) || (x1 > right && x2 > right);
      if (isAside || (y1 < top && y2 < top) || (y1 > bottom && y2 > bottom)) continue;
      if (!overlaps(union([boxAt(a), boxAt(b)]), window)) continue;
    }
    edges.push(scene.wires[wire] as EdgeState);
    for (const end of [a, b]) if (where[end] === OUTSIDE) where[end] = END;
  }
  // Always in the same order: the browser would have to move the cards of another one.
  const [names, ends] = [new Set<string>(), new Set<string>()];
  for (const [place, state] of where.entries()) {
    if (state === OUTSIDE) continue;
    names.add(all[place] as string);
    if (state === END) ends.add(all[place] as string);
  }
  return { names, ends, edges };
}
