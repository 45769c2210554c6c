import type { EdgeState, NodeState, Op } from "../../protocol";
import type { Graph } from "./document";
import { nodeOf, splitPort } from "./document";
import { freeName } from "./names";

/** A part of a graph on the clipboard, as JSON. */
export interface Fragment {
  readonly format: "pnne-fragment";
  readonly nodes: readonly NodeState[];
  readonly edges: readonly EdgeState[];
}

export function fragmentOf(graph: Graph, names: ReadonlySet<string>): Fragment {
  return {
    format: "pnne-fragment",
    nodes: [...graph.nodes.values()].filter((node) => names.has(node.name)),
    edges: [...graph.edges.values()].filter((edge) => names.has(nodeOf(edge.source)) && names.has(nodeOf(edge.target))),
  };
}

/** Reads clipboard text; null when it is something else. */
export function parseFragment(text: string): Fragment | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || !("format" in value) || value.format !== "pnne-fragment")
      return null;
    const { nodes, edges } = value as Partial<Fragment>;
    return Array.isArray(nodes) && Array.isArray(edges) ? { format: "pnne-fragment", nodes, edges } : null;
  } catch {
    return null;
  }
}

/** The ops that add a fragment under new names, `offset` away from where it was; and those names. */
export function pasteOps(
  fragment: Fragment,
  graph: Graph,
  graphId: string,
  offset: readonly [number, number],
): { ops: Op[]; names: string[] } {
  const taken = new Set(graph.nodes.keys());
  const renamed = new Map<string, string>();
  for (const node of fragment.nodes) {
    const name = freeName(node.type, taken);
    taken.add(name);
    renamed.set(node.name, name);
  }
  const ops: Op[] = fragment.nodes.map((node) => {
    const { shares } = node.properties ?? {};
    const shared = typeof shares === "string" ? renamed.get(shares) : undefined;
    return {
      op: "addNode",
      name: renamed.get(node.name) ?? node.name,
      type: node.type,
      properties: shared === undefined ? (node.properties ?? {}) : { ...node.properties, shares: shared },
      position: node.position ? [node.position[0] + offset[0], node.position[1] + offset[1]] : null,
      graph: graphId,
    };
  });
  const follow = (address: string) => {
    const [node, port] = splitPort(address);
    return `${renamed.get(node)}.${port}`;
  };
  for (const edge of fragment.edges) {
    ops.push({ op: "connect", source: follow(edge.source), target: follow(edge.target), graph: graphId });
  }
  return { ops, names: [...renamed.values()] };
}
