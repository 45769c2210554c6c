import { type ReactFlowState, useStore } from "@xyflow/react";
import { useMemo } from "react";
import type { EdgeState } from "../../protocol";
import { nodeOf } from "../document/document";
import { boxesOf, endsOf } from "../scene/boxes";
import { type Box, overlaps, union } from "../scene/geometry";
import { cardFor, type ShownScene } from "../scene/scene";
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

/** Nodes and edges that touch the window, and the nodes that are selected: those may be dragged from anywhere. */
export function regionOf(scene: ShownScene, window: Box, selected: ReadonlySet<string>): Region {
  const boxes = boxesOf(scene, STILL);
  const ends = endsOf(scene, boxes);
  const names = new Set<string>();
  for (const box of boxes) if (selected.has(box.name) || overlaps(box, window)) names.add(box.name);
  const edges: EdgeState[] = [];
  for (const edge of scene.wires) {
    const [from, to] = [cardFor(scene, nodeOf(edge.source)), nodeOf(edge.target)];
    const [source, target] = [ends.get(from), ends.get(to)];
    if (!source || !target) continue;
    const near = names.has(from) || names.has(to) || overlaps(union([source, target]), window);
    if (!near) continue;
    edges.push(edge);
  }
  for (const edge of edges) {
    names.add(cardFor(scene, nodeOf(edge.source)));
    names.add(nodeOf(edge.target));
  }
  return { names, edges };
}
