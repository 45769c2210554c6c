import { expect, test } from "vitest";
import { runToHere } from "../src/editor/commands/runToHere";
import { chain, node, openEditor } from "./openEditor";

test("a node runs to its first output, an Output and an edge to what feeds them", () => {
  const { editor } = openEditor(chain("x Input", "fc Linear", "y Output"));
  const seenAt = (nodes: string[], edges: string[] = []) => {
    editor.select(nodes, edges);
    runToHere(editor);
    return editor.view.get().seen;
  };
  expect(seenAt(["fc"])).toEqual({ card: "fc", port: "fc.output" });
  expect(seenAt(["y"])).toEqual({ card: "y", port: "fc.output" });
  const [edge] = editor.scene()?.wires ?? [];
  expect(seenAt([], [`${edge?.source}->${edge?.target}`])).toEqual({ card: "x", port: "x.output" });
});

test("without one node or edge, and where nothing arrives, it says what to do", () => {
  const { editor, notices } = openEditor({ nodes: [node("y", "Output", [0, 0])] });
  runToHere(editor);
  editor.select(["y"]);
  runToHere(editor);
  expect(notices()).toEqual(["Select one node or edge to run to.", "Nothing reaches y yet: connect it first."]);
  expect(editor.view.get().seen).toBeNull();
});

test("what Python answers reaches who asked, and a refusal too", async () => {
  const { editor, model } = openEditor(chain("x Input", "fc Linear"));
  const asked = editor.session.runToHere("fc.output");
  const request = model.sent.findLast(({ message }) => message === "runToHere");
  expect(request).toMatchObject({ port: "fc.output" });
  model.receive({
    message: "rejected",
    id: request?.id ?? 0,
    client: editor.session.client,
    version: 1,
    error: "There is no example to run.",
    diagnostics: [],
  });
  await expect(asked).rejects.toThrow("There is no example to run.");
});
