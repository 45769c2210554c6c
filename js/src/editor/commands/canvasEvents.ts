import { type RefObject, useEffect } from "react";
import type { Editor } from "./editor";
import { takeFile } from "./files";
import { openMenuOn } from "./menu";
import { endStroke, strokeTo } from "./stroke";

/** How long a finger rests before the menu opens, in milliseconds, and how far it may stray, in pixels. */
const LONG_PRESS = 550;
const STRAY = 10;
const OVERLAYS = ".pnne-quick, .pnne-menu, .pnne-sheet, .pnne-toasts, input, textarea, select";

/**
 * What comes to the canvas besides React Flow's own gestures: the menu by right click or long press, strokes that cut
 * edges, and dropped files.
 */
export function useCanvasEvents(editor: Editor, canvas: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const ends = new AbortController();
    const listener =
      (capture: boolean) =>
      <K extends keyof HTMLElementEventMap>(kind: K, take: (event: HTMLElementEventMap[K]) => void) =>
        element.addEventListener(kind, take, { signal: ends.signal, capture });
    const listen = listener(false);
    // Before React Flow, which would pan the canvas.
    const listenFirst = listener(true);
    let press: { timer: ReturnType<typeof setTimeout>; x: number; y: number } | null = null;
    const lift = () => {
      if (press) clearTimeout(press.timer);
      press = null;
    };
    ends.signal.addEventListener("abort", lift);
    listen("contextmenu", (event) => {
      const target = event.target as Element;
      if (target.closest(OVERLAYS)) return;
      event.preventDefault();
      lift();
      openMenuOn(editor, target, [event.clientX, event.clientY]);
    });
    listen("pointerdown", (event) => {
      lift();
      const target = event.target as Element;
      if (event.pointerType !== "touch" || !event.isPrimary || target.closest(OVERLAYS)) return;
      const { clientX: x, clientY: y } = event;
      press = { x, y, timer: setTimeout(() => openMenuOn(editor, target, [x, y]), LONG_PRESS) };
    });
    listen("pointermove", (event) => {
      if (press && Math.hypot(event.clientX - press.x, event.clientY - press.y) > STRAY) lift();
    });
    listen("pointerup", lift);
    listen("pointercancel", lift);
    const isStroke = (event: Event & { altKey: boolean }) => {
      const { stroke } = editor.view.get();
      const target = event.target as Element;
      if (stroke) return !target.closest(OVERLAYS);
      return event.altKey && target.closest(".react-flow__pane") !== null && !target.closest(".react-flow__node");
    };
    let pointer: number | null = null;
    listenFirst("pointerdown", (event) => {
      if (event.button !== 0 || !event.isPrimary || !isStroke(event) || editor.session.isLocked()) return;
      event.stopPropagation();
      pointer = event.pointerId;
      element.setPointerCapture(pointer);
      editor.patch({ stroke: [] });
      strokeTo(editor, event.clientX, event.clientY);
    });
    for (const kind of ["mousedown", "touchstart"] as const)
      listenFirst(kind, (event) => pointer !== null && event.stopPropagation());
    listenFirst("pointermove", (event) => {
      if (event.pointerId !== pointer) return;
      event.stopPropagation();
      strokeTo(editor, event.clientX, event.clientY);
    });
    const release = (cut: boolean) => (event: PointerEvent) => {
      if (event.pointerId !== pointer) return;
      pointer = null;
      endStroke(editor, cut);
    };
    listenFirst("pointerup", release(true));
    listenFirst("pointercancel", release(false));
    const carriesFile = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const mark = (over: boolean) => element.classList.toggle("pnne-dropping", over);
    listen("dragover", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      mark(true);
    });
    listen("dragleave", () => mark(false));
    listen("drop", (event) => {
      const file = event.dataTransfer?.files[0];
      mark(false);
      if (!file) return;
      // The host would open the file itself, or upload it.
      event.preventDefault();
      event.stopPropagation();
      void takeFile(editor, file);
    });
    return () => ends.abort();
  }, [editor, canvas]);
}
