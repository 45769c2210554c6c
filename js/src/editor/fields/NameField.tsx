import { useEffect, useRef, useState } from "react";
import type { NodeState } from "../../protocol";
import { useEditor } from "../commands/context";
import { whyNotName } from "../document/names";
import type { ShownScene } from "../scene/scene";
import { Reason } from "./Reason";

interface NameFieldProps {
  scene: ShownScene;
  node: NodeState;
  /** On the node's card: called when the name was set or left as it was. */
  onDone?: () => void;
}

/** The name of a node, to change, and why another cannot be it. */
export function NameField({ scene, node, onDone }: NameFieldProps) {
  const editor = useEditor();
  const [text, setText] = useState(node.name);
  const reason = whyNotName(scene.graph, node.name, text);
  const done = useRef(false);
  const input = useRef<HTMLInputElement>(null);
  const onCard = onDone !== undefined;
  useEffect(() => {
    if (!onCard) return;
    input.current?.focus({ preventScroll: true });
    input.current?.select();
  }, [onCard]);
  const leave = () => {
    if (done.current) return;
    onDone?.();
    if (!reason) return editor.rename(node.name, text);
    // The error disappears with the typed text when the user clicks elsewhere.
    setText(node.name);
    editor.session.notify(`${node.name} keeps its name. ${reason}`);
  };
  return (
    <>
      <input
        ref={input}
        className={onDone ? "pnne-card-rename nodrag nopan" : "pnne-name"}
        aria-label={onDone ? `Name of ${node.name}` : "Name"}
        aria-invalid={reason !== null}
        data-property={onDone ? undefined : `${scene.prefix}${node.name}.name`}
        value={text}
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
        onBlur={leave}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            event.stopPropagation();
            if (reason) return;
            done.current = onDone !== undefined;
            onDone?.();
            editor.rename(node.name, text);
            if (onDone) return;
            // The renamed node has a new form: move the focus to its field, unless the user has moved it already.
            requestAnimationFrame(() => {
              const { root } = editor;
              const isFree = (root?.getRootNode() as Document | ShadowRoot | undefined)?.activeElement === root;
              if (isFree) root?.querySelector<HTMLElement>(".pnne-name")?.focus();
            });
          } else if (event.key === "Escape") {
            setText(node.name);
            if (!onDone) return event.stopPropagation();
            done.current = true;
            event.preventDefault();
            onDone();
          } else return;
          event.stopPropagation();
        }}
      />
      <Reason text={reason} />
    </>
  );
}
