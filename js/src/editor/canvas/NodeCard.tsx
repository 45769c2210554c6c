import { Handle, type NodeProps, Position } from "@xyflow/react";
import { type CSSProperties, memo, useEffect, useMemo, useRef } from "react";
import { useEditor, useView } from "../context";
import { refusalsFrom } from "../document/connection";
import type { Card } from "./card";
import { lookOf } from "./categories";
import type { CardNode } from "./flow";
import { type HandlePlace, HEADER_HEIGHT, LABELS_HEIGHT, SUMMARY_HEIGHT } from "./geometry";

/** The picture of one node. Its size is `card.geometry`'s, whatever its texts are. */
export const NodeCard = memo(function NodeCard({ data: { card }, selected }: NodeProps<CardNode>) {
  const isCurrent = useView((view) => view.current === card.name);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const canvas = element.current?.closest(".pnne-canvas");
    if (isCurrent && canvas?.contains(document.activeElement)) element.current?.focus({ preventScroll: true });
  }, [isCurrent]);
  const look = lookOf(card.category);
  const worst = worstSeverity(card);
  const style = {
    width: card.geometry.width,
    height: card.geometry.height,
    "--pn-hue": look.hue,
    "--pn-chroma": look.chroma,
  } as CSSProperties;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
    <div
      className={`pnne-card${worst ? ` pnne-has-${worst}` : ""}${card.known ? "" : " pnne-unknown"}${card.type === "Subgraph" ? " pnne-stack" : ""}`}
      ref={element}
      tabIndex={isCurrent ? 0 : -1}
      style={style}
      data-node={card.path}
      data-type={card.type}
      role="group"
      aria-roledescription="node"
      aria-label={card.label}
    >
      {hasLabels(card, "input") && <div style={{ height: LABELS_HEIGHT }} />}
      <div className="pnne-card-header" style={{ height: HEADER_HEIGHT }}>
        <span className="pnne-card-icon">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d={look.icon} />
          </svg>
        </span>
        <span className="pnne-card-title">
          <span className="pnne-card-name" title={card.name}>
            {card.name}
          </span>
          <span className="pnne-card-type">{card.type}</span>
        </span>
        {worst && <Badge card={card} severity={worst} />}
      </div>
      {card.summary && (
        <div className="pnne-card-summary" style={{ height: SUMMARY_HEIGHT }} title={card.summary}>
          {card.summary}
        </div>
      )}
      {hasLabels(card, "output") && <div style={{ height: LABELS_HEIGHT }} />}
      <Ports card={card} />
      {selected && worst && (
        <div className={`pnne-card-message pnne-severity-${worst} nodrag nopan`}>
          {card.diagnostics.map((diagnostic) => (
            <p key={`${diagnostic.code} ${diagnostic.port ?? ""} ${diagnostic.message}`}>{diagnostic.message}</p>
          ))}
        </div>
      )}
    </div>
  );
});

function hasLabels(card: Card, side: HandlePlace["side"]): boolean {
  return card.geometry.handles.some((handle) => handle.side === side && handle.labelled);
}

function worstSeverity(card: Card): "error" | "warning" | null {
  if (card.diagnostics.some((diagnostic) => (diagnostic.severity ?? "error") === "error")) return "error";
  return card.diagnostics.some((diagnostic) => diagnostic.severity === "warning") ? "warning" : null;
}

function Badge({ card, severity }: { card: Card; severity: "error" | "warning" }) {
  const text = card.diagnostics.map(({ message, hint }) => (hint ? `${message} ${hint}` : message)).join("\n");
  return (
    <span className={`pnne-badge pnne-severity-${severity}`} title={text} role="img" aria-label={text}>
      !
    </span>
  );
}

function Ports({ card }: { card: Card }) {
  const editor = useEditor();
  const connecting = useView((view) => view.connecting);
  const refusal = useMemo(() => {
    const scene = connecting && editor.connectable();
    return scene ? refusalsFrom(scene, connecting.port, connecting.side) : null;
  }, [connecting, editor]);
  return card.geometry.handles.map((handle) => {
    const address = `${card.name}.${handle.port}`;
    const isTarget = connecting !== null && connecting.side !== handle.side;
    const reason = isTarget && refusal ? refusal(address) : null;
    const state = isTarget ? (reason ? "pnne-refuses" : "pnne-fits") : "";
    return <Port key={`${handle.side} ${handle.port}`} card={card} handle={handle} state={state} reason={reason} />;
  });
}

interface PortProps {
  card: Card;
  handle: HandlePlace;
  state: string;
  reason: string | null;
}

function Port({ card, handle, state, reason }: PortProps) {
  const isInput = handle.side === "input";
  const ports = isInput ? card.ports.inputs : card.ports.outputs;
  const port = ports.find((candidate) => candidate.name === handle.port);
  const spare = isInput && !port?.wired && (port?.optional || /_\d+$/.test(handle.port));
  const label = `${isInput ? "Input" : "Output"} ${card.name}.${handle.port}${port?.kind === "tensor" ? "" : ` (${port?.kind})`}`;
  const kind = port?.kind === "value" || port?.kind === "tensor" ? "" : " pnne-port-special";
  return (
    <>
      <Handle
        id={handle.port}
        type={isInput ? "target" : "source"}
        position={isInput ? Position.Top : Position.Bottom}
        className={`pnne-port ${state}${spare ? " pnne-spare" : ""}${kind}`}
        style={{ left: handle.x }}
        role="img"
        data-port={`${card.path}.${handle.port}`}
        title={reason ?? `${label}${port?.doc ? `\n${port.doc}` : ""}`}
        aria-label={label}
      />
      {handle.labelled && (
        <span
          className={`pnne-port-label pnne-port-${handle.side} ${state}`}
          style={{ left: handle.x, maxWidth: card.geometry.width / ports.length - 4 }}
        >
          {handle.port}
        </span>
      )}
    </>
  );
}
