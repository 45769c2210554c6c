import { type Fragment, fragmentOf, parseFragment, pasteOps } from "./document/fragment";
import type { Editor } from "./editor";
import { NOTHING } from "./view";

const PASTE_OFFSET = [32, 48] as const;

/** What was copied last, for hosts whose page may not read the clipboard. */
let pageClipboard = "";

export async function copy(editor: Editor): Promise<boolean> {
  const fragment = selected(editor);
  if (!fragment) return false;
  const text = JSON.stringify(fragment);
  pageClipboard = text;
  await navigator.clipboard?.writeText(text).catch(() => undefined);
  return true;
}

export async function cut(editor: Editor): Promise<void> {
  if (await copy(editor)) editor.deleteSelection();
}

export async function paste(editor: Editor): Promise<void> {
  const text = (await navigator.clipboard?.readText().catch(() => null)) ?? pageClipboard;
  const fragment = parseFragment(text) ?? parseFragment(pageClipboard);
  if (!fragment) return;
  try {
    insert(editor, fragment, "Paste");
  } catch {
    // It says that it is ours, and is not.
    editor.session.notify("What is on the clipboard cannot be pasted: it is no part of a graph.");
  }
}

export function duplicate(editor: Editor): void {
  const fragment = selected(editor);
  if (fragment) insert(editor, fragment, "Duplicate");
}

function selected(editor: Editor): Fragment | null {
  const scene = editor.scene();
  const { nodes, frames } = editor.view.get();
  if (!scene || nodes.size + frames.size === 0) return null;
  const carried = editor.carriedBy(scene, frames);
  return fragmentOf(scene.document, scene.graph, new Set([...nodes, ...carried.nodes]), carried.frames);
}

function insert(editor: Editor, fragment: Fragment, verb: string): void {
  const scene = editor.scene();
  if (!scene || fragment.nodes.length + fragment.frames.length === 0) return;
  const { ops, names, frames } = pasteOps(fragment, scene.document, scene.graphId, PASTE_OFFSET);
  const what = names.length === 1 ? String(names[0]) : names.length > 0 ? `${names.length} nodes` : "frame";
  if (editor.edit(ops, `${verb} ${what}`)) editor.select(names, NOTHING, frames);
}
