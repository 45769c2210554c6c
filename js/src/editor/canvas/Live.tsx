import type { CSSProperties } from "react";
import type { LayerFault, LayerState } from "../../protocol";
import { useSession, useView } from "../commands/context";
import type { Card } from "../scene/card";
import { strength } from "../session/training";
import { numberText } from "../values/amounts";

/** What a person calls it. */
export const LAYER_FAULTS: Record<LayerFault["kind"], string> = {
  notFinite: "NaN",
  exploding: "exploding",
  vanishing: "vanishing",
  dead: "dead",
  saturated: "saturated",
};

/** The second line of a card: what it is unless its name says so, or what it does while it is trained. */
export function LiveText({ path, kind }: { path: string; kind: string }) {
  const layer = useSession((state) => state.training?.layers[path]);
  if (!layer) return kind && <span className="pnne-card-type">{kind}</span>;
  const parts = [`σ ${numberText(layer.std)}`];
  if (layer.zeros && layer.zeros >= 0.005) parts.push(`${Math.round(100 * layer.zeros)} % zero`);
  return (
    <span className="pnne-card-type pnne-live-text" title={`${kind}\n${described(layer)}`}>
      {parts.join(" · ")}
    </span>
  );
}

/** A word on the card of a layer that something is wrong with. */
export function LiveMark({ path }: { path: string }) {
  const fault = useSession((state) => state.training?.layers[path]?.fault);
  if (!fault) return null;
  return (
    <span
      className={`pnne-layer-fault pnne-layer-fault-${fault.kind}`}
      role="img"
      aria-label={`${LAYER_FAULTS[fault.kind]}: ${fault.reason}`}
      title={fault.reason}
    >
      {LAYER_FAULTS[fault.kind]}
    </span>
  );
}

/** What the node gives, in the lower part of its card. */
export function CardPicture({ card: { picture, name, geometry } }: { card: Card }) {
  const address = useSession((state) => (picture === null ? undefined : state.pictures[picture]));
  if (!address) return null;
  const bottom = geometry.across ? 0 : geometry.below;
  return <img className="pnne-picture" src={address} alt={`What ${name} gives`} draggable={false} style={{ bottom }} />;
}

/** What the lens of an export says of a node, under its card, or else what Python marks it with. */
export function LensText({ path }: { path: string }) {
  const lens = useView((view) => view.lens);
  const own = useSession((state) => state.marks.get(path));
  const mark = lens ? lens.get(path) : own;
  if (!mark) return null;
  return (
    <span
      className={`pnne-lens pnne-lens-${mark.level}`}
      role="img"
      aria-label={`${lens ? "Export: " : ""}${mark.text}. ${mark.title}`}
      title={mark.title}
    >
      {mark.text}
    </span>
  );
}

/** The gradient that comes back along an edge: its number, and how strong it is among all, 0 to 1. */
export function useFlow(source: string): { text: string; style: CSSProperties; bad: boolean } | null {
  const layer = useSession((state) => (source ? state.training?.layers[source] : undefined));
  const range = useSession((state) => state.training?.range ?? null);
  if (!layer) return null;
  const kind = layer.fault?.kind;
  const bad = kind === "notFinite" || kind === "exploding";
  if (layer.flow == null) return bad ? { text: "∇ NaN", style: {}, bad } : null;
  const style = { "--pn-flow": strength(layer.flow, range).toFixed(2) } as CSSProperties;
  return { text: `∇ ${numberText(layer.flow)}`, style, bad };
}

function described(layer: LayerState): string {
  const lines = [`Output: mean ${numberText(layer.mean)}, standard deviation ${numberText(layer.std)}`];
  if (layer.zeros != null) lines.push(`Zeros: ${(100 * layer.zeros).toFixed(1)} %`);
  if (layer.weights != null) lines.push(`Gradient of its weights: ${numberText(layer.weights)}`);
  if (layer.flow != null) lines.push(`Gradient through its output: ${numberText(layer.flow)}`);
  return lines.join("\n");
}
