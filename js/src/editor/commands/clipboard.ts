import { type Fragment, fragmentOf, parseFragment, pasteOps } from "../document/fragment";
import type { FrameBox } from "../document/frame";
import { boxesOf, middleOf } from "../scene/boxes";
import { type Box, NODE_WIDTH, overlaps, union } from "../scene/geometry";
import { type Point, STEP_X, STEP_Y } from "../scene/placement";
import { carriedBy } from "../scene/room";
import { centreOf, documentPlace, type ShownScene } from "../scene/scene";
import { NOTHING, SETTLED, STILL } from "../scene/view";
import type { Editor } from "./editor";

const PASTE_OFFSET = [32, 48] as const;
const FOREIGN = "What is on the clipboard cannot be pasted: it is no part of a graph. Copy nodes in an editor first.";
/** Between what is duplicated and its copy. */
const GAP = STEP_X - NODE_WIDTH;
const NO_SIZE = { width: 0, height: 0 };

/** What was copied last, for hosts whose page may not read the clipboard, or not write to it. */
let copied = { text: "", isOnClipboard: false };

export async function copy(editor: Editor): Promise<boolean> {
  const fragment = selected(editor);
  if (!fragment) return false;
  const text = JSON.stringify(fragment);
  copied = { text, isOnClipboard: false };
  const written = navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );
  copied = { text, isOnClipboard: (await written) ?? false };
  return true;
}

export async function cut(editor: Editor): Promise<void> {
  if (await copy(editor)) editor.deleteSelection();
}

/** Pastes at the pointer, or beside the original; with `keepIncoming`, fed by what fed the original. */
export async function paste(editor: Editor, keepIncoming = false): Promise<void> {
  const over = editor.pointer && (editor.viewport?.at(...editor.pointer) ?? null);
  const scene = editor.scene();
  const at = over && scene && documentPlace(scene, over, NO_SIZE);
  const read = (await navigator.clipboard?.readText().catch(() => null)) ?? null;
  const kept = read === null || !copied.isOnClipboard ? parseFragment(copied.text) : null;
  const fragment = (read === null ? null : parseFragment(read)) ?? kept;
  if (!fragment) {
    editor.session.notify(read ? FOREIGN : "There is nothing to paste: copy nodes first.");
    return;
  }
  try {
    insert(editor, fragment, "Paste", at ? toPoint(fragment, at) : PASTE_OFFSET, keepIncoming);
  } catch {
    // It says that it is ours, and is not.
    editor.session.notify(FOREIGN);
  }
}

/** Copies what is selected to its right, where there is room for all of it. */
export function duplicate(editor: Editor): void {
  const [scene, fragment] = [editor.scene(), selected(editor)];
  if (!scene || !fragment) return;
  const { nodes, frames } = editor.view.get();
  const boxes = boxesOf(scene, STILL);
  const whole = union([
    ...boxes.filter(({ name }) => nodes.has(name)),
    ...[...frames].flatMap((name) => scene.frames.get(name) ?? []).map(({ box }) => boxFrom(box)),
  ]);
  let right = whole.width + GAP;
  while (boxes.some((box) => overlaps(box, { ...whole, left: whole.left + right }))) right += GAP;
  insert(editor, fragment, "Duplicate", [Math.round(right), 0]);
  const [first] = editor.view.get().nodes;
  if (first !== undefined) editor.viewport?.reveal(first);
}

/** Ends a drag with Alt: what was dragged stays, and a copy of it stands where it was let go. */
export function dropCopy(editor: Editor): void {
  const scene = editor.scene();
  const { moving, boxes } = editor.view.get();
  const fragment = selected(editor);
  editor.patch({ moving: STILL, boxes: SETTLED, dropEdge: null });
  const [node] = moving;
  const [frame] = boxes;
  if (!scene || !fragment) return;
  const before = frame ? scene.frames.get(frame[0])?.box : node && centreOf(scene, node[0], STILL);
  const after = frame?.[1] ?? node?.[1];
  if (before && after) insert(editor, fragment, "Duplicate", [after[0] - before[0], after[1] - before[1]]);
}

function boxFrom([left, top, width, height]: FrameBox): Box {
  return { left, top, width, height };
}

/** How far a fragment is from having its middle at a point, if that is clear of where it was. */
function toPoint({ nodes, frames }: Fragment, [x, y]: Point): Point {
  const boxes = [
    ...nodes.flatMap(({ position }) => (position ? [{ left: position[0], top: position[1], ...NO_SIZE }] : [])),
    ...frames.map(({ box }) => boxFrom(box)),
  ];
  if (boxes.length === 0) return PASTE_OFFSET;
  const middle = middleOf(union(boxes));
  const [right, down] = [Math.round(x - middle[0]), Math.round(y - middle[1])];
  // Pasting without moving the pointer would cover the original.
  return Math.abs(right) < STEP_X / 2 && Math.abs(down) < STEP_Y / 2 ? PASTE_OFFSET : [right, down];
}

function selected(editor: Editor): Fragment | null {
  const scene = editor.scene();
  const { nodes, frames } = editor.view.get();
  if (!scene || nodes.size + frames.size === 0) return null;
  const carried = carriedBy(scene, frames);
  return fragmentOf(scene.document, scene.graph, editor.withOwn(new Set([...nodes, ...carried.nodes])), carried.frames);
}

/** An offset at which no copy covers a node exactly: who pastes twice without moving the pointer sees both. */
function besideAny({ graph }: ShownScene, { nodes }: Fragment, wanted: Point): Point {
  const taken = new Set([...graph.nodes.values()].flatMap(({ position }) => (position ? [position.join()] : [])));
  let [right, down] = wanted;
  while (nodes.some(({ position }) => position && taken.has([position[0] + right, position[1] + down].join()))) {
    [right, down] = [right + PASTE_OFFSET[0], down + PASTE_OFFSET[1]];
  }
  return [right, down];
}

function insert(
  editor: Editor,
  fragment: Fragment,
  verb: string,
  offset: Point = PASTE_OFFSET,
  keepIncoming = false,
): void {
  const scene = editor.scene();
  if (!scene || fragment.nodes.length + fragment.frames.length === 0) return;
  const beside = besideAny(scene, fragment, offset);
  const { ops, names, frames } = pasteOps(fragment, scene.document, scene.graphId, beside, keepIncoming);
  const what = names.length === 1 ? String(names[0]) : names.length > 0 ? `${names.length} nodes` : "frame";
  if (editor.edit(ops, `${verb} ${what}`)) editor.select(names, NOTHING, frames);
}
