import { type NodeProps, useReactFlow } from "@xyflow/react";
import { memo, type PointerEvent, useEffect, useRef } from "react";
import { useEditor, useScene, useSession } from "../commands/context";
import { frameLabel } from "../commands/framing";
import { resized } from "../document/frame";
import type { FrameNode } from "./flow";

/** A titled rectangle behind the nodes; its title is its handle, and the pointer passes through the rest. */
export const FrameBox = memo(function FrameBox({ data: { frame, box }, selected }: NodeProps<FrameNode>) {
  const editor = useEditor();
  const scene = useScene();
  const readOnly = useSession((state) => state.readOnly);
  const { getZoom } = useReactFlow();
  const element = useRef<HTMLDivElement>(null);
  const start = useRef<readonly [x: number, y: number] | null>(null);
  useEffect(() => {
    const canvas = element.current?.closest(".pnne-canvas");
    const byKeyboard = selected && !editor.byPointer && editor.view.get().frames.size === 1;
    if (byKeyboard && canvas?.contains(document.activeElement)) element.current?.focus({ preventScroll: true });
  }, [selected, editor]);

  const onPointerDown = (event: PointerEvent<HTMLElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    start.current = [event.clientX, event.clientY];
  };
  const onPointerMove = (event: PointerEvent<HTMLElement>) => {
    if (!start.current) return;
    const [dx, dy] = [event.clientX - start.current[0], event.clientY - start.current[1]];
    editor.patch({ boxes: new Map([[frame.name, resized(frame.box, dx / getZoom(), dy / getZoom())]]) });
  };
  const onPointerUp = () => {
    if (!start.current) return;
    start.current = null;
    editor.move(new Map(), [], `Resize frame ${frame.name}`);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
    <div
      className={`pnne-frame pnne-frame-${frame.colour ?? "grey"}`}
      ref={element}
      style={{ width: box[2], height: box[3] }}
      data-frame={(scene?.prefix ?? "") + frame.name}
      role="group"
      aria-roledescription="frame"
      aria-label={frameLabel(editor, frame.name)}
      tabIndex={selected ? 0 : -1}
    >
      <div className="pnne-frame-title" title={frame.title}>
        {frame.title}
      </div>
      {frame.text && <p className="pnne-frame-text">{frame.text}</p>}
      {selected && !readOnly && (
        <i
          className="pnne-frame-corner nodrag nopan"
          onPointerDown={onPointerDown}
          onPointerMove={onPointerMove}
          onPointerUp={onPointerUp}
          onPointerCancel={onPointerUp}
        />
      )}
    </div>
  );
});
