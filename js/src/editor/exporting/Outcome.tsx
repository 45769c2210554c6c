import { useEffect, useRef, useState } from "react";
import type { ExportResult, ExportState, ValueHistograms } from "../../protocol";
import { useEditor, useSession, useView } from "../commands/context";
import { Histogram } from "../fields/Histogram";
import { ProblemList } from "../panels/Problems";
import { numberText } from "../values/amounts";

/** How the latest export stands: its progress, why there is no file, or its report. */
export function Outcome() {
  const state = useSession((session) => session.exporting);
  switch (state?.state) {
    case undefined:
    case "idle":
      return null;
    case "running":
      return <Progress state={state} />;
    case "cancelled":
      return <p role="status">The export was cancelled; no file was written.</p>;
    case "failed":
      return (
        <section className="pnne-export-findings" aria-label="Failure">
          <p className="pnne-export-error" role="alert">
            {state.error}
          </p>
          {state.diagnostics.length > 0 && <ProblemList problems={state.diagnostics} />}
        </section>
      );
    case "done":
      return state.result && <Report result={state.result} stale={state.stale} />;
  }
}

function Progress({ state }: { state: ExportState }) {
  const [seconds, setSeconds] = useState(state.seconds);
  useEffect(() => {
    const began = Date.now() - 1000 * state.seconds;
    const timer = setInterval(() => setSeconds((Date.now() - began) / 1000), 1000);
    return () => clearInterval(timer);
  }, [state.seconds]);
  return (
    <div className="pnne-export-progress">
      <progress aria-label="Writing and proving the file" />
      <span>
        Writing and proving {state.path.split("/").at(-1)}, {Math.round(seconds)} s
      </span>
    </div>
  );
}

/** The report as a table; a click on a node goes to it, and the selected node's values are shown under the table. */
function Report({ result, stale }: { result: ExportResult; stale: boolean }) {
  const editor = useEditor();
  const selected = useSelectedPath();
  const chosen = result.nodes.find(({ node }) => node === selected);
  return (
    <section className="pnne-export-report" aria-label="Report">
      <p role="status">
        <i className={`pnne-lamp${result.ok ? "" : " pnne-severity-error"}`} />
        <b>{result.headline}</b>
      </p>
      {stale && <p className="pnne-hint">The graph was edited since: export it again to have these figures for it.</p>}
      <ul>
        {result.facts.map((fact) => (
          <li key={fact}>{fact}</li>
        ))}
      </ul>
      {result.nodes.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">node</th>
              <th scope="col">error</th>
              <th scope="col" title="Above 1, rounding does not explain the difference">
                ÷ tolerance
              </th>
            </tr>
          </thead>
          <tbody>
            {result.nodes.map(({ node, type, error, ratio, ok, note }) => (
              <tr key={node} className={ok ? undefined : "pnne-export-differs"}>
                <th scope="row">
                  <button type="button" title={`Go to ${node} (${type})`} onClick={() => editor.jumpTo(node)}>
                    {node}
                  </button>
                </th>
                {error == null && note ? (
                  <td colSpan={2}>{note}</td>
                ) : (
                  <>
                    <td>{numberText(error)}</td>
                    <td title={note || undefined}>
                      {ok ? "" : "✗ "}
                      {numberText(ratio)}
                    </td>
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {chosen?.histograms ? (
        <Spread node={chosen.node} histograms={chosen.histograms} />
      ) : (
        result.nodes.length > 0 && <p className="pnne-hint">Click a node to see its values.</p>
      )}
    </section>
  );
}

function useSelectedPath(): string | null {
  const path = useView((view) => view.path);
  const nodes = useView((view) => view.nodes);
  return nodes.size === 1 ? [...path, ...nodes].join(".") : null;
}

/** The values of one node in the model, filled, and in the file, as a line over them. */
function Spread({ node, histograms }: { node: string; histograms: ValueHistograms }) {
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
