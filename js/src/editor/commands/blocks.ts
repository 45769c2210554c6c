import { innermost } from "../document/blocks";
import { ownOps } from "../document/definitions";
import { type GraphDocument, toState } from "../document/document";
import { download } from "../host/download";
import type { Editor } from "./editor";

/** Saves all blocks as a graph file. */
export function saveBlocks(library: GraphDocument): void {
  const blob = new Blob([JSON.stringify(toState(library), null, 2)], { type: "application/json" });
  download(blob, "blocks.pnne.json");
}

/** Lets the person choose a graph file, whose blocks are then offered. */
export function chooseBlocks(editor: Editor): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".json";
  input.addEventListener("change", () => {
    void input.files?.[0]?.text().then((text) => editor.session.loadBlocks(text));
  });
  input.click();
}

/** Gives the node that a view is inside a definition of its own. */
export function makeOwn(editor: Editor): void {
  const scene = editor.scene();
  const { path } = editor.view.get();
  const place = scene && innermost(scene.document, path);
  if (!scene || !place) return;
  const { graph, node } = place;
  const ops = ownOps(scene.document, graph, node);
  editor.edit(ops, `Make ${node} its own`);
}
