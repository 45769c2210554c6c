import type { ShownScene } from "../scene/scene";
import { NOTHING } from "../scene/view";
import type { Editor } from "./editor";

/** Folds the runs of the given nodes into one card each, or unfolds them if they are folded; without nodes, all runs. */
export function toggleFolded(editor: Editor, names: ReadonlySet<string> = editor.view.get().nodes): void {
  const scene = editor.scene();
  if (!scene) return;
  if (toggleChains(editor, scene, names)) return;
  const runs = scene.runs().filter((run) => names.size === 0 || run.flat().some((name) => names.has(name)));
  if (runs.length === 0) {
    editor.session.notify("Nothing to fold: nothing repeats in a row here.");
    return;
  }
  const rows = runs.map((run) => run.flat());
  const fold = !rows.every(([head = ""]) => scene.folds.runs.has(head));
  const folded = new Set(editor.view.get().folded);
  for (const [head, ...others] of rows) {
    if (fold) folded.add(scene.prefix + head);
    else for (const name of [head, ...others]) folded.delete(scene.prefix + name);
  }
  const what = rows.map((row) => `${row[0]} to ${row.at(-1)}, ${row.length} nodes`).join("; ");
  editor.patch({ folded, peek: null, said: `${fold ? "Folded" : "Unfolded"} ${what}` });
  if (names.size > 0) editor.select(rows.flat());
}

/** Draws the steps of the given expressions one by one, or writes what was drawn so on their cards again. */
function toggleChains(editor: Editor, scene: ShownScene, names: ReadonlySet<string>): boolean {
  const { outlined } = editor.view.get();
  if (outlined === "all") return false;
  const chains = scene.inlined.chains.filter((chain) => chain.some((name) => names.has(name)));
  const drawn = [...names].map((name) => scene.prefix + name).filter((path) => outlined.has(path));
  if (chains.length === 0 && drawn.length === 0) return false;
  const next = new Set([...outlined, ...chains.flat().map((name) => scene.prefix + name)]);
  if (chains.length === 0) for (const path of drawn) next.delete(path);
  editor.patch({ outlined: next, said: chains.length > 0 ? `Drawn step by step: ${chains.flat().join(", ")}` : "" });
  return true;
}

/** Draws sizes, constants and the steps of expressions as cards, all of them, or writes them where they are used. */
export function toggleValues(editor: Editor): void {
  const all = editor.view.get().outlined !== "all";
  const said = all
    ? "Sizes, constants and single steps are drawn as cards"
    : "Sizes, constants and single steps are written on the cards that use them";
  editor.patch({ outlined: all ? "all" : NOTHING, peek: null, said });
  if (all && !editor.session.store.get().readOnly)
    editor.session.notify(`${said}. They stand beside the drawing until it is arranged.`, [], {
      label: "Arrange",
      run: () => editor.arrange(editor.scene()?.across ? "right" : undefined),
    });
}

/** What repeats so often is one card when its graph is first seen, if it has blocks or is a pattern of so many layers. */
const FOLDED_FROM = 4;
const LONG = 30;

/** Folds the rows of graphs that are seen for the first time where they repeat blocks, or patterns of layers. */
export function foldAtFirst(editor: Editor, scenes: readonly ShownScene[]): void {
  const { folded, foldedOnce } = editor.view.get();
  const fresh = scenes.filter(({ graphId, graph }) => !foldedOnce.has(graphId) && graph.nodes.size > 0);
  if (fresh.length === 0) return;
  const heads = fresh.flatMap((scene) =>
    scene
      .runs()
      .filter((run) => {
        const isBlock = (name: string) => scene.graph.nodes.get(name)?.type === "Subgraph";
        const [pattern = []] = run;
        const isLong = pattern.length > 1 && run.length * pattern.length >= LONG;
        return run.length >= FOLDED_FROM && (isLong || pattern.some(isBlock));
      })
      // By a node in the middle: the ends may turn out to differ once sizes are inferred.
      .map((run) => scene.prefix + run[run.length >> 1]?.[0]),
  );
  editor.patch({
    foldedOnce: new Set([...foldedOnce, ...fresh.map(({ graphId }) => graphId)]),
    ...(heads.length > 0 && { folded: new Set([...folded, ...heads]) }),
  });
}
