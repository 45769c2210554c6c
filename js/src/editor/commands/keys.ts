import { definitionOf } from "../document/definitions";
import { group, ungroup } from "./blocks";
import { copy, cut, duplicate, paste } from "./clipboard";
import type { Editor } from "./editor";
import { openFile, saveFile } from "./files";
import { toggleFolded, toggleValues } from "./folding";
import { addFrame, editFrame, resizeFrames, toggleCollapsed } from "./framing";
import {
  ablate,
  addIntoEdge,
  addReroute,
  areFrozen,
  freeze,
  openConnect,
  openEdges,
  openFind,
  openPalette,
  openReconnect,
  openTypes,
  replaceHead,
  togglePeek,
  walk,
} from "./gestures";
import { editInline, renameOnCard } from "./inline";
import { openMenu } from "./menu";
import { closeLevel, enterBlock, leaveBlock, toggleOpened } from "./opened";
import { runToHere } from "./runToHere";
import { armStroke, endStroke } from "./stroke";

type Run = (editor: Editor, focusSearch: () => void) => void;

/** One command: its keys, as `Mod+Shift+z` (Mod is Ctrl, or Cmd on a Mac), and what the menu and the list of keys call it. */
export interface Command {
  readonly keys: readonly string[];
  readonly what: string;
  /** The same in the menu, where it depends on the selection. */
  readonly does?: (editor: Editor) => string;
  readonly run: Run;
  /** Whether it is switched on; for a command that switches something on and off. */
  readonly isOn?: (editor: Editor) => boolean;
}

/** Distance of a nudge, in the canvas's pixels. */
const STEP = 8;
const LEAP = 64;
const ZOOM = 1.25;
/** How much of the view a page is. */
const PAGE = 0.6;

const ARROWS = [
  ["ArrowLeft", -1, 0],
  ["ArrowRight", 1, 0],
  ["ArrowUp", 0, -1],
  ["ArrowDown", 0, 1],
] as const;
const WAYS = ["left", "right", "up", "down"];
const PLACES = ["at the left", "at the right", "above", "below"];
const SIZES = ["narrower", "wider", "lower", "higher"];

/** The commands of the four arrow keys with a modifier; each has its word in the place of the star. */
function arrows(
  modifier: string,
  what: string,
  words: readonly string[],
  run: (editor: Editor, x: number, y: number) => void,
): Command[] {
  return ARROWS.map(([key, x, y], way) => ({
    keys: [modifier + key],
    what: what.replace("*", words[way] as string),
    run: (editor) => run(editor, x, y),
  }));
}

