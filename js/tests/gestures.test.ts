import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { copy, dropCopy, paste } from "../src/editor/commands/clipboard";
import type { Viewport } from "../src/editor/commands/editor";
import { takeFile } from "../src/editor/commands/files";
import { changeType as changeTypes } from "../src/editor/commands/gestures";
import { BY_KEY, COMMANDS, keyText } from "../src/editor/commands/keys";
import { menuFor, openMenu } from "../src/editor/commands/menu";
import type { Graph } from "../src/editor/document/document";
import { fragmentOf } from "../src/editor/document/fragment";
import { copyName } from "../src/editor/document/names";
import { chain, node, type Opened, openEditor, opsOf } from "./openEditor";

const graphOf = ({ editor }: Opened) => editor.scene()?.graph as Graph;
const changeType = (editor: Opened["editor"], name: string, type: string) => {
  editor.select([name]);
  changeTypes(editor, editor.located(), type);
};
const names = (opened: Opened) => [...graphOf(opened).nodes.keys()];

test("each key means one thing, and docs/gestures.md has a row for each", () => {
  const all = Object.values(COMMANDS).flat();
  expect(BY_KEY.size).toBe(all.flatMap(({ keys }) => keys).length);
  const page = readFileSync(new URL("../../docs/gestures.md", import.meta.url), "utf8");
  const rows = page.split("\n").filter((line) => line.startsWith("| "));
  for (const { keys, what } of all) {
    const row = rows.find((line) => line.includes(`| ${what.replace("…", "")} |`));
    expect(row, what).toBeDefined();
    for (const key of keys) expect(row, what).toContain(`\`${keyText(key)}\``);
  }
});

test("the type of a node changes in place: its name, place, edges and the values that fit stay", () => {
  const graph = chain("x Input", "fc Linear", "act ReLU");
  const fc = node("fc", "Linear", [7, 120], { out_features: 8, bias: false });
  const opened = openEditor({ ...graph, nodes: (graph.nodes ?? []).map((old) => (old.name === "fc" ? fc : old)) });
  changeType(opened.editor, "fc", "LazyLinear");
  expect(opened.edits().map(({ label }) => label)).toEqual(["Change fc to LazyLinear"]);
  expect(names(opened)).toEqual(["x", "fc", "act"]);
  expect(graphOf(opened).nodes.get("fc")).toMatchObject({
    type: "LazyLinear",
    position: [7, 120],
    properties: { out_features: 8 },
  });
  expect(graphOf(opened).nodes.get("fc")?.properties).not.toHaveProperty("bias");
  expect(opened.edges().sort()).toEqual(["fc.output -> act.input", "x.output -> fc.input"]);
});

test("a type change that would lose an edge changes nothing and names the edge", () => {
  const graph = chain("x Input", "sum add", "act ReLU");
  const opened = openEditor({ ...graph, edges: [...(graph.edges ?? []), { source: "x.output", target: "sum.other" }] });
  changeType(opened.editor, "sum", "ReLU");
  expect(opened.edits()).toEqual([]);
  expect(opened.notices()).toEqual([
    "sum keeps its type add: ReLU has no port for x.output → sum.other. Disconnect it first.",
  ]);
});

test("a type change is refused where weights are shared, and for inputs of the graph", () => {
  const opened = openEditor({
    nodes: [node("x", "Input", [0, 0]), node("a", "Linear", [0, 120]), node("b", "Linear", [0, 240], { shares: "a" })],
  });
  changeType(opened.editor, "a", "ReLU");
  changeType(opened.editor, "b", "ReLU");
  changeType(opened.editor, "x", "ReLU");
  expect(opened.edits()).toEqual([]);
  expect(opened.notices()).toEqual([
    "a keeps its type Linear: b shares its weights.",
    "b keeps its type Linear: it shares weights of another node.",
    "x cannot become a ReLU: an Input or Output stays what it is.",
  ]);
});

