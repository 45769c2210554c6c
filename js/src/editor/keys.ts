import { copy, cut, duplicate, paste } from "./clipboard";
import { definitionOf } from "./document/definitions";
import type { Editor } from "./editor";
import { toggleFolded } from "./folding";
import { addFrame, editFrame, resizeFrames, toggleCollapsed } from "./framing";
import {
  addIntoEdge,
  openConnect,
  openEdges,
  openFind,
  openPalette,
  openReconnect,
  togglePeek,
  walk,
} from "./gestures";
import { editInline } from "./inline";

/** The command table: each entry lists its keys as `Mod+Shift+z`; Mod is Ctrl, or Cmd on a Mac. */
const COMMANDS: readonly {
  keys: readonly string[];
  run: (editor: Editor, focusSearch: () => void, root: HTMLElement) => void;
}[] = [
  { keys: ["Mod+z"], run: (editor) => editor.session.undo() },
  { keys: ["Mod+Shift+z", "Mod+y"], run: (editor) => editor.session.redo() },
  { keys: ["Mod+a"], run: (editor) => editor.selectAll() },
  { keys: ["Mod+g"], run: (editor) => editor.group() },
  { keys: ["Mod+Shift+g"], run: (editor) => editor.ungroup() },
  { keys: ["Mod+c"], run: (editor) => void copy(editor) },
  { keys: ["Mod+x"], run: (editor) => void cut(editor) },
  { keys: ["Mod+v"], run: (editor) => void paste(editor) },
  { keys: ["Mod+d"], run: duplicate },
  { keys: ["Delete", "Backspace"], run: (editor) => editor.deleteSelection() },
  { keys: ["Shift+Delete", "Shift+Backspace"], run: (editor) => editor.deleteSelection(true) },
  { keys: ["Mod+f"], run: openFind },
  { keys: ["c"], run: openConnect },
  { keys: ["e"], run: openEdges },
  { keys: ["r"], run: openReconnect },
  { keys: ["h"], run: (editor) => toggleCollapsed(editor) },
  { keys: ["x"], run: (editor) => toggleFolded(editor) },
  { keys: ["p"], run: (editor) => togglePeek(editor) },
  { keys: ["Shift+g"], run: addFrame },
  { keys: [" "], run: addHere },
  { keys: ["Enter"], run: open },
  { keys: ["F2"], run: (editor) => editInline(editor) },
  { keys: ["Shift+f"], run: (editor) => editor.viewport?.fit(editor.chosen()) },
  { keys: ["Alt+ArrowLeft"], run: (editor) => walk(editor, -1, 0) },
  { keys: ["Alt+ArrowRight"], run: (editor) => walk(editor, 1, 0) },
  { keys: ["Alt+ArrowUp"], run: (editor) => walk(editor, 0, -1) },
  { keys: ["Alt+ArrowDown"], run: (editor) => walk(editor, 0, 1) },
  { keys: ["Alt+Shift+ArrowLeft"], run: (editor) => walk(editor, -1, 0, true) },
  { keys: ["Alt+Shift+ArrowRight"], run: (editor) => walk(editor, 1, 0, true) },
  { keys: ["Alt+Shift+ArrowUp"], run: (editor) => walk(editor, 0, -1, true) },
  { keys: ["Alt+Shift+ArrowDown"], run: (editor) => walk(editor, 0, 1, true) },
  { keys: ["Mod+ArrowLeft"], run: (editor) => resizeFrames(editor, -STEP, 0) },
  { keys: ["Mod+ArrowRight"], run: (editor) => resizeFrames(editor, STEP, 0) },
  { keys: ["Mod+ArrowUp"], run: (editor) => resizeFrames(editor, 0, -STEP) },
  { keys: ["Mod+ArrowDown"], run: (editor) => resizeFrames(editor, 0, STEP) },
  { keys: ["f"], run: (editor) => editor.viewport?.fit() },
  { keys: ["+", "="], run: (editor) => editor.viewport?.zoom(ZOOM) },
  { keys: ["-"], run: (editor) => editor.viewport?.zoom(1 / ZOOM) },
  { keys: ["PageUp"], run: (editor) => editor.viewport?.pan(0, -PAGE) },
  { keys: ["PageDown"], run: (editor) => editor.viewport?.pan(0, PAGE) },
  { keys: ["Shift+PageUp"], run: (editor) => editor.viewport?.pan(-PAGE, 0) },
  { keys: ["Shift+PageDown"], run: (editor) => editor.viewport?.pan(PAGE, 0) },
  { keys: ["Shift+a"], run: (editor) => editor.arrange() },
  { keys: ["Shift+r"], run: (editor) => editor.arrange("right") },
  { keys: ["/"], run: (_, focusSearch) => focusSearch() },
  { keys: ["ArrowLeft"], run: (editor) => step(editor, -STEP, 0) },
  { keys: ["ArrowRight"], run: (editor) => step(editor, STEP, 0) },
  { keys: ["ArrowUp"], run: (editor) => step(editor, 0, -STEP) },
  { keys: ["ArrowDown"], run: (editor) => step(editor, 0, STEP) },
  { keys: ["Shift+ArrowLeft"], run: (editor) => editor.nudge(-LEAP, 0) },
  { keys: ["Shift+ArrowRight"], run: (editor) => editor.nudge(LEAP, 0) },
  { keys: ["Shift+ArrowUp"], run: (editor) => editor.nudge(0, -LEAP) },
  { keys: ["Shift+ArrowDown"], run: (editor) => editor.nudge(0, LEAP) },
];

