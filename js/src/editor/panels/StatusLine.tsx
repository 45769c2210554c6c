import { useMemo } from "react";
import type { NodeCost } from "../../protocol";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import { copyDocument } from "../commands/files";
import { bytesText, countText, exactText, exampleText } from "../values/amounts";
import { ProblemList, useProblems } from "./Problems";

/** The bottom line: problems that jump to their node, the state of the connection, and what the model costs. */
export function StatusLine() {
  const editor = useEditor();
  const scene = useScene();
  const open = useView((view) => view.problems);
  const { problems, wrong } = useProblems();
  const errors = wrong.filter((diagnostic) => (diagnostic.severity ?? "error") === "error").length;
  const nodes = scene?.graph.nodes.size ?? 0;
  return (
    <footer className="pnne-status">
      {open && problems.length > 0 && <ProblemList problems={problems} />}
      <Lost />
      <div className="pnne-status-line">
        <button
          type="button"
          className={`pnne-problems-toggle${errors > 0 ? " pnne-severity-error" : wrong.length > 0 ? " pnne-severity-warning" : ""}`}
          aria-expanded={open}
          disabled={problems.length === 0}
          onClick={() => editor.patch({ problems: !open })}
        >
          <i className="pnne-lamp" />
          {wrong.length > 0
            ? `${wrong.length} ${wrong.length === 1 ? "problem" : "problems"}`
            : problems.length > 0
              ? "Not finished yet"
              : "No problems"}
        </button>
        <Waiting />
        <span className="pnne-spring" />
        <Totals />
        <span>
          {nodes} {nodes === 1 ? "node" : "nodes"}
        </span>
      </div>
    </footer>
  );
}

/** What the whole model costs: the sum of its outermost nodes, since a block's cost holds those inside. */
function Totals() {
  const costs = useSession((state) => state.derived.costs);
  const example = useSession((state) => state.derived.example);
  const sum = useMemo(() => total(costs), [costs]);
  if (costs.size === 0) return null;
  const forWhat = exampleText(example);
  return (
    <section className="pnne-totals" aria-label="Costs of the model">
      <span title={`${bytesText(sum.memory)} of parameters and buffers`}>
        {exactText(sum.parameters)} parameters, {bytesText(sum.memory)}
      </span>
      <span
        title={`${exactText(sum.multAdds)} multiply-adds of matrix products, convolutions and attention in one forward pass ${forWhat}`}
      >
        {countText(sum.multAdds)} mult-adds
      </span>
      <span title={`${exactText(sum.activation)} bytes that all nodes return ${forWhat}: about what a training keeps`}>
        {bytesText(sum.activation)} activations {forWhat}
      </span>
    </section>
  );
}

function total(costs: ReadonlyMap<string, NodeCost>): NodeCost {
  const sum = { parameters: 0, multAdds: 0, memory: 0, activation: 0 };
  for (const [path, cost] of costs) {
    if (path.includes(".")) continue;
    for (const kind of ["parameters", "multAdds", "memory", "activation"] as const) sum[kind] += cost[kind];
  }
  return sum;
}

function Waiting() {
  if (useSession((state) => state.connection) !== "waiting") return null;
  return (
    <span className="pnne-waiting" role="status">
      Waiting for kernel…
    </span>
  );
}

/** On a line of its own: who works on must not overlook that nothing is kept. */
function Lost() {
  const editor = useEditor();
  const connection = useSession((state) => state.connection);
  const opened = useSession((state) => state.sync !== null);
  if (connection !== "gone" && connection !== "offline") return null;
  return (
    <p className="pnne-offline" role={connection === "gone" ? "alert" : "status"}>
      <span>
        {connection === "gone"
          ? "The kernel was restarted or has ended: run the cell again. Changes are not saved."
          : "Not connected: changes are not saved."}
      </span>
      {opened && (
        <button type="button" className="pnne-fix" onClick={() => void copyDocument(editor)}>
          Copy graph as JSON
        </button>
      )}
    </p>
  );
}
