import { useReactFlow, useStore } from "@xyflow/react";
import { type PointerEvent, useEffect, useMemo, useRef } from "react";
import type { NodeState } from "../../protocol";
import { isLarge, useDrawn, useSettled, useView } from "../commands/context";
import { type Layer, layersOf } from "../scene/boxes";
import { categoryOf, isOpen } from "../scene/card";
import type { Box } from "../scene/geometry";
import { centreOf, extentOf, type ShownScene } from "../scene/scene";
import { NOTHING, STILL } from "../scene/view";

/** It is as wide and as high as the graph makes it, between these, and hides as little as can be. */
const WIDTH = [56, 148] as const;
const HEIGHT = [48, 92] as const;
const MARGIN = 8;
/** Pixels of the canvas per pixel of the page: sharp on most screens. */
const DENSITY = 2;

/** Maps the graph to the little map of this size: `x * scale + left`. */
interface Frame {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly top: number;
  readonly scale: number;
}

/**
 * The whole graph in a corner, while a part of it is out of view; press or drag in it to go there. Nodes are drawn when
 * they change, never on panning.
 */
export function MiniMap() {
  const scene = useSettled(useDrawn());
  const chosen = useView((view) => view.nodes);
  // All of it is drawn for a selection, and that of a large graph takes a while.
  const selected = isLarge(scene) ? NOTHING : chosen;
  const here = useView((view) => view.path.map((name) => `${name}.`).join(""));
  const { setCenter, getZoom } = useReactFlow();
  const canvas = useRef<HTMLCanvasElement>(null);
  const layers = useMemo(() => (scene ? layersOf(scene) : []), [scene]);
  const extent = useMemo(() => scene && extentOf(scene), [scene]);
  const frame = useMemo(() => frameOf(extent), [extent]);
  const isNeeded = useStore((state) => extent !== null && !isInView(extent, state));

  useEffect(() => {
    if (!isNeeded || !frame) return;
    // Colours are asked for when the browser has them anyway, and once a frame however many edits come.
    const next = requestAnimationFrame(() => canvas.current && draw(canvas.current, layers, here, selected, frame));
    return () => cancelAnimationFrame(next);
  }, [layers, here, selected, frame, isNeeded]);

  if (!frame) return null;
  const go = (event: PointerEvent<HTMLElement>) => {
    if (event.buttons === 0) return;
    const box = event.currentTarget.getBoundingClientRect();
    const x = (event.clientX - box.left - frame.left) / frame.scale;
    const y = (event.clientY - box.top - frame.top) / frame.scale;
    void setCenter(x, y, { zoom: getZoom() });
  };
  return (
    <div
      className="pnne-minimap nopan nodrag nowheel"
      style={{ width: frame.width, height: frame.height }}
      hidden={!isNeeded}
      role="img"
      aria-label="Overview of the graph"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={go}
    >
      <canvas ref={canvas} width={frame.width * DENSITY} height={frame.height * DENSITY} />
      <ViewportFrame frame={frame} />
    </div>
  );
}

/** What the view shows, on the map. */
function ViewportFrame({ frame }: { frame: Frame }) {
  const [x, y, zoom] = useStore((state) => state.transform);
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  const scale = frame.scale / zoom;
  return (
    <i
      style={{
        transform: `translate(${frame.left - x * scale}px, ${frame.top - y * scale}px)`,
        width: width * scale,
        height: height * scale,
      }}
    />
  );
}

interface Viewed {
  readonly transform: readonly [number, number, number];
  readonly width: number;
  readonly height: number;
}

function isInView({ left, top, width, height }: Box, view: Viewed): boolean {
  const [x, y, zoom] = view.transform;
  const [near, far] = [left * zoom + x, (left + width) * zoom + x];
  const [upper, lower] = [top * zoom + y, (top + height) * zoom + y];
  return near >= 0 && far <= view.width && upper >= 0 && lower <= view.height;
}

function frameOf(extent: Box | null): Frame | null {
  if (!extent) return null;
  const scale = Math.min((WIDTH[1] - 2 * MARGIN) / extent.width, (HEIGHT[1] - 2 * MARGIN) / extent.height, 0.12);
  const width = Math.max(WIDTH[0], Math.ceil(extent.width * scale + 2 * MARGIN));
  const height = Math.max(HEIGHT[0], Math.ceil(extent.height * scale + 2 * MARGIN));
  const left = (width - extent.width * scale) / 2 - extent.left * scale;
  const top = (height - extent.height * scale) / 2 - extent.top * scale;
  return { width, height, left, top, scale };
}

function draw(
  canvas: HTMLCanvasElement,
  layers: readonly Layer[],
  here: string,
  selected: ReadonlySet<string>,
  frame: Frame,
): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const style = getComputedStyle(canvas);
  context.setTransform(DENSITY, 0, 0, DENSITY, 0, 0);
  context.clearRect(0, 0, frame.width, frame.height);
  for (const { scene, at } of layers) {
    const place = { ...frame, left: frame.left + at[0] * frame.scale, top: frame.top + at[1] * frame.scale };
    drawLayer(context, style, scene, scene.prefix === here ? selected : NOTHING, place);
  }
}

function drawLayer(
  context: CanvasRenderingContext2D,
  style: CSSStyleDeclaration,
  scene: ShownScene,
  selected: ReadonlySet<string>,
  frame: Frame,
): void {
  const { cards, frames, graph, types } = scene;
  const accent = style.getPropertyValue("--pn-accent");
  const lightness = style.getPropertyValue("--pn-swatch-lightness");
  context.globalAlpha = 0.25;
  for (const { box, colour = "grey" } of frames.values()) {
    const [left, top, width, height] = box;
    context.fillStyle = style.getPropertyValue(`--pn-frame-${colour}`);
    const [x, y] = [frame.left + left * frame.scale, frame.top + top * frame.scale];
    context.fillRect(x, y, width * frame.scale, height * frame.scale);
  }
  let last: unknown = null;
  const drawn = new Map<unknown, number>();
  context.globalAlpha = 1;
  for (const name of cards.keys()) {
    const card = cards.ready(name);
    const node = graph.nodes.get(name) as NodeState;
    const look = selected.has(name) ? accent : categoryOf(node, types.get(node.type));
    const { width, height } = cards.roughSize(name);
    const [x, y] = centreOf(scene, name, STILL);
    const [left, top] = [frame.left + (x - width / 2) * frame.scale, frame.top + (y - height / 2) * frame.scale];
    const open = card !== undefined && isOpen(card);
    if (width * frame.scale < 1 && height * frame.scale < 1 && !open) {
      // Of a row of dots in one place, the first is enough.
      const dot = Math.round(left * DENSITY) * 4096 + Math.round(top * DENSITY);
      if (drawn.get(look) === dot) continue;
      drawn.set(look, dot);
    }
    // A colour is read as a text, which takes longer than to draw with it.
    if (look !== last)
      context.fillStyle = typeof look === "string" ? look : `oklch(${lightness} ${look.chroma} ${look.hue})`;
    last = look;
    if (open) context.globalAlpha = 0.3;
    context.fillRect(left, top, Math.max(width * frame.scale, 1), Math.max(height * frame.scale, 1));
    if (open) context.globalAlpha = 1;
  }
  context.globalAlpha = 1;
}