/** All commands, in the groups of the list of keys. */
export const COMMANDS: Readonly<Record<string, readonly Command[]>> = {
  Edit: [
    { keys: ["Mod+z"], what: "Undo", run: (editor) => editor.session.undo() },
    { keys: ["Mod+Shift+z", "Mod+y"], what: "Redo", run: (editor) => editor.session.redo() },
    { keys: ["z"], what: "Show the history", run: (editor) => editor.patch({ history: !editor.view.get().history }) },
    { keys: ["Mod+c"], what: "Copy", run: (editor) => void copy(editor) },
    { keys: ["Mod+x"], what: "Cut", run: (editor) => void cut(editor) },
    { keys: ["Mod+v"], what: "Paste", run: (editor) => void paste(editor) },
    { keys: ["Mod+Shift+v"], what: "Paste with the incoming edges", run: (editor) => void paste(editor, true) },
    { keys: ["Mod+d"], what: "Duplicate", run: duplicate },
    { keys: ["Delete", "Backspace"], what: "Delete", run: (editor) => editor.deleteSelection() },
    {
      keys: ["Shift+Delete", "Shift+Backspace"],
      what: "Delete and close the gap",
      run: (editor) => editor.deleteSelection(true),
    },
    { keys: ["Mod+o"], what: "Open a graph file…", run: openFile },
    { keys: ["Mod+Shift+s"], what: "Save as a graph file", run: saveFile },
    {
      keys: ["Shift+e"],
      what: "Export…",
      run: (editor) => editor.showPanel("exporting", !editor.view.get().exporting),
    },
  ],
  Nodes: [
    { keys: [" "], what: "Add a node…", run: addHere },
    { keys: ["/"], what: "Search the palette", run: (_, focusSearch) => focusSearch() },
    { keys: ["F2"], what: "Rename", run: (editor) => renameOnCard(editor) },
    { keys: ["v"], what: "Edit values on the card", run: (editor) => editInline(editor) },
    { keys: ["t"], what: "Change the type…", run: openTypes },
    { keys: ["Enter"], what: "Open the block or the properties", run: open },
    { keys: ["o"], what: "Open the block in place, or close it", run: (editor) => toggleOpened(editor) },
    { keys: ["Shift+o"], what: "Close the innermost open blocks", run: closeLevel },
    { keys: ["p"], what: "Look inside the block", run: (editor) => togglePeek(editor) },
    { keys: ["i"], what: "Run to here: see the tensor", run: runToHere },
    { keys: ["h"], what: "Collapse or expand the card", run: (editor) => toggleCollapsed(editor) },
    { keys: ["x"], what: "Fold or unfold what repeats in a row, or steps", run: (editor) => toggleFolded(editor) },
    { keys: ["b"], what: "Bypass, or run again", run: (editor) => ablate(editor, "bypass") },
    { keys: ["Shift+b"], what: "Give zeros instead, or run again", run: (editor) => ablate(editor, "zeros") },
    {
      keys: ["l"],
      what: "Freeze the weights, or train them again",
      does: (editor) => (areFrozen(editor) ? "Train the weights again" : "Freeze the weights"),
      run: freeze,
    },
    { keys: ["n"], what: "Replace the head…", run: replaceHead },
    { keys: ["Mod+g"], what: "Group into a block", run: group },
    { keys: ["Mod+Shift+g"], what: "Ungroup the block", run: ungroup },
    { keys: ["Shift+g"], what: "Put a frame around", run: addFrame },
  ],
  Edges: [
    { keys: ["c"], what: "Connect with…", run: openConnect },
    { keys: ["e"], what: "List the edges of the node…", run: openEdges },
    { keys: ["r"], what: "Take the edge elsewhere…", run: openReconnect },
    { keys: ["w"], what: "Lead the edge through a point", run: (editor) => addReroute(editor) },
    { keys: ["k"], what: "Cut edges by a stroke", run: armStroke },
  ],
  "Select and go": [
    { keys: ["Mod+a"], what: "Select all", run: (editor) => editor.selectAll() },
    { keys: ["Shift+t"], what: "Select all of its type", run: (editor) => editor.selectAlike() },
    { keys: ["Mod+f"], what: "Find a node or frame…", run: openFind },
    ...arrows("Alt+", "Go to the node *", PLACES, walk),
    ...arrows("Alt+Shift+", "Add the node * to the selection", PLACES, (editor, x, y) => walk(editor, x, y, true)),
    { keys: ["ContextMenu", "Shift+F10"], what: "Open the menu", run: (editor) => openMenu(editor) },
    { keys: ["?"], what: "Show all keys", run: (editor) => editor.patch({ sheet: true }) },
  ],
  Place: [
    ...arrows("", "Move *", WAYS, step),
    ...arrows("Shift+", "Move far *", WAYS, (editor, x, y) => editor.nudge(LEAP * x, LEAP * y)),
    ...arrows("Mod+", "Make the frame *", SIZES, (editor, x, y) => resizeFrames(editor, STEP * x, STEP * y)),
    { keys: ["a"], what: "Arrange the graph, or what is selected, to fit", run: (editor) => editor.arrange() },
    { keys: ["Shift+a"], what: "Arrange from top to bottom", run: (editor) => editor.arrange("down") },
    { keys: ["Shift+c"], what: "Arrange in columns", run: (editor) => editor.arrange("columns") },
    { keys: ["Shift+r"], what: "Arrange from left to right", run: (editor) => editor.arrange("right") },
  ],
  View: [
    { keys: ["Shift+x"], what: "Draw sizes, constants and single steps as cards, or write them", run: toggleValues },
    { keys: ["f"], what: "Fit the graph", run: (editor) => editor.viewport?.fit() },
    { keys: ["Shift+f"], what: "Fit the selection", run: (editor) => editor.viewport?.fit(editor.chosen()) },
    { keys: ["0"], what: "Zoom to 100 %", run: (editor) => editor.viewport?.zoomTo(1) },
    { keys: ["+", "="], what: "Zoom in", run: (editor) => editor.viewport?.zoom(ZOOM) },
    { keys: ["-"], what: "Zoom out", run: (editor) => editor.viewport?.zoom(1 / ZOOM) },
    {
      keys: ["s"],
      what: "Drag over the canvas to select",
      run: (editor) => toggle(editor, "dragSelects"),
      isOn: (editor) => editor.view.get().dragSelects,
    },
    {
      keys: ["Shift+z"],
      what: "Zoom into blocks to open them",
      run: (editor) => toggle(editor, "zoomOpens"),
      isOn: (editor) => editor.view.get().zoomOpens,
    },
    { keys: ["PageUp"], what: "Pan up", run: (editor) => editor.viewport?.pan(0, -PAGE) },
    { keys: ["PageDown"], what: "Pan down", run: (editor) => editor.viewport?.pan(0, PAGE) },
    { keys: ["Shift+PageUp"], what: "Pan left", run: (editor) => editor.viewport?.pan(-PAGE, 0) },
    { keys: ["Shift+PageDown"], what: "Pan right", run: (editor) => editor.viewport?.pan(PAGE, 0) },
  ],
};

