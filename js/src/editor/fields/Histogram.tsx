import type { ReactNode, Ref } from "react";
import { numberText } from "../values/amounts";

const WIDTH = 288;
const HEIGHT = 72;

interface HistogramProps {
  readonly label: string;
  readonly low: number;
  readonly high: number;
  readonly counts: readonly number[];
  /** Counts in the same bins to compare with, as a line over the others. */
  readonly compared?: readonly number[];
  readonly children?: ReactNode;
  readonly ref?: Ref<HTMLElement>;
}

/** How values are spread, in equally wide bins. */
export function Histogram({ label, low, high, counts, compared = [], children, ref }: HistogramProps) {
  const most = Math.max(...counts, ...compared, 1);
  const step = WIDTH / counts.length;
  const outline = (heights: readonly number[]) =>
    `M0,${HEIGHT}${heights.map((count) => `V${HEIGHT * (1 - count / most)}h${step}`).join("")}V${HEIGHT}`;
  return (
    <figure ref={ref} className="pnne-histogram" aria-label={label}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        <path className="pnne-histogram-filled" d={outline(counts)} />
        {compared.length > 0 && <path d={outline(compared)} />}
      </svg>
      <div>
        {numberText(low)} <span>{numberText(high)}</span>
      </div>
      {children && <figcaption>{children}</figcaption>}
    </figure>
  );
}
