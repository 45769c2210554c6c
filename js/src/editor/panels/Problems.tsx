import type { Diagnostic } from "../../protocol";
import { useEditor, useScene, useSession } from "../commands/context";
import { applyFix } from "../commands/gestures";

/** What is to be said of the graph, and what of that is wrong and not only unfinished; an empty graph has no problems. */
export function useProblems() {
  const scene = useScene();
  const diagnostics = useSession((state) => state.derived.diagnostics);
  const empty = useSession((state) => state.sync?.shown.graphs.get("")?.nodes.size === 0);
  // A node without edges, a graph without an end.
  const isLoose = ({ node, code }: Diagnostic) =>
    (!node && /^no-(in|out)put$/.test(code)) ||
    (node?.startsWith(scene?.prefix ?? "") && scene?.cards.get(node.slice(scene.prefix.length))?.loose);
  const all = empty ? [] : [...diagnostics.values()].flat().filter(({ severity }) => severity !== "info");
  const wrong = all.filter((problem) => !isLoose(problem));
  const unfinished = all.filter(isLoose).map((problem): Diagnostic => ({ ...problem, severity: "info" }));
  return { problems: [...wrong, ...unfinished], wrong };
}

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
