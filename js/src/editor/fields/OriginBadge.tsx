import { useSession } from "../commands/context";
import { type Provenance, untilProved } from "../document/origin";
import { Icon } from "./Action";

const ICONS: Record<Provenance["proof"], string> = {
  equal: "M4 6.2h8M4 9.8h8",
  edited: "M4 12l.6-2.6 5.8-5.8 2 2-5.8 5.8zM9 5l2 2",
  pending: "M4.8 3.6h6.4L8 8zm0 8.8h6.4L8 8z",
  opaque: "M4.2 7.2h7.6v5.6H4.2zM5.8 7V5.2a2.2 2.2 0 0 1 4.4 0V7",
};

/** A mark on a node of an imported model: proved equal to the original, being proved, changed since, or kept, and why. */
export function OriginBadge({ origin }: { origin: Provenance }) {
  const { proof, text } = useProvenance(origin);
  return (
    <span className={`pnne-origin pnne-origin-${proof}`} role="img" aria-label={text} title={text}>
      <Icon path={ICONS[proof]} />
    </span>
  );
}

/** The same in words, for the panel. */
export function OriginLine({ origin }: { origin: Provenance }) {
  const { text } = useProvenance(origin);
  return (
    <p className="pnne-origin-line">
      <OriginBadge origin={origin} />
      {text}.
    </p>
  );
}

function useProvenance(origin: Provenance): Provenance {
  const unproved = useSession((state) => state.unproved);
  return untilProved(origin, unproved);
}
