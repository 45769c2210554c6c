import { useReactFlow, useStore, useStoreApi } from "@xyflow/react";
import { useEffect, useRef } from "react";
import { useDrawn, useEditor, useScene, useSession, useView } from "../commands/context";
import { foldAtFirst } from "../commands/folding";
import { closeSmall, comeOut, openAt } from "../commands/opened";
import { boxOf, layersOf } from "../scene/boxes";
import { type Box, READABLE_ZOOM, union } from "../scene/geometry";
import type { Point } from "../scene/placement";
import { extentOf, roughBoxes } from "../scene/scene";
import { rootOf } from "../scene/view";

const MARGIN = 24;
export const SMALLEST_ZOOM = 0.005;
export const LARGEST_ZOOM = 2;
/** A view opens no further away than this: it shows the top of a large graph rather than all of it, unreadable. */
const OPENING_ZOOM = 0.5;
/** The same for more cards than these, whose names are still read: they say what repeats. */
const NAMED_ZOOM = 0.3;
const MANY_CARDS = 30;
const GLIDE = 200;

/** How long the view takes to go elsewhere, in milliseconds: no time for who asked the system for less motion. */
function glide(): number {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : GLIDE;
}

/** Gives the commands their viewport, arranges what has no place, and shows the graph when there is room for it. */
export function useViewport(): void {
  const editor = useEditor();
  const { screenToFlowPosition, setViewport, getViewport, setCenter, getZoom } = useReactFlow();
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  const domNode = useStore((state) => state.domNode);
  const scene = useDrawn();
  const here = useScene();
  const arranged = scene !== null && scene.provisional.size === 0;
  const shownPath = useView((view) => rootOf(view).join("."));
  const mayEdit = useSession((state) => state.current && !state.readOnly);

  useEffect(() => {
    const frame = () => domNode?.getBoundingClientRect() ?? new DOMRect();
    // Commands speak of places in their graph, which may be drawn inside of another.
    const origin = () => editor.layer()?.at ?? [0, 0];
    const toFlow = (x: number, y: number): [number, number] => {
      const place = screenToFlowPosition({ x, y });
      return [place.x - origin()[0], place.y - origin()[1]];
    };
    const onCanvas = (box: Box): Box => ({ ...box, left: box.left + origin()[0], top: box.top + origin()[1] });
    const scaleTo = (scale: number) => {
      const { zoom, x, y } = getViewport();
      const next = Math.min(LARGEST_ZOOM, Math.max(SMALLEST_ZOOM, scale));
      const [middle, centre] = [frame().width / 2, frame().height / 2];
      const at = { x: middle - ((middle - x) * next) / zoom, y: centre - ((centre - y) * next) / zoom, zoom: next };
      void setViewport(at, { duration: glide() });
    };
    editor.viewport = {
      room: () => [frame().width - 2 * MARGIN, frame().height - 2 * MARGIN],
      centre: () => toFlow(frame().left + frame().width / 2, frame().top + frame().height / 2),
      at: (x, y) => {
        const { left, top, right, bottom } = frame();
        return x < left || x > right || y < top || y > bottom ? null : toFlow(x, y);
      },
      over: ([x, y]) => {
        const [left, top] = toFlow(frame().left, frame().top);
        return { left: (x - left) * getZoom(), top: (y - top) * getZoom() };
      },
      fit: (names) => {
        const [shown, drawn] = [editor.scene(), editor.drawn()];
        if (!shown || !drawn) return;
        const boxes = [...(names ?? [])].flatMap((name) => boxOf(shown, name) ?? []);
        const box = boxes.length > 0 ? onCanvas(union(boxes)) : names ? null : extentOf(drawn);
        if (!box) return;
        const { width, height } = frame();
        void setViewport(centred(box, width, height, fittingZoom(box, width, height)), { duration: glide() });
      },
      zoom: (factor) => scaleTo(getZoom() * factor),
      zoomTo: scaleTo,
      pan: (right, down) => {
        const { zoom, x, y } = getViewport();
        const at = { x: x - right * frame().width, y: y - down * frame().height, zoom };
        void setViewport(at, { duration: glide() });
      },
      show: ([left, top, width, height]) => {
        const zoom = Math.min(getZoom(), fittingZoom({ left, top, width, height }, frame().width, frame().height));
        const at = origin();
        void setCenter(at[0] + left + width / 2, at[1] + top + height / 2, { zoom, duration: glide() });
      },
      // The node may have come with the change that is being drawn just now.
      reveal: (name, least = 0) =>
        requestAnimationFrame(() => {
          const shown = editor.scene();
          const box = shown && boxOf(shown, name);
          if (!box) return;
          const [left, top] = toFlow(frame().left, frame().top);
          const [right, bottom] = toFlow(frame().right, frame().bottom);
          const inside =
            box.left >= left && box.top >= top && box.left + box.width <= right && box.top + box.height <= bottom;
          if (inside && getZoom() >= least) return;
          const zoom = Math.max(getZoom(), READABLE_ZOOM);
          const { left: x, top: y } = onCanvas(box);
          void setCenter(x + box.width / 2, y + box.height / 2, { zoom, duration: glide() });
        }),
    };
    return () => {
      editor.viewport = null;
    };
  }, [editor, domNode, screenToFlowPosition, setViewport, getViewport, setCenter, getZoom]);

  // Each graph is arranged once, when it is first seen without places: what is imported has none, at any depth.
  const asked = useRef(new Set<string>());
  useEffect(() => {
    if (!scene || !mayEdit || width === 0 || height === 0) return;
    foldAtFirst(
      editor,
      layersOf(scene).map((layer) => layer.scene),
    );
    for (const { scene: shown } of layersOf(editor.drawn() ?? scene)) {
      if (asked.current.has(shown.graphId)) continue;
      asked.current.add(shown.graphId);
      if (shown.provisional.size > 0) editor.arrange("auto", shown);
    }
  }, [editor, scene, mayEdit, width, height]);

  useEffect(() => {
    if (here) comeOut(editor);
  }, [editor, here]);

  useFullScreen();
  useSemanticZoom();

  // What stands in the middle stays there when the source opens beside the graph, and when it closes.
  const source = useView((view) => view.source);
  const kept = useRef({ source, width });
  useEffect(() => {
    const before = kept.current;
    if (width === before.width) return;
    kept.current = { source, width };
    if (source === before.source || before.width === 0 || width === 0) return;
    const { x, y, zoom } = getViewport();
    const only = editor.only();
    void setViewport({ x: x + (width - before.width) / 2, y, zoom });
    if (only !== null) editor.viewport?.reveal(only);
  }, [editor, source, width, getViewport, setViewport]);

  const done = useSession((state) => state.done);
  useEffect(() => {
    if (done?.label !== "Arrange" || !editor.refits) return;
    editor.refits = false;
    editor.viewport?.fit();
  }, [editor, done]);

  const opened = useRef("");
  useEffect(() => {
    if (!scene || width === 0 || height === 0) return;
    // Shown once as it is, and once more when it has been arranged; after that the person decides.
    if (opened.current === `${shownPath} true` || opened.current === `${shownPath} ${arranged}`) return;
    opened.current = `${shownPath} ${arranged}`;
    const box = extentOf(scene);
    if (!box) return;
    void setViewport(openingView(box, roughBoxes(scene), width, height));
  }, [width, height, arranged, scene, shownPath, setViewport]);
}