test.each([
  ["encoder", ["encoder"], "encoder2"],
  ["fc1", ["fc1"], "fc2"],
  ["fc1", ["fc1", "fc2"], "fc3"],
  ["fc2", [], "fc2"],
  ["block_9", ["block_9"], "block_10"],
  ["v1234567890", ["v1234567890"], "v1234_567891"],
])("a copy of %s among %j is called %s", (name, taken, expected) => {
  expect(copyName(name, new Set(taken))).toBe(expected);
});

const VIEW = {
  at: (x: number, y: number) => [x, y],
  reveal: () => undefined,
  fit: () => undefined,
  centre: () => [0, 0],
};

function withClipboard(opened: Opened, ...chosen: string[]): void {
  const { editor } = opened;
  const fragment = fragmentOf(editor.session.document as never, graphOf(opened), new Set(chosen), new Set());
  vi.stubGlobal("navigator", { clipboard: { readText: async () => JSON.stringify(fragment) } });
  editor.viewport = VIEW as unknown as Viewport;
}

test("what is pasted stands at the pointer, and keeps what fed it if asked to", async () => {
  const opened = openEditor(chain("x Input", "a ReLU", "b ReLU"));
  withClipboard(opened, "a", "b");
  opened.editor.pointer = [500, 300];
  await paste(opened.editor);
  expect(names(opened)).toEqual(["x", "a", "b", "a2", "b2"]);
  expect(graphOf(opened).nodes.get("a2")?.position).toEqual([500, 240]);
  expect(graphOf(opened).nodes.get("b2")?.position).toEqual([500, 360]);
  expect(opened.edges()).not.toContain("x.output -> a2.input");
  await paste(opened.editor, true);
  expect(opened.edges()).toContain("x.output -> a3.input");
  expect(opened.edits()).toHaveLength(2);
  // Nor does a second copy at the same place cover the first.
  expect(graphOf(opened).nodes.get("a3")?.position).toEqual([532, 288]);
  // At the original, a copy stands beside it.
  opened.editor.pointer = [10, 170];
  await paste(opened.editor);
  expect(graphOf(opened).nodes.get("a4")?.position).toEqual([32, 168]);
  vi.unstubAllGlobals();
});

test("foreign text is not pasted, and what was copied before it does not take its place", async () => {
  const opened = openEditor(chain("x Input", "a ReLU"));
  let text = "";
  const clipboard = {
    readText: async () => text,
    writeText: async (written: string): Promise<void> => {
      text = written;
    },
  };
  vi.stubGlobal("navigator", { clipboard });
  await paste(opened.editor);
  opened.editor.select(["a"]);
  await copy(opened.editor);
  text = "some words";
  await paste(opened.editor);
  expect(opened.edits()).toEqual([]);
  expect(opened.notices()).toEqual([
    "There is nothing to paste: copy nodes first.",
    "What is on the clipboard cannot be pasted: it is no part of a graph. Copy nodes in an editor first.",
  ]);
  // A page that may not write to the clipboard has the copy all the same.
  clipboard.writeText = () => Promise.reject(new Error("not allowed"));
  await copy(opened.editor);
  await paste(opened.editor);
  expect(names(opened)).toEqual(["x", "a", "a2"]);
  vi.unstubAllGlobals();
});

test("a drag with Alt leaves the original and drops a copy, as one edit", () => {
  const opened = openEditor(chain("x Input", "a ReLU"));
  opened.editor.select(["a"]);
  opened.editor.patch({ moving: new Map([["a", [200, 150]]]) });
  dropCopy(opened.editor);
  expect(graphOf(opened).nodes.get("a")?.position).toEqual([0, 120]);
  expect(graphOf(opened).nodes.get("a2")?.position).toEqual([200, 150]);
  expect(opened.edits().map(({ label }) => label)).toEqual(["Duplicate a2"]);
  expect([...opened.editor.view.get().nodes]).toEqual(["a2"]);
  expect(opened.editor.view.get().moving.size).toBe(0);
});

const file = (name: string, content: unknown) => ({
  name,
  text: async () => (typeof content === "string" ? content : JSON.stringify(content)),
});

