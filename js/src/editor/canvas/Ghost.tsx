import { useConnection, useStoreApi } from "@xyflow/react";
import { useEffect, useState } from "react";
import type { Consequence, EdgeState } from "../../protocol";
import { useEditor, useView } from "../commands/context";
import { ownName } from "../commands/opened";
import { refusalsFrom, type Scene } from "../document/connection";
import { nodeOf, splitPort } from "../document/document";
import { edgeFrom } from "../document/splice";
import { cardAt } from "../scene/boxes";
import { addressOf, cardFor, ownerOf } from "../scene/scene";
import { shapeLabel } from "../scene/shapes";
import type { Connecting } from "../scene/view";

/** An edge that would come of letting go here, or why none would. */
type Outlook = { edge: EdgeState } | { reason: string } | null;

/** Beside the pointer, while a connection is drawn: what it would do here, or why it cannot end here. */
export function Ghost() {
  const editor = useEditor();
  const flow = useStoreApi();
  const connecting = useView((view) => view.connecting);
  const over = useConnection((state) =>
    state.inProgress && state.toHandle
      ? `${ownName(editor, state.toHandle.nodeId) ?? ""}.${state.toHandle.id} ${state.toHandle.type}`
      : "",
  );
  const place = useConnection((state) => (state.inProgress ? `${state.pointer.x},${state.pointer.y}` : ""));
  const scene = connecting && editor.connectable();
  if (!scene || !connecting || place === "") return null;
  const [x = 0, y = 0] = place.split(",").map(Number);
  const [left, top, zoom] = flow.getState().transform;
  const shown = editor.scene();
  const at = editor.layer()?.at ?? [0, 0];
  const point = [(x - left) / zoom - at[0], (y - top) / zoom - at[1]] as const;
  const node = shown && cardAt(shown, point, editor.view.get().moving);
  const [handle = "", type] = over.split(" ");
  const port = handle && shown ? addressOf(shown, handle, type === "source" ? "output" : "input") : "";
  const fits = over !== "" && (type === "source") !== (connecting.side === "output");
  // At a port of the same side, the node is meant.
  const outlook = fits
    ? overPort(scene, connecting, port)
    : overNode(scene, connecting, over ? nodeOf(handle) : node, editor);
  if (!outlook) return null;
  return (
    <div className="pnne-ghost-preview" role="status" style={{ left: `${x}px`, top: `${y}px` }}>
      {"reason" in outlook ? (
        <p className="pnne-refusal">{outlook.reason}</p>
      ) : (
        <Prospect prefix={shown?.prefix ?? ""} {...outlook.edge} />
      )}
    </div>
  );
}

function overPort(scene: Scene, connecting: Connecting, port: string): Outlook {
  const reason = refusalsFrom(scene, connecting.port, connecting.side)(port);
  if (reason) return { reason };
  const [source, target] = connecting.side === "output" ? [connecting.port, port] : [port, connecting.port];
  return { edge: { source, target } };
}

/** On a node it ends at whatever port of it fits first. */
function overNode(
  scene: Scene,
  { port, side }: Connecting,
  node: string | null,
  editor: ReturnType<typeof useEditor>,
): Outlook {
  const shown = editor.scene();
  const card = shown && node !== null && node !== cardFor(shown, nodeOf(port)) ? shown.cards.get(node) : undefined;
  if (!shown || !card) return null;
  const owner = ownerOf(shown, card.name, side === "input" ? "output" : "input");
  const edge = edgeFrom(scene, port, side, owner, card.ports);
  return edge ? { edge } : { reason: `No free port of ${owner} fits ${port}.` };
}

/** What Python says that the edge would do. */
function Prospect({ prefix, source, target }: EdgeState & { prefix: string }) {
  const editor = useEditor();
  const [found, setFound] = useState<Consequence | null>(null);
  useEffect(() => {
    let current = true;
    setFound(null);
    editor.session.preview(prefix + source, prefix + target).then((answer) => current && setFound(answer));
    return () => {
      current = false;
    };
  }, [editor, prefix, source, target]);
  if (!found) return null;
  const [name] = splitPort(target);
  const problems = (found.diagnostics ?? []).filter((problem) => problem.severity !== "info");
  const label = shapeLabel(found.shape ?? undefined);
  if (problems.length === 0 && !label) return null;
  return (
    <>
      {label && (
        <p className="pnne-prospect">
          {name} <b>{label}</b>
        </p>
      )}
      {problems.map((problem) => (
        <p className="pnne-refusal" key={problem.message}>
          {problem.message} {problem.fix ? <b>Fix: {problem.fix.label}</b> : problem.hint}
        </p>
      ))}
    </>
  );
}
