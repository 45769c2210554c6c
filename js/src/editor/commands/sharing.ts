import type { Model } from "../session/model";
import type { Editor } from "./editor";

/** Keeps the trait `selection` (full paths) and this view's selection in step. */
export function shareSelection(model: Model, editor: Editor, signal: AbortSignal): void {
  share(model, editor, "selection", signal, {
    read: () => {
      const scene = editor.scene();
      if (!scene) return null;
      const { nodes, elsewhere } = editor.view.get();
      const here = [...nodes].filter((name) => scene.graph.nodes.has(name));
      return [...here.map((name) => scene.prefix + name), ...elsewhere];
    },
    show: (paths) => {
      const scene = editor.scene();
      if (!scene) return false;
      const [only, ...more] = paths;
      const name = only?.startsWith(scene.prefix) ? only.slice(scene.prefix.length) : undefined;
      if (only !== undefined && more.length === 0) {
        // One node is shown, wherever it is.
        if (name !== undefined && scene.cards.has(name)) editor.goTo(name);
        else editor.jumpTo(only);
        return true;
      }
      editor.selectPaths(paths);
      return true;
    },
  });
}

/** Keeps the trait `folded` and what this view folds in step, from what was folded when the page was last open. */
export function shareFolds(model: Model, editor: Editor, signal: AbortSignal): void {
  const part = (trait: string, key: "folded" | "foldedOnce") => {
    const show = (paths: readonly string[]) => {
      editor.patch({ [key]: new Set(paths) });
      return true;
    };
    const before = pathsOf(model, trait);
    if (before.length > 0) show(before);
    share(model, editor, trait, signal, { read: () => [...editor.view.get()[key]], show });
  };
  part("folded", "folded");
  part("_folded_once", "foldedOnce");
}

interface Part {
  /** The paths that this view shows; null while it shows nothing. */
  readonly read: () => readonly string[] | null;
  /** Takes over the paths of Python or another view; returns whether it could. */
  readonly show: (paths: readonly string[]) => boolean;
}

function pathsOf(model: Model, trait: string): readonly string[] {
  return (model.get(trait) ?? []) as string[];
}

/** Keeps a trait that lists paths and a part of a view in step. */
function share(model: Model, editor: Editor, trait: string, signal: AbortSignal, { read, show }: Part): void {
  let shared = JSON.stringify(pathsOf(model, trait));
  const send = () => {
    const paths = read();
    const text = JSON.stringify(paths);
    if (paths === null || text === shared) return;
    shared = text;
    model.set(trait, paths);
    model.save_changes();
  };
  const take = () => {
    const paths = pathsOf(model, trait);
    const [before, text] = [shared, JSON.stringify(paths)];
    if (text === before) return;
    // Showing them changes the view, which must not be announced.
    shared = text;
    if (!show(paths)) shared = before;
  };
  const end = editor.view.subscribe(send);
  model.on(`change:${trait}`, take);
  signal.addEventListener("abort", () => {
    end();
    model.off(`change:${trait}`, take);
  });
}
