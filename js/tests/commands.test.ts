import { afterEach, expect, test, vi } from "vitest";
import type { Editor } from "../src/editor/commands/editor";
import { dropNode } from "../src/editor/commands/gestures";
import { stepBack } from "../src/editor/commands/keys";
import { boxesOf } from "../src/editor/scene/boxes";
import { overlaps } from "../src/editor/scene/geometry";
import type { ShownScene } from "../src/editor/scene/scene";
import { STILL } from "../src/editor/scene/view";
import { chain, node, openEditor, opsOf } from "./openEditor";

afterEach(() => vi.unstubAllGlobals());

test("a node that Python removes while it is dragged ends the drag, and nothing is sent", () => {
  const { editor, edits, replace } = openEditor(chain("x Input", "a ReLU"));
  editor.patch({ moving: new Map([["a", [40, 40]]]), dropEdge: "some" });
  replace(chain("x Input"));
  dropNode(editor, null);
  expect(editor.view.get().moving.size).toBe(0);
  expect(editor.view.get().dropEdge).toBe(null);
  expect(edits()).toEqual([]);
});

test("Escape gives up the selection, then says that it will leave, and then leaves", () => {
  const focus = vi.fn();
  vi.stubGlobal("document", { activeElement: { blur: () => undefined } });
  const root = { parentElement: { closest: () => ({ focus }) } } as unknown as HTMLElement;
  const { editor } = openEditor(chain("x Input", "a ReLU"));
  editor.root = root;
  editor.patch({ active: true });
  editor.select(["a"]);
  stepBack(editor);
  expect(editor.view.get()).toMatchObject({ active: true, keys: "here" });
  expect(editor.view.get().nodes.size).toBe(0);
  stepBack(editor);
  expect(editor.view.get()).toMatchObject({ active: true, keys: "leaving" });
  expect(focus).not.toHaveBeenCalled();
  stepBack(editor);
  expect(editor.view.get()).toMatchObject({ active: false, keys: "left" });
  expect(focus).toHaveBeenCalledOnce();
});

test("a connection to a fed port takes the place of the edge there, in one edit", () => {
  const { editor, edits, edges, notices } = openEditor({
    ...chain("x Input", "a ReLU"),
    nodes: [...(chain("x Input", "a ReLU").nodes ?? []), node("b", "ReLU", [200, 0])],
  });
  editor.connect("b.output", "a.input");
  expect(edges()).toEqual(["b.output -> a.input"]);
  expect(edits()).toHaveLength(1);
  expect(edits()[0]?.label).toBe("Connect b.output → a.input instead of x.output");
  editor.connect("a.output", "b.input");
  expect(notices()).toEqual(["b already leads to a: the edge would close a loop."]);
});

test("a node that goes into an edge gets room: what stands beyond moves on, and frames grow", () => {
  const { editor, edits, edges } = openEditor({
    ...chain("x Input", "a ReLU", "b ReLU"),
    frames: [{ name: "frame1", box: [-120, 60, 240, 300] }],
  });
  const into = { source: "a.output", target: "b.input" };
  editor.add("GELU", { at: [0, 180], into });
  expect(edits()).toHaveLength(1);
  expect(edges()).toEqual(["x.output -> a.input", "a.output -> gelu1.input", "gelu1.output -> b.input"]);
  const ops = opsOf(edits()[0]);
  const moved = ops.filter((op) => op.op === "moveNode");
  expect(moved.map((op) => op.name)).toEqual(["b"]);
  const boxes = boxesOf(editor.scene() as ShownScene, STILL);
  for (const [place, box] of boxes.entries())
    for (const other of boxes.slice(place + 1)) expect(overlaps(box, other), `${box.name} ${other.name}`).toBe(false);
  const grown = ops.find((op) => op.op === "changeFrame");
  expect(grown?.box?.[3]).toBe(300 + (moved[0]?.position?.[1] ?? 0) - 240);
});

test("no card is over another after nodes have gone into edges, and the other columns stay", () => {
  let state = 5;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (let turn = 0; turn < 40; turn += 1) {
    const cards = Array.from({ length: 12 }, (_, place) =>
      node(`n${place}`, "ReLU", [260 * Math.floor(place / 4) + (turn % 2) * random(80), 90 * (place % 4)]),
    );
    const links = cards.slice(1).map(({ name }, place) => {
      const from = turn % 3 === 0 ? random(place + 1) : place;
      return { source: `n${from}.output`, target: `${name}.input` };
    });
    const { editor } = openEditor({ nodes: cards, edges: links });
    for (let time = 0; time < 5; time += 1) {
      const edges = [...(editor.scene()?.graph.edges.values() ?? [])];
      const at = [random(700), random(400)] as const;
      editor.add("GELU", { at, into: edges[random(edges.length)] as (typeof edges)[number] });
      const boxes = boxesOf(editor.scene() as ShownScene, STILL);
      for (const [place, box] of boxes.entries())
        for (const other of boxes.slice(place + 1))
          expect(overlaps(box, other), `${turn}: ${box.name} ${other.name}`).toBe(false);
    }
  }
});

test("where there is room, nothing moves", () => {
  const { editor, edits } = openEditor({
    nodes: [node("a", "ReLU", [0, 0]), node("b", "ReLU", [0, 400])],
    edges: [{ source: "a.output", target: "b.input" }],
  });
  editor.add("GELU", { at: [10, 200], into: { source: "a.output", target: "b.input" } });
  expect(opsOf(edits()[0]).some((op) => op.op === "moveNode")).toBe(false);
  expect(editor.scene()?.graph.nodes.get("gelu1")?.position).toEqual([10, 200]);
});

test.each([
  ["Undo", (editor: Editor) => editor.session.undo()],
  ["the next edit", (editor: Editor) => void editor.add("GELU", { at: [300, 300] })],
])("an offer goes with the graph that it was made for, by %s, and other notices stay", (_, change) => {
  const { editor, notices } = openEditor(chain("x Input", "a ReLU", "b ReLU"));
  editor.select(["a"]);
  editor.deleteSelection();
  editor.session.notify("Something else.");
  expect(notices()).toEqual(["Deleted a.", "Something else."]);
  change(editor);
  expect(notices()).toEqual(["Something else."]);
});
