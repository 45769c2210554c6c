import type { Diagnostic } from "../../protocol";
import { useEditor } from "../commands/context";
import { applyFix } from "../commands/gestures";

/** Everything that keeps the graph from compiling or is worth a look; a click jumps to the node. */
export function ProblemList({ problems }: { problems: readonly Diagnostic[] }) {
  const editor = useEditor();
  return (
    <ul className="pnne-problem-list nowheel" aria-label="Problems">
      {problems.map((problem) => (
        <li key={`${problem.node} ${problem.port} ${problem.code} ${problem.message}`}>
          <button type="button" disabled={!problem.node} onClick={() => problem.node && editor.jumpTo(problem.node)}>
            <i className={`pnne-lamp pnne-severity-${problem.severity ?? "error"}`} />
            <b>{problem.node ?? "graph"}</b>
            <span>
              {problem.message} {problem.hint} <code title={`pn.explain("${problem.code}")`}>{problem.code}</code>
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
    <button type="button" className="pnne-fix" onClick={() => applyFix(editor, fix)}>
      {fix.label}
    </button>
  );
}
