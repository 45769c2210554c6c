import { mayRepeat, type Run } from "../document/repeats";
import type { ShownScene } from "../scene/scene";
import { NOTHING } from "../scene/view";
import type { Editor } from "./editor";

/** The run that a node is in, folded or not. */
export function runAt(scene: ShownScene, name: string): Run | null {
  const isIn = (run: Run) => run.includes(name);
  const folded = [...scene.folds.runs.values()].find(isIn);
  if (folded || !mayRepeat(scene.document, scene.graph, name)) return folded ?? null;
  return scene.runs().find(isIn) ?? null;
}

/** Folds the runs of the given nodes into one card each, or unfolds them if they are folded; without nodes, all runs. */
export function toggleFolded(editor: Editor, names: ReadonlySet<string> = editor.view.get().nodes): void {
  const scene = editor.scene();
  if (!scene) return;
  if (toggleChains(editor, scene, names)) return;
  const runs = scene.runs().filter((run) => names.size === 0 || run.some((name) => names.has(name)));
  if (runs.length === 0) {
    editor.session.notify("Nothing to fold: there are no equal nodes in a row here.");
    return;
  }
  const fold = !runs.every(([head]) => head !== undefined && scene.folds.runs.has(head));
  const folded = new Set(editor.view.get().folded);
  for (const [head] of runs) {
    if (fold) folded.add(scene.prefix + head);
    else folded.delete(scene.prefix + head);
  }
  const what = runs.map((run) => `${run[0]} to ${run.at(-1)}, ${run.length} nodes`).join("; ");
  editor.patch({ folded, peek: null, said: `${fold ? "Folded" : "Unfolded"} ${what}` });
  if (names.size > 0) editor.select(runs.flat());
}

/** Draws the steps of the given expressions one by one, or writes what was drawn so on their cards again. */
function toggleChains(editor: Editor, scene: ShownScene, names: ReadonlySet<string>): boolean {
  const { outlined } = editor.view.get();
  if (outlined === "all") return false;
  const chains = [...scene.folds.chains.values()].filter((chain) => chain.some((name) => names.has(name)));
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

/** Rows of so many equal blocks are one card each when their graph is first seen. */
const FOLDED_FROM = 4;

/** Folds the rows of equal blocks of graphs that are seen for the first time. */
export function foldAtFirst(editor: Editor, scenes: readonly ShownScene[]): void {
  const { folded, foldedOnce } = editor.view.get();
  const fresh = scenes.filter(({ graphId, graph }) => !foldedOnce.has(graphId) && graph.nodes.size > 0);
  if (fresh.length === 0) return;
  const heads = fresh.flatMap((scene) =>
    scene
      .runs()
      .filter(({ length, 0: head = "" }) => length >= FOLDED_FROM && scene.graph.nodes.get(head)?.type === "Subgraph")
      .map(([head]) => scene.prefix + head),
  );
  editor.patch({
    foldedOnce: new Set([...foldedOnce, ...fresh.map(({ graphId }) => graphId)]),
    ...(heads.length > 0 && { folded: new Set([...folded, ...heads]) }),
  });
}
