import { useStoreApi } from "@xyflow/react";
import { useLayoutEffect, useMemo, useRef } from "react";
import { useSession } from "../commands/context";
import { nodeOf } from "../document/document";
import { boxesOf, endsOf, type Layer, type NodeBox } from "../scene/boxes";
import { isOpen } from "../scene/card";
import { type Box, overlaps, union } from "../scene/geometry";
import type { ShownScene } from "../scene/scene";
import { NOTHING, STILL, type ViewState } from "../scene/view";
import { curveOf } from "../scene/wires";
import { HEALTHY, type LiveTraining } from "../session/training";

interface FarViewProps {
  layers: readonly Layer[];
  /** What the names of the graph begin with that commands act on. */
  here: string;
  moving: ViewState["moving"];
  selected: ReadonlySet<string>;
}

/** How far the picture reaches beyond the view on every side, in views. */
const BEYOND = 0.3;
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
        return { scene, at, boxes: boxesOf(scene, isHere ? moving : STILL), selected: isHere ? selected : NOTHING };
      }),
    [layers, here, moving, selected],
  );
  const ailing = useSession((state) => state.training?.ailing ?? HEALTHY);

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    let painted = { x: 0, y: 0, zoom: 1, width: 0, height: 0 };
    let resting: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      const { transform, width, height } = store.getState();
      const [x, y, zoom] = transform;
      const [left, top] = [width * BEYOND, height * BEYOND];
      const density = window.devicePixelRatio || 1;
      element.width = Math.round((width + 2 * left) * density);
      element.height = Math.round((height + 2 * top) * density);
      element.style.cssText = `left: ${-left}px; top: ${-top}px; width: ${width + 2 * left}px; height: ${height + 2 * top}px`;
      context.setTransform(density * zoom, 0, 0, density * zoom, density * (x + left), density * (y + top));
      const seen = { left: -(x + left) / zoom, top: -(y + top) / zoom };
      const view = { ...seen, width: (width + 2 * left) / zoom, height: (height + 2 * top) / zoom };
      for (const { scene, at, boxes, selected } of drawn) {
        const seen = { ...view, left: view.left - at[0], top: view.top - at[1] };
        context.save();
        context.translate(...at);
        paint(context, scene, boxes, selected, ailing, seen, getComputedStyle(element), zoom);
        context.restore();
      }
      painted = { x, y, zoom, width, height };
    };
    const follow = () => {
      const { transform, width, height } = store.getState();
      const [x, y, zoom] = transform;
      if (x === painted.x && y === painted.y && zoom === painted.zoom && width === painted.width) return;
      const [left, top] = [width * BEYOND, height * BEYOND];
      const scale = zoom / painted.zoom;
      const [dx, dy] = [x + left - scale * (left + painted.x), y + top - scale * (top + painted.y)];
      const reaches =
        dx <= left &&
        dy <= top &&
        dx + scale * (width + 2 * left) >= width + left &&
        dy + scale * (height + 2 * top) >= height + top;
      const sameSize = width === painted.width && height === painted.height;
      clearTimeout(resting);
      if (!reaches || !sameSize || scale > STRETCH || scale < 1 / STRETCH) {
        draw();
        return;
      }
      element.style.transform = `translate(${dx}px, ${dy}px) scale(${scale})`;
      resting = setTimeout(draw, SETTLED_AFTER);
    };
    draw();
    const end = store.subscribe(follow);
    return () => {
      end();
      clearTimeout(resting);
    };
  }, [drawn, ailing, store]);

  return <canvas ref={canvas} className="pnne-far" />;
}

function paint(
  context: CanvasRenderingContext2D,
  scene: ShownScene,
  boxes: readonly NodeBox[],
  selected: ReadonlySet<string>,
  ailing: LiveTraining["ailing"],
  view: Box,
  style: CSSStyleDeclaration,
  zoom: number,
): void {
  const ends = endsOf(scene, boxes);
  const token = (name: string) => style.getPropertyValue(name);
  for (const { box, colour = "grey" } of scene.frames.values()) {
    context.fillStyle = token(`--pn-frame-${colour}`);
    context.globalAlpha = 0.18;
    context.fillRect(...box);
  }
  context.globalAlpha = 1;
  context.lineWidth = 1.2 / zoom;
  context.strokeStyle = token("--pn-wire");
  context.beginPath();
  for (const edge of scene.wires) {
    const source = ends.get(nodeOf(edge.source));
    const target = ends.get(nodeOf(edge.target));
    if (!source || !target || !overlaps(union([source, target]), view)) continue;
    const curve = curveOf(edge, ends);
    if (!curve) continue;
    const [a, b, c, d] = curve;
    context.moveTo(...a);
    context.bezierCurveTo(...b, ...c, ...d);
  }
  context.stroke();
  const lightness = token("--pn-swatch-lightness");
  for (const box of boxes) {
    if (!overlaps(box, view)) continue;
    const look = box.card.category;
    context.fillStyle = `oklch(${lightness} ${look.chroma} ${look.hue})`;
    context.beginPath();
    context.roundRect(box.left, box.top, box.width, box.height, 9);
    // What is inside of an open block is painted on it.
    context.globalAlpha = isOpen(box.card) ? 0.2 : 1;
    context.fill();
    context.globalAlpha = 1;
    const problem = box.card.diagnostics.some((diagnostic) => diagnostic.severity !== "info");
    const bad = problem || ailing.has(box.card.path);
    if (!bad && !selected.has(box.name)) continue;
    context.lineWidth = 3 / zoom;
    context.strokeStyle = token(selected.has(box.name) ? "--pn-accent" : "--pn-error");
    context.stroke();
  }
}
