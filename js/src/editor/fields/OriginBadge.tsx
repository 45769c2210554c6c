import type { Provenance } from "../document/origin";
import { Icon } from "./Action";

const ICONS: Record<Provenance["proof"], string> = {
  equal: "M4 6.2h8M4 9.8h8",
  edited: "M4 12l.6-2.6 5.8-5.8 2 2-5.8 5.8zM9 5l2 2",
  opaque: "M4.2 7.2h7.6v5.6H4.2zM5.8 7V5.2a2.2 2.2 0 0 1 4.4 0V7",
};

/** A mark on a node of an imported model: proved equal to the original, changed since, or kept as it was, and why. */
export function OriginBadge({ origin }: { origin: Provenance }) {
  return (
    <span className={`pnne-origin pnne-origin-${origin.proof}`} role="img" aria-label={origin.text} title={origin.text}>
      <Icon path={ICONS[origin.proof]} />
    </span>
  );
}
