import { expect, test } from "vitest";
import type { Viewport } from "../src/editor/commands/editor";
import { BY_KEY } from "../src/editor/commands/keys";
import { armStroke, endStroke, strokeTo } from "../src/editor/commands/stroke";
import { node, type Opened, openEditor } from "./openEditor";

/** Two chains beside each other, in a page whose pixels are the canvas's. */
function opened(): Opened {
  const made = openEditor({
    nodes: [
      node("a", "Input", [0, 0]),
      node("b", "ReLU", [0, 200]),
      node("c", "Input", [300, 0]),
      node("d", "ReLU", [300, 200]),
    ],
    edges: [
      { source: "a.output", target: "b.input" },
      { source: "c.output", target: "d.input" },
    ],
  });
  const at: Viewport["at"] = (x, y) => [x, y];
  made.editor.viewport = { at } as Viewport;
  return made;
}

test("a stroke cuts the edges that it crosses, in one step", () => {
  const { editor, edges, edits } = opened();
  for (const x of [-60, 150, 400]) strokeTo(editor, x, 100);
  expect(editor.view.get().crossed.size).toBe(2);
  endStroke(editor, true);
  expect(edges()).toEqual([]);
  expect(edits().map(({ label }) => label)).toEqual(["Cut 2 edges"]);
  expect(editor.view.get().stroke).toBeNull();
});

test("it cuts only what it crosses, and nothing when it is taken back", () => {
  const { editor, edges, edits } = opened();
  strokeTo(editor, -60, 100);
  strokeTo(editor, 60, 100);
  endStroke(editor, false);
  strokeTo(editor, 60, 100);
  strokeTo(editor, 120, 100);
  endStroke(editor, true);
  expect(edits()).toEqual([]);
  strokeTo(editor, -60, 100);
  strokeTo(editor, 60, 100);
  endStroke(editor, true);
  expect(edges()).toEqual(["c.output -> d.input"]);
  expect(edits().map(({ label }) => label)).toEqual(["Cut a.output → b.input"]);
});

test("a key makes the next drag a stroke, and again it does not", () => {
  const { editor } = opened();
  expect(BY_KEY.get("k")?.run).toBe(armStroke);
  armStroke(editor);
  expect(editor.view.get().stroke).toEqual([]);
  armStroke(editor);
  expect(editor.view.get().stroke).toBeNull();
});
