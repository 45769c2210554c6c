import { useEffect, useRef } from "react";
import type { ValueHistograms } from "../../protocol";
import { Histogram } from "../fields/Histogram";

/** The values of one node in the model, filled, and in the file, as a line over them. */
export function Spread({ node, histograms }: { node: string; histograms: ValueHistograms }) {
  const { low, high, model, file, leftOut } = histograms;
  const figure = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each node that is clicked is to be seen
  useEffect(() => {
    figure.current?.scrollIntoView({ block: "nearest" }); // a promise in new browsers, which React would call at the end
  }, [node]);
  return (
    <Histogram ref={figure} label={`Values of ${node}`} low={low} high={high} counts={model} compared={file}>
      <b>{node}</b>
      <span className="pnne-histogram-filled">model</span>
      <span>file</span>
      {leftOut > 0 && `${leftOut} are in no bar`}
    </Histogram>
  );
}
