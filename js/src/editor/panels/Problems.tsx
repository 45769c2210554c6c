import type { Diagnostic } from "../../protocol";
import { useEditor, useScene, useSession, useView } from "../context";

/** The bottom line: problems that jump to their node, the state of the connection, and the size of the model. */
export function StatusLine() {
  const editor = useEditor();
  const scene = useScene();
  const open = useView((view) => view.problems);
  const diagnostics = useSession((state) => state.derived.diagnostics);
  const parameters = useSession((state) => state.derived.parameters);
  const problems = [...diagnostics.values()].flat().filter((diagnostic) => diagnostic.severity !== "info");
  const errors = problems.filter((diagnostic) => (diagnostic.severity ?? "error") === "error").length;
  const nodes = scene?.graph.nodes.size ?? 0;
  return (
    <footer className="pnne-status">
      {open && problems.length > 0 && <ProblemList problems={problems} />}
      <div className="pnne-status-line">
        <button
          type="button"
          className={`pnne-problems-toggle${errors > 0 ? " pnne-severity-error" : problems.length > 0 ? " pnne-severity-warning" : ""}`}
          aria-expanded={open}
          disabled={problems.length === 0}
          onClick={() => editor.patch({ problems: !open })}
        >
          <i className="pnne-lamp" />
          {problems.length === 0
            ? "No problems"
            : `${problems.length} ${problems.length === 1 ? "problem" : "problems"}`}
        </button>
        <Connection />
        <span className="pnne-spring" />
        <span>
          {nodes} {nodes === 1 ? "node" : "nodes"}
        </span>
        {parameters.size > 0 && <span>{totalParameters(parameters).toLocaleString("en-US")} parameters</span>}
      </div>
    </footer>
  );
}

/** Parameters of the outermost nodes: those of nested ones are in their block's number. */
function totalParameters(parameters: ReadonlyMap<string, number>): number {
  let total = 0;
  for (const [path, count] of parameters) if (!path.includes(".")) total += count;
  return total;
}

function ProblemList({ problems }: { problems: readonly Diagnostic[] }) {
  const editor = useEditor();
  return (
    <ul className="pnne-problem-list nowheel" aria-label="Problems">
      {problems.map((problem) => (
        <li key={`${problem.node} ${problem.port} ${problem.code} ${problem.message}`}>
          <button type="button" disabled={!problem.node} onClick={() => problem.node && editor.jumpTo(problem.node)}>
            <i className={`pnne-lamp pnne-severity-${problem.severity ?? "error"}`} />
            <b>{problem.node ?? "graph"}</b>
            <span>
              {problem.message} {problem.hint}
            </span>
          </button>
          <FixButton problem={problem} />
        </li>
      ))}
    </ul>
  );
}

export function FixButton({ problem }: { problem: Diagnostic }) {
  const editor = useEditor();
  const { fix } = problem;
  if (!fix) return null;
  return (
    <button type="button" className="pnne-fix" onClick={() => editor.applyFix(fix)}>
      {fix.label}
    </button>
  );
}

function Connection() {
  const editor = useEditor();
  const connection = useSession((state) => state.connection);
  const opened = useSession((state) => state.sync !== null);
  if (connection === "ready") return null;
  if (connection === "waiting") {
    return (
      <span className="pnne-waiting" role="status">
        Waiting for kernel…
      </span>
    );
  }
  return (
    <span className="pnne-offline" role="status">
      Not connected: changes are not saved.
      {opened && (
        <button type="button" className="pnne-fix" onClick={() => editor.copyDocument()}>
          Copy graph as JSON
        </button>
      )}
    </span>
  );
}
