import { type HandleType, useNodeId, useStoreApi } from "@xyflow/react";
import { XYHandle } from "@xyflow/system";
import { type MouseEvent, type TouchEvent, useCallback, useMemo, useSyncExternalStore } from "react";
import { useEditor, useView } from "../commands/context";
import { ELSEWHERE } from "../commands/opened";
import { refusalsFrom } from "../document/connection";
import { addressOn, type Card } from "../scene/card";
import { type HandlePlace, PORT_LETTERS } from "../scene/geometry";
import { sideOf } from "./flow";

const CONNECTABLE = "connectable connectablestart connectableend connectionindicator";

export function Ports({ card }: { card: Card }) {
  const editor = useEditor();
  const connecting = useView((view) => view.connecting);
  const refusal = useMemo(() => {
    const scene = connecting && editor.connectable();
    if (!scene || !connecting) return null;
    // An edge stays in one graph.
    if (editor.sceneOf(card) !== editor.scene()) return () => ELSEWHERE;
    return refusalsFrom(scene, connecting.port, connecting.side);
  }, [connecting, editor, card]);
  const node = useNodeId() ?? "";
  const end = useEnd(node, connecting !== null);
  return card.geometry.handles.map((handle) => {
    const address = addressOn(card, handle.port, handle.side);
    const isTarget = connecting !== null && connecting.side !== handle.side;
    const reason = isTarget && refusal ? refusal(address) : null;
    const key = `${typeOf(handle)} ${handle.port}`;
    const states = [
      isTarget && (reason ? "pnne-refuses" : "pnne-fits"),
      (end === key || end === `${key} valid`) && "connectingto",
      end === `${key} valid` && "valid",
    ];
    const state = states.filter(Boolean).join(" ");
    return <Port key={key} {...{ card, node, handle, state, reason }} />;
  });
}

/** The port of a card at which a new edge would end, as "target input valid"; nobody asks in the frames of other gestures. */
function useEnd(node: string, isConnecting: boolean): string {
  const flow = useStoreApi();
  const subscribe = useCallback(
    (listener: () => void) => (isConnecting ? flow.subscribe(listener) : () => {}),
    [flow, isConnecting],
  );
  return useSyncExternalStore(subscribe, () => {
    const { toHandle, isValid } = flow.getState().connection;
    return toHandle?.nodeId === node ? `${toHandle.type} ${toHandle.id}${isValid ? " valid" : ""}` : "";
  });
}

/** What React Flow calls the side of a port. */
function typeOf({ side }: HandlePlace): HandleType {
  return side === "input" ? "target" : "source";
}

interface PortProps {
  card: Card;
  /** What React Flow calls the card. */
  node: string;
  handle: HandlePlace;
  state: string;
  reason: string | null;
}

/** A port as React Flow finds it in the page: its own `Handle` asks the store in every frame, of thousands on a large screen. */
function Port({ card, node, handle, state, reason }: PortProps) {
  const flow = useStoreApi();
  const isInput = handle.side === "input";
  const ports = isInput ? card.ports.inputs : card.ports.outputs;
  const port = ports.find((candidate) => candidate.name === handle.port);
  const spare = isInput && !port?.wired && (port?.optional || /_\d+$/.test(handle.port));
  const own = addressOn(card, handle.port, handle.side);
  const address = card.path.slice(0, card.path.length - card.name.length) + own;
  const label = `${isInput ? "Input" : "Output"} ${own}${port?.kind === "tensor" ? "" : ` (${port?.kind})`}`;
  const kind = port?.kind === "value" || port?.kind === "tensor" ? "" : " pnne-port-special";
  const { across } = card.geometry;
  const [type, position] = [typeOf(handle), sideOf(handle.side, card.geometry)];
  const start = (event: MouseEvent<Element> | TouchEvent<Element>) => {
    const state = flow.getState();
    XYHandle.onPointerDown(event.nativeEvent, {
      ...state,
      handleDomNode: event.currentTarget,
      nodeId: node,
      handleId: handle.port,
      isTarget: type === "target",
      flowId: state.rfId,
      dragThreshold: state.connectionDragThreshold,
      // As they are by then, not as they are now.
      onConnectStart: (...ends) => flow.getState().onConnectStart?.(...ends),
      onConnect: (made) => flow.getState().onConnect?.(made),
      onConnectEnd: (...ends) => flow.getState().onConnectEnd?.(...ends),
      isValidConnection: (made) => flow.getState().isValidConnection?.(made) ?? true,
      getTransform: () => flow.getState().transform,
      getFromHandle: () => flow.getState().connection.fromHandle,
    });
  };
  const { port: name, x, y } = handle;
  return (
    <>
      <div
        className={`react-flow__handle react-flow__handle-${position} ${type} ${CONNECTABLE} nodrag nopan pnne-port ${state}${spare ? " pnne-spare" : ""}${kind}`}
        style={across ? { top: handle.y } : { left: handle.x }}
        data-handleid={handle.port}
        data-nodeid={node}
        data-handlepos={position}
        data-id={`${flow.getState().rfId}-${node}-${handle.port}-${type}`}
        onMouseDown={(event) => {
          if (event.button === 0) start(event);
        }}
        onTouchStart={start}
        role="img"
        data-port={address}
        title={reason ?? `${label}${port?.doc ? `\n${port.doc}` : ""}`}
        aria-label={label}
      />
      {handle.labelled && (
        <span
          className={`pnne-port-label pnne-port-${handle.side}${across ? " pnne-across" : ""} ${state}`}
          style={across ? { top: y } : { left: x }}
        >
          {name.length > PORT_LETTERS ? `${name.slice(0, PORT_LETTERS - 1)}…` : name}
        </span>
      )}
    </>
  );
}
