import { Editor } from "../src/editor/commands/editor";
import { Session } from "../src/editor/session/session";
import type { DocumentState, Edit, GraphState, NodeState, Op, Port } from "../src/protocol";
import { FakeModel } from "./fakeModel";

const one = (name: string): Port => ({ name });
const TYPES = [
  { type: "Input", kind: "structural", category: 0, outputs: [{ name: "output", kind: "value" }] },
  { type: "Output", kind: "structural", category: 0, inputs: [{ name: "input", kind: "value" }] },
  { type: "ReLU", kind: "module", category: 0, inputs: [one("input")], outputs: [one("output")] },
  { type: "GELU", kind: "module", category: 0, inputs: [one("input")], outputs: [one("output")] },
  {
    type: "Linear",
    kind: "module",
    category: 0,
    inputs: [one("input")],
    outputs: [one("output")],
    properties: [0, 1, 2],
  },
  { type: "Subgraph", kind: "structural", category: 0, properties: [2] },
  {
    type: "LazyLinear",
    kind: "module",
    category: 0,
    inputs: [one("input")],
    outputs: [one("output")],
    properties: [0],
  },
  { type: "add", kind: "function", category: 0, inputs: [one("input"), one("other")], outputs: [one("output")] },
] as const;

/** An editor without a page. */
export interface Opened {
  readonly editor: Editor;
  readonly model: FakeModel;
  /** The edits that were sent to Python. */
  edits(): Edit[];
  /** The edges as shown. */
  edges(): string[];
  /** Python, or another view, changes the graph; `again` is its new whole. */
  replace(again: GraphState): void;
  notices(): string[];
}

/** Opens an editor over a root graph, and definitions that its blocks show. */
export function openEditor(graph: GraphState, definitions: Record<string, GraphState> = {}): Opened {
  const model = new FakeModel();
  let version = 1;
  const snapshot = (state: GraphState) => ({
    message: "snapshot" as const,
    version: version++,
    document: JSON.stringify(documentOf({ "": state, ...definitions })),
    derived: { shapes: {}, resolved: {}, diagnostics: {}, costs: {}, example: {} },
    history: { undo: null, redo: null },
    id: null,
    client: null,
  });
  model.traits.set("snapshot", snapshot(graph));
  const editor = new Editor(new Session(model));
  model.receive({
    message: "catalog",
    key: "test",
    categories: [],
    properties: [
      { name: "out_features", type: { type: "int", minimum: 1 }, default: null },
      { name: "bias", type: { type: "bool" }, default: true },
      { name: "trainable", type: { type: "bool" }, default: true, role: "node" },
    ],
    types: TYPES,
    templates: { format: "pnne-graph", formatVersion: 1, name: "templates", graphs: {} },
    id: 0,
    client: "",
  } as never);
  const root = () => editor.session.document?.graphs.get("");
  return {
    editor,
    model,
    edits: () => model.sent.filter((request): request is Edit => request.message === "edit"),
    edges: () => [...(root()?.edges.values() ?? [])].map(({ source, target }) => `${source} -> ${target}`),
    replace: (again) => model.receive(snapshot(again)),
    notices: () => editor.session.store.get().notices.map(({ text }) => text),
  };
}

export function node(name: string, type: string, position: [number, number], properties: NodeState["properties"] = {}) {
  return { name, type, properties, position, origin: null } satisfies NodeState;
}

/** The state of a document with these graphs. */
export function documentOf(graphs: Record<string, GraphState>): DocumentState {
  return { format: "pnne-graph", formatVersion: 1, name: "net", graphs };
}

/** A chain from top to bottom, 120 pixels apart, under the names of `"name type"`. */
export function chain(...parts: string[]): GraphState {
  const named = parts.map((part) => part.split(" ") as [string, string]);
  return {
    nodes: named.map(([name, type], place) => node(name, type, [0, 120 * place])),
    edges: named.slice(1).map(([name], place) => ({ source: `${named[place]?.[0]}.output`, target: `${name}.input` })),
  };
}

export function opsOf(edit: Edit | undefined): readonly Op[] {
  return edit?.ops ?? [];
}
