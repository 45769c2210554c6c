import { useStoreApi } from "@xyflow/react";
import { useLayoutEffect, useMemo, useRef } from "react";
import { SNOWFLAKE } from "../../protocol";
import { useSession } from "../commands/context";
import { nodeOf } from "../document/document";
import { boxesOf, endsOf, type Layer, type NodeBox } from "../scene/boxes";
import { isOpen } from "../scene/card";
import { type Box, overlaps, union } from "../scene/geometry";
import { curvesThrough, pathThrough } from "../scene/routes";
import type { ShownScene } from "../scene/scene";
import { NOTHING, STILL, type ViewState } from "../scene/view";
import { endsAt, MOST_ROUTED, routesOf } from "../scene/wires";
import { HEALTHY, type LiveTraining } from "../session/training";

interface FarViewProps {
  layers: readonly Layer[];
  /** What the names of the graph begin with that commands act on. */
  here: string;
  moving: ViewState["moving"];
  selected: ReadonlySet<string>;
}

/** How far the picture reaches beyond the view on every side, in views, and at most in pixels. */
const BEYOND = 0.3;
const MOST_BEYOND = 240;
const beyond = (length: number) => Math.min(Math.ceil(length * BEYOND), MOST_BEYOND);
/** How much the picture may be stretched while the view moves, and when it is drawn sharp again, in milliseconds. */
const STRETCH = 1.35;
const SETTLED_AFTER = 90;

/**
 * The graph as seen from far away: nodes and edges on one canvas, because a thousand elements cannot move smoothly.
 *
 * While the view moves, the picture is moved and stretched as it is; it is drawn anew when the view leaves it, when
 * it would be stretched too much, and when the view has come to rest.
 */
export function FarView({ layers, here, moving, selected }: FarViewProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const store = useStoreApi();
  const drawn = useMemo(
    () =>
      layers.map(({ scene, at }) => {
        const isHere = scene.prefix === here;
        const boxes = boxesOf(scene, isHere ? moving : STILL);
        const wires = isHere && moving.size > 0 ? null : routedWires(scene, boxes);
        return { scene, at, boxes, wires, selected: isHere ? selected : NOTHING };
      }),
    [layers, here, moving, selected],
  );
  const faulty = useSession((state) => state.training?.faulty ?? HEALTHY);

  useLayoutEffect(() => {
    const element = canvas.current;
    // The browser copies a canvas that is drawn on in every frame that moves it, and an image once.
    const shown = element?.getContext("bitmaprenderer");
    const drawing = new OffscreenCanvas(1, 1);
    const context = drawing.getContext("2d");
    if (!element || !shown || !context) return;
    let painted = { x: 0, y: 0, zoom: 1, width: 0, height: 0 };
    let resting: ReturnType<typeof setTimeout> | undefined;
    let frame = 0;
    const move = () => {
      clearTimeout(resting);
      cancelAnimationFrame(frame);
    };
    // Where a frame takes longer than the pause, the next move comes with the next frame.
    const rest = () => {
      frame = requestAnimationFrame(() => {
        frame = requestAnimationFrame(draw);
      });
    };
    const draw = () => {
      const { transform, width, height } = store.getState();
      const [x, y, zoom] = transform;
      const [left, top] = [beyond(width), beyond(height)];
      const density = window.devicePixelRatio || 1;
      drawing.width = Math.max(1, Math.round((width + 2 * left) * density));
      drawing.height = Math.max(1, Math.round((height + 2 * top) * density));
      element.style.cssText = `left: ${-left}px; top: ${-top}px; width: ${width + 2 * left}px; height: ${height + 2 * top}px`;
      context.setTransform(density * zoom, 0, 0, density * zoom, density * (x + left), density * (y + top));
      const seen = { left: -(x + left) / zoom, top: -(y + top) / zoom };
      const view = { ...seen, width: (width + 2 * left) / zoom, height: (height + 2 * top) / zoom };
      for (const { at, ...layer } of drawn) {
        const seen = { ...view, left: view.left - at[0], top: view.top - at[1] };
        context.save();
        context.translate(...at);
        paint(context, layer, faulty, seen, getComputedStyle(element), zoom);
        context.restore();
      }
      shown.transferFromImageBitmap(drawing.transferToImageBitmap());
      painted = { x, y, zoom, width, height };
    };
    const follow = () => {
      const { transform, width, height } = store.getState();
      const [x, y, zoom] = transform;
      if (x === painted.x && y === painted.y && zoom === painted.zoom && width === painted.width) return;
      const [left, top] = [beyond(width), beyond(height)];
      const scale = zoom / painted.zoom;
      const [dx, dy] = [x + left - scale * (left + painted.x), y + top - scale * (top + painted.y)];
      const reaches =
        dx <= left &&
        dy <= top &&
        dx + scale * (width + 2 * left) >= width + left &&
        dy + scale * (height + 2 * top) >= height + top;
      const sameSize = width === painted.width && height === painted.height;
      move();
      if (!reaches || !sameSize || scale > STRETCH || scale < 1 / STRETCH) {
        draw();
        return;
      }
      element.style.transform = `translate(${dx}px, ${dy}px) scale(${scale})`;
      resting = setTimeout(rest, SETTLED_AFTER);
    };
    draw();
    const end = store.subscribe(follow);
    return () => {
      end();
      move();
    };
  }, [drawn, faulty, store]);

  return <canvas ref={canvas} className="pnne-far" />;
}

interface Painted {
  readonly scene: ShownScene;
  readonly boxes: readonly NodeBox[];
  /** The edges as they run around nodes; null where there are too many for that, or while some move. */
  readonly wires: Path2D | null;
  readonly selected: ReadonlySet<string>;
}