const OPTIONS = {
  dragSelects: ["A drag over the canvas selects", "A drag over the canvas moves the view"],
  zoomOpens: ["Zooming into a block opens it", "Zooming leaves blocks as they are"],
} as const;

function toggle(editor: Editor, option: keyof typeof OPTIONS): void {
  const isOn = !editor.view.get()[option];
  const [on, off] = OPTIONS[option];
  editor.patch({ [option]: isOn, said: isOn ? on : off });
}

export const BY_KEY: ReadonlyMap<string, Command> = new Map(
  Object.values(COMMANDS)
    .flat()
    .flatMap((command) => command.keys.map((key) => [key, command] as const)),
);

const SHOWN: Readonly<Record<string, string>> = {
  Mod: "Ctrl",
  " ": "Space",
  Delete: "Del",
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  ContextMenu: "Menu",
};

/** A key as people know it: `Ctrl+Shift+Z`. */
export function keyText(key: string): string {
  if (key === "+" || key === "-") return key;
  const parts = key.split("+");
  return parts.map((part) => SHOWN[part] ?? (part.length === 1 ? part.toUpperCase() : part)).join("+");
}

function keyName(event: KeyboardEvent): string {
  const mod = event.ctrlKey || event.metaKey ? "Mod+" : "";
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // Shift is part of what a printable character is, but for letters.
  const shift = event.shiftKey && (event.key.length > 1 || /[a-z]/.test(key)) ? "Shift+" : "";
  return `${mod}${event.altKey ? "Alt+" : ""}${shift}${key}`;
}

