import { edgeId } from "../document/document";
import { boxesOf } from "../scene/boxes";
import { NOTHING, STILL } from "../scene/view";
import { edgeAt, edgesAcross } from "../scene/wires";
import type { Editor } from "./editor";
import { addReroute } from "./gestures";

/** How far the pointer goes before the stroke has another point, in the canvas's pixels. */
const STEP = 4;
/** How near to an edge a click means it, likewise. */
const REACH = 10;

/** Makes the next drag over the canvas a stroke that cuts edges, or takes that back. */
export function armStroke(editor: Editor): void {
  if (editor.view.get().stroke) {
    endStroke(editor, false);
    return;
  }
  if (editor.session.isLocked()) return;
  const said = "Drag across edges to cut them; Escape takes it back.";
  editor.patch({ stroke: [], said });
  editor.session.notify(said);
}

export function strokeTo(editor: Editor, clientX: number, clientY: number): void {
  const scene = editor.scene();
  const stroke = editor.view.get().stroke ?? [];
  const point = editor.viewport?.at(clientX, clientY);
  const last = stroke.at(-1);
  if (!scene || !point || (last && Math.hypot(point[0] - last[0], point[1] - last[1]) < STEP)) return;
  const next = [...stroke, point];
  const crossed = new Set(edgesAcross(scene, boxesOf(scene, STILL), next).map(edgeId));
  editor.patch({ stroke: next, crossed });
}

/** Ends the stroke: the edges that it crosses are cut, as one edit. A click on an edge has it lead through that point. */
export function endStroke(editor: Editor, cut: boolean): void {
  const scene = editor.scene();
  const { crossed, stroke } = editor.view.get();
  editor.patch({ stroke: null, crossed: NOTHING });
  if (!cut || !scene || editor.session.isLocked()) return;
  if (stroke !== null && stroke.length < 2) {
    const [at] = stroke;
    const edge = at && edgeAt(scene, boxesOf(scene, STILL), at, REACH);
    if (!edge) return;
    editor.select([], [edgeId(edge)]);
    addReroute(editor, editor.pointer);
    return;
  }
  const edges = scene.wires.filter((edge) => crossed.has(edgeId(edge)));
  const [first] = edges;
  if (!first) {
    editor.patch({ said: "The stroke crossed no edge" });
    return;
  }
  const label = edges.length === 1 ? `Cut ${first.source} → ${first.target}` : `Cut ${edges.length} edges`;
  editor.edit(
    edges.map((edge) => ({ op: "disconnect", ...edge, graph: scene.graphId })),
    label,
  );
}
