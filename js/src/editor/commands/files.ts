import type { DocumentState, Json, Op } from "../../protocol";
import { discardOps } from "../document/definitions";
import { fromState, type GraphDocument, toState } from "../document/document";
import { fragmentOf, pasteOps } from "../document/fragment";
import { applyOps } from "../document/reduce";
import { download } from "../host/download";
import { formulaOf, numberOf } from "../values/calculate";
import type { Editor } from "./editor";

/** Saves the whole graph as a file, also while the kernel is gone. */
export function saveFile(editor: Editor): void {
  const { document } = editor.session;
  if (document) saveDocument(document, document.name || "graph");
}

/** Saves a document as a graph file. */
export function saveDocument(document: GraphDocument, name: string): void {
  download(new Blob([textOf(document)], { type: "application/json" }), `${name}.pnne.json`);
}

function textOf(document: GraphDocument): string {
  return JSON.stringify(toState(document), null, 2);
}

/** Puts a text on the clipboard; says so where the browser does not let it. */
export async function copyText(editor: Editor, text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    editor.session.notify("The browser does not let this page use the clipboard; select the text and copy it.");
    return false;
  }
}

/** Copies the whole graph as the text of such a file. */
export async function copyDocument(editor: Editor): Promise<void> {
  const { document } = editor.session;
  if (document && (await copyText(editor, textOf(document))))
    editor.session.notify("The graph is on the clipboard; save it as a .pnne.json file.");
}

/** Lets the person choose a graph file, which takes the place of the graph. */
export function openFile(editor: Editor): void {
  if (!editor.session.isLocked()) chooseFile((file) => void takeFile(editor, file));
}

/** Lets the person choose a graph file. */
export function chooseFile(take: (file: File) => void): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".json";
  input.addEventListener("change", () => {
    const [file] = input.files ?? [];
    if (file) take(file);
  });
  input.click();
}

/** Takes in a chosen or dropped file: as the whole graph, as one edit that Undo takes back. No code in it is run. */
export async function takeFile(editor: Editor, file: Pick<File, "name" | "text">): Promise<void> {
  if (editor.session.isLocked()) return;
  try {
    openDocument(editor, JSON.parse(await file.text()));
  } catch (error) {
    const reason = reasonOf(error);
    editor.session.notify(
      `${file.name} was not opened: ${reason}. Choose a .pnne.json file, as “Save as a graph file” writes it. The graph is as it was.`,
    );
  }
}

const FORMAT_VERSION = 1;

function reasonOf(error: unknown): string {
  if (error instanceof SyntaxError) return "it is not JSON";
  // What is missing or of another kind is found where it is used.
  if (error instanceof TypeError) return "its parts are not those of a graph";
  return error instanceof Error ? error.message.replace(/\.$/, "") : String(error);
}

function openDocument(editor: Editor, state: DocumentState): void {
  const before = editor.session.document;
  if (!before) return;
  if (state?.format !== "pnne-graph" || typeof state.graphs !== "object" || state.graphs === null)
    throw new Error("it does not say that it is a pnne-graph");
  if (state.formatVersion !== FORMAT_VERSION)
    throw new Error(`its format version is ${state.formatVersion}, and this editor reads ${FORMAT_VERSION}`);
  if (!Object.hasOwn(state.graphs, "")) throw new Error("there is no graph in it");
  const opened = fromState(state);
  const root = opened.graphs.get("");
  const old = before.graphs.get("");
  if (!root || !old) return;
  const removal: Op[] = [
    ...[...old.nodes.keys()].map((name): Op => ({ op: "removeNode", name, graph: "" })),
    ...[...old.frames.keys()].map((name): Op => ({ op: "removeFrame", name, graph: "" })),
    ...discardOps(before, [...old.nodes.values()]),
  ];
  const all = fragmentOf(opened, root, new Set(root.nodes.keys()), new Set(root.frames.keys()));
  const given = Object.entries(opened.sizes ?? {});
  const size = (name: string, value: Json): Op => ({ op: "setSize", name, value });
  // All of them are numbers first: a calculation may have any of the others.
  const sizes = [
    ...Object.keys(before.sizes ?? {}).map((name) => size(name, null)),
    ...given.map(([name, value]) => size(name, numberOf(value))),
    ...given.filter(([, value]) => formulaOf(value)).map(([name, value]) => size(name, value)),
  ];
  const { ops } = pasteOps(all, applyOps(before, removal), "", [0, 0]);
  const name = typeof state.name === "string" && state.name !== "" ? state.name : before.name;
  const renaming: Op[] = name === before.name ? [] : [{ op: "renameDocument", name }];
  const made = [...removal, ...sizes, ...ops, ...renaming];
  // Errors of the reducer are reported before anything changes.
  applyOps(before, made);
  editor.enter([]);
  editor.edit(made, `Open ${name}`);
  editor.viewport?.fit();
}
