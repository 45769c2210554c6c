import { useReactFlow, useStore } from "@xyflow/react";
import { type PointerEvent, useEffect, useRef } from "react";
import { useEditor, useScene, useView } from "../context";
import { STILL, type ViewState } from "../view";
import { lookOf } from "./categories";
import { topLeft } from "./flow";
import { centreOf, type ShownScene } from "./scene";

const WIDTH = 148;
const HEIGHT = 92;
const MARGIN = 6;

interface Frame {
  readonly left: number;
  readonly top: number;
  readonly scale: number;
}

/** The whole graph in a corner, drawn on one canvas; press or drag in it to go there. */
export function MiniMap() {
  const editor = useEditor();
  const scene = useScene();
  const moving = useView((view) => view.moving);
  const selected = useView((view) => view.nodes);
  const [x, y, zoom] = useStore((state) => state.transform);
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  const { setCenter } = useReactFlow();
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<Frame | null>(null);

  useEffect(() => {
    if (!canvas.current || !scene) return;
    const viewport = { left: -x / zoom, top: -y / zoom, width: width / zoom, height: height / zoom };
    frame.current = draw(canvas.current, scene, moving, selected, viewport);
  }, [scene, moving, selected, x, y, zoom, width, height]);

  const go = (event: PointerEvent<HTMLCanvasElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const shown = frame.current;
    if (!shown || event.buttons === 0) return;
    const flowX = shown.left + (event.clientX - box.left - MARGIN) / shown.scale;
    const flowY = shown.top + (event.clientY - box.top - MARGIN) / shown.scale;
    void setCenter(flowX, flowY, { zoom });
  };
  if (!scene || scene.graph.nodes.size === 0) return null;
  return (
    <canvas
      ref={canvas}
      className="pnne-minimap nopan nodrag nowheel"
      width={WIDTH * 2}
      height={HEIGHT * 2}
      style={{ width: WIDTH, height: HEIGHT }}
      role="img"
      aria-label="Overview of the graph"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={go}
      onDoubleClick={() => editor.viewport?.fit()}
    />
  );
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

function boxesOf(scene: ShownScene, moving: ViewState["moving"]) {
  return [...scene.cards].map(([name, card]) => {
    const [left, top] = topLeft(card, centreOf(scene, name, moving));
    return { name, card, left, top, width: card.geometry.width, height: card.geometry.height };
  });
}

function union(boxes: readonly Box[]): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of boxes) {
    left = Math.min(left, box.left);
    top = Math.min(top, box.top);
    right = Math.max(right, box.left + box.width);
    bottom = Math.max(bottom, box.top + box.height);
  }
  return { left, top, width: right - left, height: bottom - top };
}

/** What all nodes of a scene together take up. */
export function bounds(scene: ShownScene): Box {
  return union(boxesOf(scene, STILL));
}

function draw(
  canvas: HTMLCanvasElement,
  scene: ShownScene,
  moving: ViewState["moving"],
  selected: ReadonlySet<string>,
  viewport: Box,
): Frame | null {
  const context = canvas.getContext("2d");
  if (!context) return null;
  const boxes = boxesOf(scene, moving);
  const { left, top, width, height } = union([...boxes, viewport]);
  const scale = Math.min((WIDTH - 2 * MARGIN) / width, (HEIGHT - 2 * MARGIN) / height);
  const style = getComputedStyle(canvas);
  const lightness = style.getPropertyValue("--pn-swatch-lightness");
  context.setTransform(2, 0, 0, 2, 0, 0);
  context.clearRect(0, 0, WIDTH, HEIGHT);
  context.setTransform(2 * scale, 0, 0, 2 * scale, 2 * (MARGIN - left * scale), 2 * (MARGIN - top * scale));
  for (const { name, card, ...box } of boxes) {
    const look = lookOf(card.category);
    context.fillStyle = selected.has(name)
      ? style.getPropertyValue("--pn-accent")
      : `oklch(${lightness} ${look.chroma} ${look.hue})`;
    context.fillRect(box.left, box.top, box.width, box.height);
  }
  context.lineWidth = 1.2 / scale;
  context.strokeStyle = style.getPropertyValue("--pn-accent");
  context.strokeRect(viewport.left, viewport.top, viewport.width, viewport.height);
  return { left, top, scale };
}
