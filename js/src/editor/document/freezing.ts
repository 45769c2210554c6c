import type { NodeState, NodeTypeState, Op } from "../../protocol";
import { definitionOf } from "./definitions";
import { type Graph, type GraphDocument, nodeOf } from "./document";
import { freeName } from "./names";

/** The property that says whether training changes the weights of a node, and that of its eval mode. */
export const TRAINABLE = "trainable";
const EVAL_MODE = "eval_mode";
const SIZES = ["out_features", "out_channels"];

/** The property of a node that freezes it; null if it has no weights. */
export function flagOf({ type, properties }: NodeState, spec: NodeTypeState | undefined): string | null {
  if (type === "Parameter") return properties?.of ? null : "requires_grad";
  return spec?.properties?.some(({ name }) => name === TRAINABLE) ? TRAINABLE : null;
}

/** Whether a node itself is frozen; of a block, so is everything inside. */
export function isFrozen({ type, properties, origin }: NodeState): boolean {
  const flag = type === "Parameter" ? "requires_grad" : TRAINABLE;
  return properties?.[flag] === false || (origin?.frozen ?? []).includes("");
}

/** The path of the outermost frozen block on a path; null if there is none. */
export function frozenBlock({ graphs }: GraphDocument, path: readonly string[]): string | null {
  let graph: Graph | undefined = graphs.get("");
  for (const [depth, name] of path.entries()) {
    const node = graph?.nodes.get(name);
    if (!node) return null;
    if (isFrozen(node)) return path.slice(0, depth + 1).join(".");
    graph = graphs.get(definitionOf(node) ?? "");
  }
  return null;
}

/** The ops that freeze a node, or have it trained again. */
export function freezeOps(node: NodeState, frozen: boolean, graph: string): Op[] {
  const property = node.type === "Parameter" ? "requires_grad" : TRAINABLE;
  if (frozen) return [{ op: "setProperty", node: node.name, property, value: false, graph }];
  const given = [property, EVAL_MODE].filter((name) => name in (node.properties ?? {}));
  const ops = given.map((name): Op => ({ op: "resetProperty", node: node.name, property: name, graph }));
  if (!node.origin?.frozen?.length) return ops;
  return [...ops, { op: "setOrigin", name: node.name, origin: { ...node.origin, frozen: [] }, graph }];
}

/** The size of a layer's result: how many classes a head tells apart. */
export function headSize({ properties }: NodeState): string | null {
  return SIZES.find((name) => name in (properties ?? {})) ?? null;
}

/** The ops that put a new layer in the place of one: one that comes after a rename does not take over the old weights. */
export function newHeadOps({ nodes, edges }: Graph, node: NodeState, graph: string): Op[] {
  const { name, type, position = null, collapsed = false } = node;
  const old = freeName(name, nodes);
  const kept = Object.entries(node.properties ?? {}).filter(([each]) => each !== TRAINABLE && each !== EVAL_MODE);
  const index = [...nodes.keys()].indexOf(name);
  const around = [...edges.values()].filter(({ source, target }) => nodeOf(source) === name || nodeOf(target) === name);
  return [
    { op: "renameNode", name, newName: old, graph },
    { op: "removeNode", name: old, graph },
    { op: "addNode", name, type, properties: Object.fromEntries(kept), position, collapsed, index, graph },
    ...around.map((edge): Op => ({ op: "connect", ...edge, graph })),
  ];
}