/** Distance of a nudge, in the canvas's pixels. */
const STEP = 8;
const LEAP = 64;
const ZOOM = 1.25;
/** How much of the view a page is. */
const PAGE = 0.6;

const BY_KEY = new Map(COMMANDS.flatMap((command) => command.keys.map((key) => [key, command] as const)));

export function keyName(event: KeyboardEvent): string {
  const mod = event.ctrlKey || event.metaKey ? "Mod+" : "";
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // Shift is part of what a printable character is, but for letters.
  const shift = event.shiftKey && (event.key.length > 1 || /[a-z]/.test(key)) ? "Shift+" : "";
  return `${mod}${event.altKey ? "Alt+" : ""}${shift}${key}`;
}

/** Handles a key pressed somewhere in the editor. */
export function onKeyDown(event: KeyboardEvent, editor: Editor, root: HTMLElement, focusSearch: () => void): void {
  if (event.defaultPrevented) return;
  const name = keyName(event);
  if (name === "Mod+s") handToPage(event, root);
  else if (isTyping(event.composedPath()[0])) return;
  else if (name === "Escape") stepBack(editor, root);
  else if (name === "Tab" && editor.byPointer && isCanvas(event.composedPath()[0])) {
    // After a click, Tab is for adding; who came by keyboard goes on by keyboard.
    event.preventDefault();
    openPalette(editor, editor.pointer);
  } else {
    const command = BY_KEY.get(name);
    // Enter and the space bar press the button that has the focus.
    if (!command || (/^( |Enter)$/.test(name) && !isCanvas(event.composedPath()[0]))) return;
    event.preventDefault();
    command.run(editor, focusSearch, root);
  }
}

function isTyping(target: EventTarget | undefined): boolean {
  return target instanceof Element && target.closest("input, select, textarea, pre") !== null;
}

function isCanvas(target: EventTarget | undefined): boolean {
  return target instanceof Element && target.closest(".pnne-canvas") !== null && target.closest("button, a") === null;
}

/** Moves what is selected; with nothing selected, goes to the first node. */
function step(editor: Editor, dx: number, dy: number): void {
  const { nodes, frames } = editor.view.get();
  if (nodes.size + frames.size > 0) editor.nudge(dx, dy);
  else walk(editor, Math.sign(dx), Math.sign(dy));
}

/** Opens the search for a type to add: into the selected edge, else where the pointer is. */
function addHere(editor: Editor): void {
  const { nodes, edges } = editor.view.get();
  if (nodes.size === 0 && edges.size === 1) addIntoEdge(editor);
  else openPalette(editor, editor.pointer);
}

/** Enters the selected block, or goes to the selected node's properties. */
function open(editor: Editor, _focusSearch: () => void, root: HTMLElement): void {
  const name = editor.only();
  if (editor.view.get().nodes.size === 0 && editor.view.get().frames.size === 1) editFrame(editor);
  if (name === null) return;
  const node = editor.scene()?.graph.nodes.get(name);
  if (node && definitionOf(node) !== null) editor.enter([...editor.view.get().path, name]);
  else {
    editor.showPanel("properties", true);
    requestAnimationFrame(() => root.querySelector<HTMLElement>(".pnne-properties [data-property]")?.focus());
  }
}

/** Steps back: out of the selection, then out of the nested graph, then back to the notebook. */
function stepBack(editor: Editor, root: HTMLElement): void {
  const view = editor.view.get();
  if (view.peek !== null) editor.patch({ peek: null });
  else if (view.nodes.size + view.edges.size + view.frames.size > 0) editor.select([]);
  else if (view.path.length > 0) editor.enter(view.path.slice(0, -1));
  else {
    editor.patch({ active: false });
    const outside = root.parentElement?.closest<HTMLElement>("[tabindex]");
    (document.activeElement as HTMLElement | null)?.blur();
    outside?.focus({ preventScroll: true });
  }
}

/** Jupyter is told not to listen in here; saving the notebook must work all the same. */
function handToPage(event: KeyboardEvent, root: HTMLElement): void {
  const copy = new KeyboardEvent("keydown", {
    key: event.key,
    code: event.code,
    ctrlKey: event.ctrlKey,
    metaKey: event.metaKey,
    shiftKey: event.shiftKey,
    bubbles: true,
    cancelable: true,
  });
  // Lumino's key map still goes by the deprecated number.
  Object.defineProperty(copy, "keyCode", { value: event.keyCode });
  const outside = root.parentElement?.closest(".jp-Notebook, .jp-NotebookPanel") ?? document.body;
  event.stopPropagation();
  if (!outside.dispatchEvent(copy)) event.preventDefault();
}
