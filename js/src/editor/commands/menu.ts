import { definitionOf } from "../document/definitions";
import { headSize } from "../document/freezing";
import { boxOf } from "../scene/boxes";
import { cardFor } from "../scene/scene";
import type { Editor } from "./editor";

/** Opens the menu for the selection: at a point of the page, or at the selected node. */
export function openMenu(editor: Editor, client: readonly [number, number] | null = null): void {
  const { viewport } = editor;
  const scene = editor.scene();
  if (!viewport || !scene) return;
  const only = editor.only();
  const box = only === null ? undefined : boxOf(scene, cardFor(scene, only));
  const at =
    (client && viewport.at(client[0], client[1])) ?? (box ? ([box.left, box.top + box.height] as const) : null);
  if (client) editor.pointer = client;
  editor.patch({ menu: viewport.over(at ?? viewport.centre()), quick: null });
}

/** Opens the menu for what a point of the page shows, and selects that first unless it is selected. */
export function openMenuOn(editor: Editor, target: Element, client: readonly [number, number]): void {
  const { nodes, edges, frames } = editor.view.get();
  // Without the blocks that lead to it: the press has had commands act on its graph.
  const id = (kind: string) => target.closest(kind)?.getAttribute("data-id")?.replace(/^.*\//, "") ?? null;
  const node = id(".react-flow__node-card");
  const frame = id(".react-flow__node-frame")?.replace(/^frame:/, "") ?? null;
  const edge = id(".react-flow__edge");
  if (node !== null) nodes.has(node) || editor.select([node]);
  else if (frame !== null) frames.has(frame) || editor.select([], [], [frame]);
  else if (edge !== null) edges.has(edge) || editor.select([], [edge]);
  else editor.select([]);
  openMenu(editor, client);
}

/** The keys of the commands for the selection, in the parts of the menu. */
export function menuFor(editor: Editor): string[][] {
  const scene = editor.scene();
  const { nodes, elsewhere, edges, frames } = editor.view.get();
  const changes = !editor.session.store.get().readOnly;
  const only = editor.only();
  const node = only === null ? undefined : scene?.graph.nodes.get(only);
  const hasBlocks = [...(editor.drawn()?.cards.values() ?? [])].some(({ inside }) => inside);
  if (nodes.size + elsewhere.size > 0) {
    const block = node !== undefined && definitionOf(node) !== null;
    return offered(changes, [
      node ? ["*Enter", "*i", ...(block ? ["*o", "*p"] : ["t", "v"]), "F2"] : ["t"],
      [...(node ? ["c", "*e"] : []), "*Shift+t"],
      ["*Mod+c", "Mod+x", "Mod+d"],
      ["b", "Shift+b", "l", ...(node && headSize(node) !== null ? ["n"] : [])],
      ["Mod+g", ...(node?.type === "Subgraph" ? ["Mod+Shift+g"] : []), "Shift+g", "h"],
      [...(nodes.size > 1 ? ["a"] : []), "*Shift+f"],
      ["Delete", "Shift+Delete"],
    ]);
  }
  if (frames.size > 0) return offered(changes, [["Enter"], ["*Mod+c", "Mod+d"], ["*Shift+f"], ["Delete"]]);
  if (edges.size > 0) return offered(changes, [edges.size === 1 ? ["*i", " ", "r", "w"] : [], ["Delete"]]);
  return offered(changes, [
    [" ", "Mod+v", "Mod+Shift+v"],
    ["k", "z"],
    ["*Mod+a", "*Mod+f"],
    ["a", "Shift+a", "Shift+c", "Shift+r"],
    ["*f", "*0", "*s", ...(hasBlocks ? ["*Shift+z"] : [])],
    ...(hasBlocks ? [["*o", "*Shift+o"]] : []),
    ["Mod+o", "*Mod+Shift+s"],
    ["*?"],
  ]);
}

/** Without the commands that change the graph, if it may not be changed; a star marks those that only look. */
function offered(changes: boolean, parts: readonly (readonly string[])[]): string[][] {
  return parts
    .map((keys) => keys.filter((key) => changes || key.startsWith("*")).map((key) => key.replace("*", "")))
    .filter((keys) => keys.length > 0);
}
