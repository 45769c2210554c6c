import { useConnection } from "@xyflow/react";
import { useEditor, useView } from "../context";
import { refusalsFrom } from "../document/connection";

/** While a connection is drawn over a port that does not take it: why not, beside the pointer. */
export function Refusal() {
  const editor = useEditor();
  const connecting = useView((view) => view.connecting);
  const over = useConnection((state) =>
    state.inProgress && state.toHandle && state.isValid === false
      ? `${state.toHandle.nodeId}.${state.toHandle.id} ${state.toHandle.type}`
      : "",
  );
  const place = useConnection((state) => (state.inProgress ? `${state.pointer.x},${state.pointer.y}` : ""));
  const scene = connecting && over ? editor.connectable() : null;
  if (!scene || !connecting) return null;
  const [port = "", type] = over.split(" ");
  if (port === connecting.port) return null;
  const sameSide = (type === "source") === (connecting.side === "output");
  const reason = sameSide
    ? `Connect an output to an input; both are ${connecting.side}s.`
    : refusalsFrom(scene, connecting.port, connecting.side)(port);
  if (!reason) return null;
  const [x, y] = place.split(",");
  return (
    <div className="pnne-refusal" role="status" style={{ left: `${x}px`, top: `${y}px` }}>
      {reason}
    </div>
  );
}