test("a graph file takes the place of the graph in one edit, with its name", async () => {
  const opened = openEditor({ ...chain("x Input", "a ReLU"), frames: [{ name: "frame1", box: [0, 0, 100, 100] }] });
  const block = { name: "deep", type: "Subgraph", properties: { definition: "inner" }, position: [0, 0] };
  const graphs = { "": { nodes: [block] }, inner: chain("y Input", "z ReLU") };
  await takeFile(
    opened.editor,
    file("other.pnne.json", { format: "pnne-graph", formatVersion: 1, name: "other", graphs }),
  );
  expect(opened.notices()).toEqual([]);
  expect(names(opened)).toEqual(["deep"]);
  expect(graphOf(opened).frames.size).toBe(0);
  expect(opened.editor.session.document?.name).toBe("other");
  expect(opened.editor.session.document?.graphs.get("inner")?.nodes.size).toBe(2);
  expect(opened.edits().map(({ label }) => label)).toEqual(["Open other"]);
});

test.each([
  ["not JSON {", "it is not JSON"],
  ["[]", "it does not say that it is a pnne-graph"],
  [{ format: "other" }, "it does not say that it is a pnne-graph"],
  [{ format: "pnne-graph", formatVersion: 2, graphs: { "": {} } }, "its format version is 2, and this editor reads 1"],
  [{ format: "pnne-graph", formatVersion: 1, graphs: {} }, "there is no graph in it"],
  [{ format: "pnne-graph", formatVersion: 1, graphs: { "": { nodes: 3 } } }, "its parts are not those of a graph"],
  [
    {
      format: "pnne-graph",
      formatVersion: 1,
      graphs: { "": { nodes: [{ name: "class", type: "ReLU" }], edges: [{ source: 1 }] } },
    },
    "",
  ],
])("a file that is no graph is refused with the reason, and nothing is lost: %j", async (content, reason) => {
  const opened = openEditor(chain("x Input", "a ReLU"));
  await takeFile(opened.editor, file("some.json", content));
  expect(opened.notices()).toHaveLength(1);
  expect(opened.notices()[0]).toContain(`some.json was not opened: `);
  expect(opened.notices()[0]).toContain(reason);
  expect(opened.edits()).toEqual([]);
  expect(names(opened)).toEqual(["x", "a"]);
});

test("the menu offers what fits the selection, and only looking to who may not change anything", () => {
  const opened = openEditor(chain("x Input", "a ReLU"));
  const { editor, model } = opened;
  const offered = () => menuFor(editor).flat();
  for (const key of offered()) expect(BY_KEY.has(key), key).toBe(true);
  expect(offered()).toContain("Mod+v");
  editor.select(["a"]);
  expect(offered()).toEqual(expect.arrayContaining(["F2", "t", "Delete", "Mod+d"]));
  editor.select([], ["x.output->a.input"]);
  expect(offered()).toEqual(["i", " ", "r", "w", "Delete"]);
  editor.select(["x", "a"]);
  expect(offered()).not.toContain("F2");
  model.traits.set("read_only", true);
  model.emit("change:read_only");
  expect(offered()).toEqual(["Shift+t", "Mod+c", "Shift+f"]);
  editor.viewport = { ...VIEW, over: ([left, top]: [number, number]) => ({ left, top }) } as unknown as Viewport;
  openMenu(editor, [30, 40]);
  expect(editor.view.get().menu).toEqual({ left: 30, top: 40 });
  expect(opsOf(opened.edits()[0])).toEqual([]);
});

test("Shift+T selects all nodes of the selected types", () => {
  const opened = openEditor(chain("x Input", "a Linear", "act ReLU", "b Linear"));
  BY_KEY.get("Shift+t")?.run(opened.editor, () => {});
  expect(opened.notices()).toEqual(["Select a node first: all of its type are then selected too."]);
  opened.editor.select(["a"]);
  expect(menuFor(opened.editor).flat()).toContain("Shift+t");
  BY_KEY.get("Shift+t")?.run(opened.editor, () => {});
  expect([...opened.editor.view.get().nodes]).toEqual(["a", "b"]);
  expect(opened.editor.view.get().said).toBe("2 nodes selected");
});