function routedWires(scene: ShownScene, boxes: readonly NodeBox[]): Path2D | null {
  if (boxes.length > MOST_ROUTED) return null;
  return new Path2D([...routesOf(scene, boxes).values()].map((route) => pathThrough(route, scene.across)).join(""));
}

function paint(
  context: OffscreenCanvasRenderingContext2D,
  { scene, boxes, wires, selected }: Painted,
  faulty: LiveTraining["faulty"],
  view: Box,
  style: CSSStyleDeclaration,
  zoom: number,
): void {
  const token = (name: string) => style.getPropertyValue(name);
  for (const { box, colour = "grey" } of scene.frames.values()) {
    context.fillStyle = token(`--pn-frame-${colour}`);
    context.globalAlpha = 0.18;
    context.fillRect(...box);
  }
  context.globalAlpha = 1;
  context.lineWidth = 1.2 / zoom;
  context.strokeStyle = token("--pn-wire");
  context.stroke(wires ?? straightWires(scene, endsOf(scene, boxes), view));
  const flake = new Path2D(SNOWFLAKE);
  const lightness = token("--pn-swatch-lightness");
  for (const box of boxes) {
    if (!overlaps(box, view)) continue;
    const look = box.card.category;
    const colour = `oklch(${lightness} ${look.chroma} ${look.hue})`;
    if (zoom >= TOLD_FROM && !isOpen(box.card)) paintCard(context, box, colour, token, zoom);
    else {
      context.fillStyle = colour;
      context.beginPath();
      context.roundRect(box.left, box.top, box.width, box.height, 9);
      // What is inside of an open block is painted on it.
      context.globalAlpha = isOpen(box.card) ? 0.2 : 1;
      context.fill();
      context.globalAlpha = 1;
    }
    if (box.card.frozen) {
      context.save();
      context.translate(box.left + box.width - 44, box.top + 4);
      context.scale(2.5, 2.5);
      context.strokeStyle = token("--pn-cold");
      context.lineWidth = 1.6;
      context.stroke(flake);
      context.restore();
    }
    const problem = box.card.diagnostics.some((diagnostic) => diagnostic.severity !== "info");
    const bad = problem || faulty.has(box.card.path);
    if (!bad && !selected.has(box.name)) continue;
    context.beginPath();
    context.roundRect(box.left, box.top, box.width, box.height, 9);
    context.lineWidth = (selected.has(box.name) ? 3 : 1.5) / zoom;
    context.strokeStyle = token(selected.has(box.name) ? "--pn-accent" : "--pn-error");
    context.stroke();
  }
  context.font = `600 ${NAMED / zoom}px ${token("--pn-font")}`;
  context.fillStyle = token("--pn-fg");
  for (const { title, box } of scene.frames.values())
    writeName(context, title ?? "", { left: box[0], top: box[1], width: box[2], height: 0 }, zoom);
  if (zoom < TOLD_FROM)
    for (const box of boxes) if (box.card.inside && overlaps(box, view)) writeName(context, box.card.title, box, zoom);
}

/** The letters of the names of blocks and frames, in pixels of the screen, and how wide one is that can have a name. */
const NAMED = 10;
const NAMEABLE = 24;

/** From here on, cards are wide enough for their names; and how wide the band of their colour is, in the canvas's pixels. */
const TOLD_FROM = 0.3;
const BAND = 14;
/** How wide a letter is, of its height. */
const LETTER = 0.6;

/** A card as from near, with its name alone; what is too long ends in dots. */
function paintCard(
  context: OffscreenCanvasRenderingContext2D,
  { card, left, top, width, height }: NodeBox,
  colour: string,
  token: (name: string) => string,
  zoom: number,
): void {
  context.beginPath();
  context.roundRect(left, top, width, height, 9);
  context.fillStyle = token("--pn-card");
  context.fill();
  context.lineWidth = 1 / zoom;
  context.strokeStyle = token("--pn-line-strong");
  context.stroke();
  context.fillStyle = colour;
  context.beginPath();
  context.roundRect(left, top, BAND, height, [9, 0, 0, 9]);
  context.fill();
  const room = width - BAND - 8 / zoom;
  const letters = Math.floor((room * zoom) / (LETTER * NAMED));
  const { title } = card;
  context.font = `600 ${NAMED / zoom}px ${token("--pn-font")}`;
  context.textBaseline = "middle";
  context.fillStyle = token("--pn-fg");
  const text = title.length > letters ? `${title.slice(0, letters - 1)}…` : title;
  context.fillText(text, left + BAND + 4 / zoom, top + height / 2, room);
  context.textBaseline = "alphabetic";
}

/** Writes a name above a block or a frame, as much of it as is as wide. */
function writeName(context: OffscreenCanvasRenderingContext2D, name: string, box: Box, zoom: number): void {
  if (box.width * zoom < NAMEABLE) return;
  context.save();
  context.beginPath();
  context.rect(box.left, box.top - (1.6 * NAMED) / zoom, box.width, (1.6 * NAMED) / zoom);
  context.clip();
  context.fillText(name, box.left, box.top - (0.4 * NAMED) / zoom);
  context.restore();
}

function straightWires(scene: ShownScene, ends: ReadonlyMap<string, NodeBox>, view: Box): Path2D {
  const path = new Path2D();
  for (const edge of scene.wires) {
    const source = ends.get(nodeOf(edge.source));
    const target = ends.get(nodeOf(edge.target));
    if (!source || !target || !overlaps(union([source, target]), view)) continue;
    for (const [a, b, c, d] of curvesThrough(endsAt(scene, edge, ends) ?? [], scene.across)) {
      path.moveTo(...a);
      path.bezierCurveTo(...b, ...c, ...d);
    }
  }
  return path;
}
