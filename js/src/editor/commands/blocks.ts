import type { NodeState, Op } from "../../protocol";
import { innermost } from "../document/blocks";
import { ownOps } from "../document/definitions";
import { PROMOTED } from "../scene/summary";
import { items } from "../values/check";
import type { Editor } from "./editor";

/** Gives the node that a view is inside a definition of its own. */
export function makeOwn(editor: Editor): void {
  const scene = editor.scene();
  const { path } = editor.view.get();
  const place = scene && innermost(scene.document, path);
  if (!scene || !place) return;
  const { graph, node } = place;
  const ops = ownOps(scene.document, graph, node);
  editor.edit(ops, `Make ${node} its own`);
}

/** Has the block around a node show one of its properties as its own, or no longer. */
export function promote(editor: Editor, { name, properties }: NodeState, property: string, graph: string): void {
  const before = (items(properties?.[PROMOTED]) ?? []) as string[];
  const isOn = before.includes(property);
  const value = isOn ? before.filter((each) => each !== property) : [...before, property];
  const op: Op = { op: "setProperty", node: name, property: PROMOTED, value: value as never, graph };
  editor.edit([op], `${isOn ? "Take" : "Show"} ${name}.${property} ${isOn ? "from" : "on"} the block`);
}

export function group(editor: Editor): void {
  const scene = editor.scene();
  const nodes = editor.withOwn(editor.chosen());
  if (!scene || nodes.size === 0) return;
  editor.groups = true;
  editor.session.group([...nodes], scene.graphId);
}

/** Selects the block that a group has become, in the view that asked for it: the next key goes into it or names it. */
export function selectBlock(editor: Editor, ops: readonly Op[]): void {
  if (!editor.groups) return;
  editor.groups = false;
  const here = editor.scene()?.graphId;
  // What has gone into the block may have blocks of its own.
  for (const op of ops)
    if (op.op === "addNode" && op.type === "Subgraph" && (op.graph ?? "") === here) editor.select([op.name]);
}

/** Puts what the one selected Subgraph node shows in its place. */
export function ungroup(editor: Editor): void {
  const scene = editor.scene();
  const [name] = editor.view.get().nodes;
  if (scene && name !== undefined && scene.graph.nodes.get(name)?.type === "Subgraph") {
    editor.session.ungroup(name, scene.graphId);
  }
}