/** What was in view as a whole stays so in full screen and after it; of a part, the middle stays where it is. */
function useFullScreen(): void {
  const editor = useEditor();
  const { setViewport } = useReactFlow();
  const flow = useStoreApi();
  useEffect(() => {
    const ends = new AbortController();
    let stop = () => {};
    const changed = () => {
      const before = flow.getState();
      stop();
      // The new size comes a little later; none comes if there is no change.
      stop = flow.subscribe(({ width, height }) => {
        if (width === before.width && height === before.height) return;
        stop();
        const scene = editor.drawn();
        const box = scene && extentOf(scene);
        if (!scene || !box || before.width === 0) return;
        const [x, y, zoom] = before.transform;
        const seen = { left: -x / zoom, top: -y / zoom, width: before.width / zoom, height: before.height / zoom };
        const wasWhole =
          seen.left <= box.left &&
          seen.top <= box.top &&
          seen.left + seen.width >= box.left + box.width &&
          seen.top + seen.height >= box.top + box.height;
        const fits = wasWhole || fittingZoom(box, width, height) >= zoom;
        const view = fits ? openingView(box, roughBoxes(scene), width, height) : centred(seen, width, height, zoom);
        void setViewport(view);
      });
    };
    editor.root?.addEventListener("fullscreenchange", changed, { signal: ends.signal });
    return () => {
      ends.abort();
      stop();
    };
  }, [editor, flow, setViewport]);
}

