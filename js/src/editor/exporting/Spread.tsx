import { useEffect, useRef } from "react";
import type { ValueHistograms } from "../../protocol";
import { numberText } from "../values/amounts";

const WIDTH = 288;
const HEIGHT = 72;

/** The values of one node in the model, filled, and in the file, as a line over them. */
export function Spread({ node, histograms }: { node: string; histograms: ValueHistograms }) {
  const { low, high, model, file, leftOut } = histograms;
  const figure = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each node that is clicked is to be seen
  useEffect(() => {
    figure.current?.scrollIntoView({ block: "nearest" }); // a promise in new browsers, which React would call at the end
  }, [node]);
  const most = Math.max(...model, ...file);
  const step = WIDTH / model.length;
  const outline = (counts: readonly number[]) =>
    `M0,${HEIGHT}${counts.map((count) => `V${HEIGHT * (1 - count / most)}h${step}`).join("")}V${HEIGHT}`;
  return (
    <figure ref={figure} className="pnne-export-spread" aria-label={`Values of ${node}`}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
        <path className="pnne-spread-model" d={outline(model)} />
        <path d={outline(file)} />
      </svg>
      <div>
        {numberText(low)} <span>{numberText(high)}</span>
      </div>
      <figcaption>
        <b>{node}</b>
        <span className="pnne-spread-model">model</span>
        <span>file</span>
        {leftOut > 0 && `${leftOut} are in no bar`}
      </figcaption>
    </figure>
  );
}
