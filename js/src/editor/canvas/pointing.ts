import { useReactFlow, useStoreApi } from "@xyflow/react";
import { type MouseEvent, useCallback, useRef, useState } from "react";
import { useEditor } from "../commands/context";
import { boxesOf, nodeAt, nodesBetween } from "../scene/boxes";
import type { Point } from "../scene/placement";

/** Clicks and boxes in the far view, where React Flow knows only the nodes that are selected or under the pointer. */
export function usePointing(far: boolean) {
  const editor = useEditor();
  const flow = useStoreApi();
  const { screenToFlowPosition } = useReactFlow();
  const [hovered, setHovered] = useState<string | null>(null);
  const corner = useRef<Point>([0, 0]);
  const place = useCallback(
    (event: MouseEvent): Point => {
      const { x, y } = screenToFlowPosition({ x: event.clientX, y: event.clientY });
      const [left, top] = editor.layer()?.at ?? [0, 0];
      return [x - left, y - top];
    },
    [editor, screenToFlowPosition],
  );
  const boxes = useCallback(() => {
    const scene = editor.scene();
    return scene ? boxesOf(scene, editor.view.get().moving) : [];
  }, [editor]);

  const onMouseMove = useCallback(
    (event: MouseEvent) => {
      if (far && event.buttons === 0) setHovered(nodeAt(boxes(), place(event)));
    },
    [far, boxes, place],
  );
  const onSelectionStart = useCallback(() => {
    // The event is the pointer's first move; the box began where it was pressed.
    const box = flow.getState().userSelectionRect;
    const [left, top] = editor.layer()?.at ?? [0, 0];
    if (box) corner.current = [box.startX - left, box.startY - top];
  }, [editor, flow]);
  const onSelectionEnd = useCallback(
    (event: MouseEvent) => {
      if (!far) return;
      editor.select(nodesBetween(boxes(), corner.current, place(event)));
      editor.announceSelection();
    },
    [far, editor, boxes, place],
  );
  return { hovered, onMouseMove, onSelectionStart, onSelectionEnd };
}

/** Where a pointer is, of a mouse or of a finger. */
export type PointerPlace = { clientX: number; clientY: number } | TouchEvent;

/** So near to the edge of the canvas, the view moves on with what is dragged. Fit leaves more than that free. */
const PANNING_EDGE = 12;

/** Has React Flow pan only at the very edge: by itself it does from 40 pixels on, and so with all that stands where Fit puts it. */
export function usePanAtEdge(): (event: PointerPlace) => void {
  const flow = useStoreApi();
  return useCallback(
    (event) => {
      const point = "changedTouches" in event ? event.changedTouches[0] : event;
      const { left, top, right, bottom } = flow.getState().domNode?.getBoundingClientRect() ?? new DOMRect();
      if (!point) return;
      const { clientX: x, clientY: y } = point;
      flow.setState({ autoPanOnNodeDrag: Math.min(x - left, right - x, y - top, bottom - y) < PANNING_EDGE });
    },
    [flow],
  );
}
