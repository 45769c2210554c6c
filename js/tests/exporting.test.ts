import { expect, test } from "vitest";
import { fromState } from "../src/editor/document/document";
import { checkLens, errorLens, freeSizes } from "../src/editor/session/exporting";
import type { Diagnostic, ExportCheck, ExportState, NodeError } from "../src/protocol";
import { documentOf } from "./openEditor";

const DONE: ExportState = {
  message: "exportState",
  state: "done",
  format: "onnx",
  path: "/net.onnx",
  seconds: 3,
  cancellable: true,
  stale: false,
  error: "",
  diagnostics: [],
  result: null,
  id: null,
  client: null,
};
const node = (name: string, ratio: number | null, ok = true): NodeError => ({
  node: name,
  type: "Linear",
  error: ratio,
  ratio,
  ok,
  histograms: null,
  note: "",
});
const withNodes = (...nodes: NodeError[]): ExportState => ({
  ...DONE,
  result: { ok: true, headline: "", facts: [], nodes },
});
const finding = (code: string, at: string | null, severity: Diagnostic["severity"]): Diagnostic => ({
  code,
  message: `${code}.`,
  node: at,
  port: null,
  hint: null,
  severity,
  fix: null,
});
const check = (state: ExportCheck["state"], ...findings: Diagnostic[]): ExportCheck => ({
  message: "exportCheck",
  state,
  format: "onnx",
  findings,
  error: "",
  id: null,
  client: null,
});

test("nodes are told apart by error ÷ tolerance", () => {
  const lens = errorLens(
    withNodes(node("a", 0.2), node("b", 0.8), node("c", 40, false), node("d", null), node("e", null, false)),
  );
  const levels = [...(lens ?? [])].map(([name, { level, text }]) => [name, level, text]);
  expect(levels).toEqual([
    ["a", "good", "0.2 ×"],
    ["b", "near", "0.8 ×"],
    ["c", "bad", "40 ×"],
    ["d", "plain", "–"],
    ["e", "bad", "differs"],
  ]);
});

test("figures of another graph colour nothing", () => {
  expect(errorLens(DONE)).toBeNull();
  expect(errorLens({ ...withNodes(node("a", 0.2)), stale: true })).toBeNull();
});

test("the worst finding at a node names it, and the rest is in its title", () => {
  const findings = [finding("decomposed", "a", "info"), finding("size-fixed", "a", "warning")];
  const lens = checkLens(check("done", ...findings, finding("no-translation", "b", "error")), ["a", "b", "c"]);
  expect(lens?.get("a")).toEqual({ level: "warning", text: "size fixed", title: "decomposed.\nsize-fixed." });
  expect(lens?.get("b")).toMatchObject({ level: "bad", text: "no translation" });
  expect(lens?.get("c")).toMatchObject({ level: "good" });
});

test("a block is as bad as the worst node inside of it", () => {
  const lens = errorLens(withNodes(node("block.a", 0.2), node("block.inner.b", 40, false), node("block.c", 0.1)));
  expect(lens?.get("block")).toMatchObject({ level: "bad", text: "40 ×", title: "block.inner.b: " });
  expect(lens?.get("block.inner")).toMatchObject({ level: "bad" });
  expect(checkLens(check("done", finding("size-fixed", "block.a", "warning")), ["block"])?.get("block")).toMatchObject({
    level: "warning",
    text: "size fixed",
  });
});

test("while a check runs, only what the one before found is shown", () => {
  const lens = checkLens(check("checking", finding("size-fixed", "a", "warning")), ["a", "b"]);
  expect([...(lens?.keys() ?? [])]).toEqual(["a"]);
  expect(checkLens(check("off"), ["a"])).toBeNull();
  expect(checkLens(check("failed"), ["a"])).toBeNull();
});

test("free sizes are those that Input nodes name, each once", () => {
  const input = (name: string, shape: (number | string)[]) => ({ name, type: "Input", properties: { shape } });
  const document = fromState(documentOf({ "": { nodes: [input("x", ["N", "T", 8]), input("y", ["N", 4])] } }));
  expect(freeSizes(document)).toEqual(["N", "T"]);
});