/** A block opens from this zoom on, and closes when its frame is no larger than this part of the view. */
const OPENS_FROM = 1.4;
const CLOSES_AT = 0.3;

/** Opens the block that is zoomed into, in its place, and closes blocks that have become small; if that is wanted. */
function useSemanticZoom(): void {
  const editor = useEditor();
  const flow = useStoreApi();
  const wanted = useView((view) => view.zoomOpens);
  useEffect(() => {
    if (!wanted) return;
    let before = flow.getState().transform[2];
    return flow.subscribe(({ transform: [x, y, zoom], width, height }) => {
      const isCloser = zoom > before;
      if (zoom === before) return;
      before = zoom;
      const drawn = editor.drawn();
      if (!drawn) return;
      if (isCloser && zoom >= OPENS_FROM) {
        const bounds = flow.getState().domNode?.getBoundingClientRect();
        const [px, py] = editor.pointer ?? [(bounds?.left ?? 0) + width / 2, (bounds?.top ?? 0) + height / 2];
        const at: Point = [(px - (bounds?.left ?? 0) - x) / zoom, (py - (bounds?.top ?? 0) - y) / zoom];
        openAt(editor, at);
      } else if (!isCloser)
        closeSmall(editor, (box) => box.width * zoom < CLOSES_AT * width && box.height * zoom < CLOSES_AT * height);
    });
  }, [editor, flow, wanted]);
}

/** Where a view opens: on all of the graph if it can be read so, else on where it begins, above or at the left. */
function openingView(box: Box, nodes: readonly Box[], width: number, height: number) {
  const fitting = fittingZoom(box, width, height);
  const least = nodes.length > MANY_CARDS ? NAMED_ZOOM : OPENING_ZOOM;
  const zoom = fitting >= least ? fitting : READABLE_ZOOM;
  const view = centred(box, width, height, zoom);
  if (box.height * zoom + 2 * MARGIN > height) {
    // The upper end of a large graph may stand far from the middle of the whole.
    const upper = nodes.filter((node) => node.top < box.top + height / zoom);
    // The first of the columns, which all begin about as high.
    const [first = box] = nodes.filter(({ top }) => top < box.top + MARGIN).sort((a, b) => a.left - b.left);
    const whole = upper.length > 0 ? union(upper) : box;
    const begin = whole.width * zoom <= width ? whole : first;
    return { zoom, x: centred(begin, width, height, zoom).x, y: MARGIN - box.top * zoom };
  }
  return box.width * zoom + 2 * MARGIN > width ? { ...view, x: MARGIN - box.left * zoom } : view;
}

function fittingZoom(box: Box, width: number, height: number): number {
  const zoom = Math.min((width - 2 * MARGIN) / box.width, (height - 2 * MARGIN) / box.height);
  return Math.min(1, Math.max(SMALLEST_ZOOM, zoom));
}

function centred(box: Box, width: number, height: number, zoom: number) {
  return {
    x: width / 2 - (box.left + box.width / 2) * zoom,
    y: height / 2 - (box.top + box.height / 2) * zoom,
    zoom,
  };
}
