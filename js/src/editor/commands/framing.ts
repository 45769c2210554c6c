import type { Op } from "../../protocol";
import { around, type FrameBox, held, resized } from "../document/frame";
import { freeName } from "../document/names";
import { boxesOf, boxOf, middleOf } from "../scene/boxes";
import { carriedBy, documentBox } from "../scene/room";
import { NOTHING, STILL } from "../scene/view";
import type { Editor } from "./editor";
import { closeAll } from "./opened";

const NOTE_SIZE = [240, 130] as const;

/** Puts a frame around the selected nodes; without any, an empty one, for a note, in the middle of the view. */
export function addFrame(editor: Editor): void {
  // A frame must be shown at its true place in the document.
  editor.patch({ folded: NOTHING });
  closeAll(editor);
  const scene = editor.scene();
  if (!scene || !editor.viewport) return;
  const { nodes } = editor.view.get();
  const boxes = [...nodes].flatMap((name) => boxOf(scene, name) ?? []);
  const [x, y] = editor.viewport.centre().map(Math.round) as [number, number];
  const [width, height] = NOTE_SIZE;
  const box: FrameBox = boxes.length > 0 ? around(boxes) : [x - width / 2, y - height / 2, width, height];
  const name = freeName("frame", scene.graph.frames);
  const words = boxes.length > 0 ? { title: "Frame" } : { title: "Note", colour: "yellow" };
  if (!editor.edit([{ op: "addFrame", name, box, ...words, graph: scene.graphId }], `Frame ${words.title}`)) return;
  editor.select([], NOTHING, [name]);
  editor.showPanel("properties", true);
}

export function changeFrame(editor: Editor, name: string, change: Partial<Extract<Op, { op: "changeFrame" }>>): void {
  const graph = editor.scene()?.graphId ?? "";
  const [field] = Object.keys(change);
  editor.edit([{ op: "changeFrame", name, ...change, graph }], `Change ${field} of frame ${name}`);
}

/** Fits a frame's size to its contents. */
export function fitFrame(editor: Editor, name: string): void {
  const scene = editor.scene();
  const frame = scene?.frames.get(name);
  if (!scene || !frame) return;
  const all = boxesOf(scene, STILL);
  const centres = all.map((box) => [box.name, middleOf(box)] as const);
  const inside = new Set(held(frame, centres, []).nodes);
  if (inside.size === 0) editor.session.notify("Nothing stands in this frame.");
  else {
    const box = documentBox(scene, name, around(all.filter((box) => inside.has(box.name))));
    if (box) changeFrame(editor, name, { box });
  }
}

/** Makes the selected frames larger or smaller at their lower right corner. */
export function resizeFrames(editor: Editor, dx: number, dy: number): void {
  const scene = editor.scene();
  const { frames } = editor.view.get();
  if (!scene || frames.size === 0) return;
  const ops = [...frames].flatMap((name): Op[] => {
    const box = scene.graph.frames.get(name)?.box;
    return box ? [{ op: "changeFrame", name, box: resized(box, dx, dy), graph: scene.graphId }] : [];
  });
  editor.edit(ops, `Resize frame ${[...frames].join(", ")}`);
}

/** Shows the frame of that name, and has the keyboard stand on it. */
export function goToFrame(editor: Editor, name: string): void {
  const scene = editor.scene();
  const frame = scene?.frames.get(name);
  if (!scene || !frame) return;
  editor.select([], NOTHING, [name]);
  editor.patch({ said: frameLabel(editor, name) });
  editor.viewport?.show(frame.box);
}

/** Goes to the title of the selected frame in the panel. */
export function editFrame(editor: Editor): void {
  editor.showPanel("properties", true);
  requestAnimationFrame(() => editor.root?.querySelector<HTMLInputElement>(".pnne-frame-form input")?.select());
}

/** What a screen reader says of a frame. */
export function frameLabel(editor: Editor, name: string): string {
  const scene = editor.scene();
  const frame = scene?.graph.frames.get(name);
  if (!scene || !frame) return name;
  const inside = [...carriedBy(scene, new Set([name])).nodes];
  const words = [frame.title || name, frame.text].filter(Boolean).join(", ");
  return `Frame ${words}${inside.length > 0 ? `, around ${inside.join(", ")}` : ""}`;
}

/** Moves a dragged frame and its contents to a corner; ends with `Editor.move`. */
export function dragFrame(editor: Editor, name: string, [left, top]: readonly [number, number]): void {
  const scene = editor.scene();
  const frame = scene?.frames.get(name);
  if (!scene || !frame) return;
  const [dx, dy] = [left - frame.box[0], top - frame.box[1]];
  const carried = carriedBy(scene, new Set([name]));
  const { moving, boxes } = editor.view.get();
  const places = new Map(moving);
  for (const box of boxesOf(scene, STILL)) {
    if (!carried.nodes.has(box.name)) continue;
    const [x, y] = middleOf(box);
    places.set(box.name, [x + dx, y + dy]);
  }
  const moved = new Map(boxes);
  for (const other of carried.frames) {
    const box = scene.frames.get(other)?.box;
    if (box) moved.set(other, [box[0] + dx, box[1] + dy, box[2], box[3]]);
  }
  editor.patch({ moving: places, boxes: moved });
}

/** Shows of the selected nodes only the names, or all of them again if they are all collapsed. */
export function toggleCollapsed(editor: Editor, names: Iterable<string> = editor.chosen()): void {
  const scene = editor.scene();
  const nodes = [...names].flatMap((name) => scene?.graph.nodes.get(name) ?? []);
  if (!scene || nodes.length === 0) return;
  const collapsed = !nodes.every((node) => node.collapsed);
  const ops = nodes
    .filter((node) => (node.collapsed ?? false) !== collapsed)
    .map(({ name }): Op => ({ op: "collapseNode", name, collapsed, graph: scene.graphId }));
  const what = nodes.length === 1 ? nodes[0]?.name : `${nodes.length} nodes`;
  editor.edit(ops, `${collapsed ? "Collapse" : "Expand"} ${what}`);
}
