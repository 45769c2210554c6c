import { useStore } from "@xyflow/react";
import { useEffect, useMemo, useRef } from "react";
import { nodeOf, splitPort } from "../document/document";
import type { ViewState } from "../view";
import { type Box, boxesOf, type NodeBox, union } from "./boxes";
import { lookOf } from "./categories";
import type { HandlePlace } from "./geometry";
import type { ShownScene } from "./scene";

interface FarViewProps {
  scene: ShownScene;
  moving: ViewState["moving"];
  selected: ReadonlySet<string>;
}

/** The graph as seen from far away: nodes and edges on one canvas, because a thousand elements cannot move smoothly. */
export function FarView({ scene, moving, selected }: FarViewProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [x, y, zoom] = useStore((state) => state.transform);
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);

  const boxes = useMemo(() => boxesOf(scene, moving), [scene, moving]);

  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const density = window.devicePixelRatio || 1;
    element.width = Math.round(width * density);
    element.height = Math.round(height * density);
    context.setTransform(density * zoom, 0, 0, density * zoom, density * x, density * y);
    const view = { left: -x / zoom, top: -y / zoom, width: width / zoom, height: height / zoom };
    paint(context, scene, boxes, selected, view, getComputedStyle(element), zoom);
  }, [scene, boxes, selected, x, y, zoom, width, height]);

  return <canvas ref={canvas} className="pnne-far" style={{ width, height }} />;
}

function paint(
  context: CanvasRenderingContext2D,
  scene: ShownScene,
  boxes: readonly NodeBox[],
  selected: ReadonlySet<string>,
  view: Box,
  style: CSSStyleDeclaration,
  zoom: number,
): void {
  const byName = new Map(boxes.map((box) => [box.name, box]));
  const token = (name: string) => style.getPropertyValue(name);
  context.lineWidth = 1.2 / zoom;
  context.strokeStyle = token("--pn-wire");
  context.beginPath();
  for (const edge of scene.graph.edges.values()) {
    const source = byName.get(nodeOf(edge.source));
    const target = byName.get(nodeOf(edge.target));
    if (!source || !target || !overlaps(union([source, target]), view)) continue;
    const [x1, y1] = portPlace(source, splitPort(edge.source)[1], "output");
    const [x2, y2] = portPlace(target, splitPort(edge.target)[1], "input");
    const bend = Math.max(Math.abs(y2 - y1) / 2, 20);
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
  }
  context.stroke();
  const lightness = token("--pn-swatch-lightness");
  for (const box of boxes) {
    if (!overlaps(box, view)) continue;
    const look = lookOf(box.card.category);
    context.fillStyle = `oklch(${lightness} ${look.chroma} ${look.hue})`;
    context.beginPath();
    context.roundRect(box.left, box.top, box.width, box.height, 9);
    context.fill();
    const bad = box.card.diagnostics.some((diagnostic) => diagnostic.severity !== "info");
    if (!bad && !selected.has(box.name)) continue;
    context.lineWidth = 3 / zoom;
    context.strokeStyle = token(selected.has(box.name) ? "--pn-accent" : "--pn-error");
    context.stroke();
  }
}

function portPlace(box: NodeBox, port: string, side: HandlePlace["side"]): [number, number] {
  const place = box.card.geometry.handles.find((handle) => handle.port === port && handle.side === side);
  return [box.left + (place?.x ?? box.width / 2), box.top + (place?.y ?? (side === "input" ? 0 : box.height))];
}

function overlaps(a: Box, b: Box): boolean {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
}
