import { nodeOf } from "../document/document";
import { endsOfEdges } from "../scene/boxes";
import { addressOn } from "../scene/card";
import type { Editor } from "./editor";
import { selectedEdge } from "./gestures";

/** Runs one example up to the selected edge, or to the selected node's first output, and shows the tensor there. */
export function runToHere(editor: Editor): void {
  const scene = editor.scene();
  const { nodes, edges } = editor.view.get();
  if (!scene) return;
  if (nodes.size === 0 && edges.size > 0) {
    const edge = selectedEdge(editor);
    const giver = edge && endsOfEdges(scene, [edge]).get(nodeOf(edge.source));
    if (giver) see(editor, giver.name, edge.source);
    return;
  }
  const name = editor.only();
  const card = name === null ? undefined : scene.cards.get(name);
  if (!card) {
    editor.session.notify("Select one node or edge to run to.");
    return;
  }
  const [output] = card.ports.outputs;
  // What an Output gets is what another node gives.
  const fed = [...scene.graph.edges.values()].find(({ target }) => nodeOf(target) === card.name);
  if (output) see(editor, card.name, addressOn(card, output.name, "output"));
  else if (fed) see(editor, card.name, fed.source);
  else editor.session.notify(`Nothing reaches ${card.name} yet: connect it first.`);
}

/** Shows what a port gives, beside a card. */
export function see(editor: Editor, card: string, address: string): void {
  const scene = editor.scene();
  if (scene) editor.patch({ seen: { card, port: scene.prefix + address }, peek: null, said: `Running to ${address}` });
}
