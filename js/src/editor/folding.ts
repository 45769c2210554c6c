import type { ShownScene } from "./canvas/scene";
import type { Run } from "./document/repeats";
import type { Editor } from "./editor";
import { NOTHING } from "./view";

/** The run that a node is in, folded or not. */
export function runAt(scene: ShownScene, name: string): Run | null {
  return scene.runs().find((run) => run.includes(name)) ?? null;
}

/** Folds the runs of the given nodes into one card each, or unfolds them if they are folded; without nodes, all runs. */
export function toggleFolded(editor: Editor, names: ReadonlySet<string> = editor.view.get().nodes): void {
  const scene = editor.scene();
  if (!scene) return;
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

/** Unfolds everything. */
export function unfoldAll(editor: Editor): void {
  editor.patch({ folded: NOTHING });
}