export function onKeyDown(event: KeyboardEvent, editor: Editor, focusSearch: () => void): void {
  if (event.defaultPrevented) return;
  const name = keyName(event);
  if (name !== "Escape" && editor.view.get().keys !== "here") editor.patch({ keys: "here" });
  if (name === "Mod+s") handToPage(event, editor);
  else if (isTyping(event.composedPath()[0])) return;
  else if (name === "Escape") event.repeat || stepBack(editor);
  else if (name === "Tab" && editor.byPointer && isCanvas(event.composedPath()[0])) {
    // After a click, Tab is for adding; who came by keyboard goes on by keyboard.
    event.preventDefault();
    openPalette(editor, null);
  } else {
    const command = BY_KEY.get(name);
    // Enter and the space bar press the button that has the focus.
    if (!command || (/^( |Enter)$/.test(name) && !isCanvas(event.composedPath()[0]))) return;
    event.preventDefault();
    command.run(editor, focusSearch);
  }
}

function isTyping(target: EventTarget | undefined): boolean {
  return target instanceof Element && target.closest("input, select, textarea, pre") !== null;
}

function isCanvas(target: EventTarget | undefined): boolean {
  return target instanceof Element && target.closest(".pnne-canvas") !== null && target.closest("button, a") === null;
}

/** Moves the selection; without one, goes to the first node. */
function step(editor: Editor, x: number, y: number): void {
  const { nodes, frames } = editor.view.get();
  if (nodes.size + frames.size > 0) editor.nudge(STEP * x, STEP * y);
  else walk(editor, x, y);
}

/** Opens the search for a type to add: into the selected edge, else where the pointer is. */
function addHere(editor: Editor): void {
  const { nodes, edges } = editor.view.get();
  if (nodes.size === 0 && edges.size === 1) addIntoEdge(editor);
  else openPalette(editor, null);
}

/** Enters the selected block, or goes to the selected node's properties. */
function open(editor: Editor): void {
  const name = editor.only();
  if (editor.view.get().nodes.size === 0 && editor.view.get().frames.size === 1) editFrame(editor);
  if (name === null) return;
  const node = editor.scene()?.graph.nodes.get(name);
  if (node && definitionOf(node) !== null) enterBlock(editor, name);
  else {
    editor.showPanel("properties", true);
    requestAnimationFrame(() => editor.root?.querySelector<HTMLElement>(".pnne-properties [data-property]")?.focus());
  }
}

/**
 * Steps back: out of the selection, then out of the nested graph, then back to the notebook.
 *
 * The last step is announced and takes one more Escape: in the notebook, single letters cut and delete cells.
 */
export function stepBack(editor: Editor): void {
  const view = editor.view.get();
  if (view.stroke !== null) endStroke(editor, false);
  else if (view.peek !== null) editor.patch({ peek: null });
  else if (view.seen !== null) editor.patch({ seen: null });
  else if (view.history) editor.patch({ history: false });
  else if (view.nodes.size + view.elsewhere.size + view.edges.size + view.frames.size > 0) editor.select([]);
  else if (view.path.length > 0) leaveBlock(editor);
  else if (view.keys === "here") editor.patch({ keys: "leaving" });
  else {
    editor.patch({ active: false, keys: "left" });
    const outside = editor.root?.parentElement?.closest<HTMLElement>("[tabindex]");
    (document.activeElement as HTMLElement | null)?.blur();
    outside?.focus({ preventScroll: true });
  }
}

/** Jupyter does not receive keys in the editor, but saving the notebook must still work. */
function handToPage(event: KeyboardEvent, { root }: Editor): void {
  const copy = new KeyboardEvent("keydown", {
    key: event.key,
    code: event.code,
    ctrlKey: event.ctrlKey,
    metaKey: event.metaKey,
    shiftKey: event.shiftKey,
    bubbles: true,
    cancelable: true,
  });
  // Lumino's key map still uses the deprecated key code.
  Object.defineProperty(copy, "keyCode", { value: event.keyCode });
  const outside = root?.parentElement?.closest(".jp-Notebook, .jp-NotebookPanel") ?? document.body;
  event.stopPropagation();
  if (!outside.dispatchEvent(copy)) event.preventDefault();
}
