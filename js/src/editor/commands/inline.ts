import type { PropertyState } from "../../protocol";
import type { Card } from "../scene/card";
import { READABLE_ZOOM } from "../scene/geometry";
import { mainProperties } from "../scene/summary";
import { NOTHING } from "../scene/view";
import type { Editor } from "./editor";

/** The properties that are edited on a card itself. */
export function editableOn(editor: Editor, { name, path }: Pick<Card, "name" | "path">): readonly PropertyState[] {
  const scene = editor.sceneOf({ name, path });
  const node = scene?.graph.nodes.get(name);
  if (!scene || !node) return [];
  return mainProperties(node, scene.types.get(node.type), editor.session.store.get().derived.resolved.get(path));
}

/** Opens the few properties that matter on a node's own card, at one of them or at the first. */
export function editInline(editor: Editor, name: string | null = editor.only(), property: string | null = null): void {
  const card = name === null ? undefined : editor.scene()?.cards.get(name);
  if (!card || editor.session.isLocked()) return;
  if (editableOn(editor, card).length === 0) {
    editor.session.notify(`${card.name} has no values to edit on it; Enter goes to its properties.`);
    return;
  }
  editor.patch({
    nodes: editor.whole([card.name]),
    edges: NOTHING,
    frames: NOTHING,
    current: card.name,
    inline: { node: card.name, property },
    said: `Edit ${card.title}`,
  });
  editor.viewport?.reveal(card.name, READABLE_ZOOM);
}

/** Closes the open field of a card; the caller handles the typed text. */
export function endInline(editor: Editor, name: string): void {
  if (editor.view.get().inline?.node === name) editor.patch({ inline: null });
}

/** Opens the name of a node on its card. */
export function renameOnCard(editor: Editor, name: string | null = editor.only()): void {
  if (name === null || editor.session.isLocked()) return;
  editor.select([name]);
  editor.patch({ current: name, renaming: name, said: `Rename ${name}` });
  editor.viewport?.reveal(name, READABLE_ZOOM);
}
