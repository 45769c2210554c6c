import { expect, test } from "vitest";
import { BY_KEY } from "../src/editor/commands/keys";
import { menuFor } from "../src/editor/commands/menu";
import { node, type Opened, openEditor } from "./openEditor";

const press = ({ editor }: Opened, key: string) => BY_KEY.get(key)?.run(editor, () => {});

const edges = [
  { source: "x.output", target: "stem.input" },
  { source: "stem.output", target: "fc.input" },
  { source: "fc.output", target: "y.input" },
];

function drawn(stem: Record<string, boolean> = {}): Opened {
  const nodes = [
    node("x", "Input", [0, 0]),
    node("stem", "Linear", [0, 120], stem),
    node("act", "ReLU", [0, 240]),
    node("fc", "Linear", [0, 360], { out_features: 1000, trainable: false }),
    node("y", "Output", [0, 480]),
  ];
  return openEditor({ nodes, edges });
}

const propertiesOf = ({ editor }: Opened, name: string) => editor.scene()?.graph.nodes.get(name)?.properties;

test("L freezes all selected nodes with weights as one edit, and trains them again if all are frozen", () => {
  const opened = drawn();
  opened.editor.select(["stem", "act", "fc"]);
  press(opened, "l");
  expect(opened.edits().map(({ label, ops }) => [label, ops.length])).toEqual([["Freeze 2 nodes", 1]]);
  expect(opened.editor.scene()?.cards.get("stem")).toMatchObject({ frozen: true });
  expect(opened.editor.scene()?.cards.get("stem")?.label).toContain(", frozen");
  expect(opened.editor.scene()?.cards.get("act")?.frozen).toBe(false);
  press(opened, "l");
  expect(opened.edits().at(-1)?.label).toBe("Unfreeze 2 nodes");
  expect(propertiesOf(opened, "fc")).toEqual({ out_features: 1000 });
  opened.editor.select(["act"]);
  press(opened, "l");
  expect(opened.notices()).toEqual(["Select nodes that have weights: layers, blocks or Parameters."]);
});

test("N puts a trained layer of the same name in the place of the head, and opens its size", () => {
  const opened = drawn();
  opened.editor.select(["fc"]);
  expect(menuFor(opened.editor).flat()).toContain("n");
  press(opened, "n");
  const [edit] = opened.edits();
  expect(edit?.ops.map(({ op }) => op)).toEqual(["renameNode", "removeNode", "addNode", "connect", "connect"]);
  expect(propertiesOf(opened, "fc")).toEqual({ out_features: 1000 });
  expect([...(opened.editor.scene()?.graph.nodes.keys() ?? [])]).toEqual(["x", "stem", "act", "fc", "y"]);
  expect(opened.edges()).toContain("stem.output -> fc.input");
  expect(opened.edges()).toContain("fc.output -> y.input");
  opened.editor.select(["act"]);
  expect(menuFor(opened.editor).flat()).not.toContain("n");
  press(opened, "n");
  expect(opened.notices()).toEqual(["Select the layer that makes the result: a Linear, or a Conv."]);
});

test("inside a frozen block every node with weights is frozen, and the block is named where that cannot be changed", () => {
  const inside = [node("a", "Linear", [0, 0]), node("b", "ReLU", [0, 120])];
  const block = node("block", "Subgraph", [0, 0], { definition: "Block", trainable: false });
  const opened = openEditor({ nodes: [block] }, { Block: { nodes: inside } });
  opened.editor.enter(["block"]);
  expect(opened.editor.scene()?.cards.get("a")?.frozen).toBe(true);
  expect(opened.editor.scene()?.cards.get("b")?.frozen).toBe(false);
  opened.editor.select(["a"]);
  press(opened, "l");
  expect(opened.edits()).toEqual([]);
  expect(opened.notices()).toEqual(["The block block around it is frozen: train that again first (L)."]);
});
