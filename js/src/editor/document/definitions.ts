import type { NodeState } from "../../protocol";
import type { Graph } from "./document";

type Graphs = ReadonlyMap<string, Graph>;

/** The definition that a Subgraph node shows, or null. */
export function definitionOf(node: NodeState): string | null {
  const id = node.type === "Subgraph" ? node.properties?.definition : undefined;
  return typeof id === "string" ? id : null;
}

/** Every Subgraph node that shows a definition, with the graph that it stands in. */
export function usersOf(graphs: Graphs, id: string): { graph: string; node: string }[] {
  const users: { graph: string; node: string }[] = [];
  if (id === "") return users;
  for (const [graph, { nodes }] of graphs) {
    for (const node of nodes.values()) if (definitionOf(node) === id) users.push({ graph, node: node.name });
  }
  return users;
}

/** Names of the Input or Output nodes of a definition: the ports of whatever shows it. */
export function interfaceOf(graphs: Graphs, id: string | null, type: "Input" | "Output"): string[] {
  const graph = id === null ? undefined : graphs.get(id);
  return [...(graph?.nodes.values() ?? [])].filter((node) => node.type === type).map((node) => node.name);
}

/** Whether a definition is another graph or holds it, however deep. */
export function contains(graphs: Graphs, outer: string, inner: string): boolean {
  const seen = new Set<string>();
  const stack = [outer];
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    if (id === inner) return true;
    if (seen.has(id)) continue;
    seen.add(id);
    for (const node of graphs.get(id)?.nodes.values() ?? []) {
      const next = definitionOf(node);
      if (next !== null) stack.push(next);
    }
  }
  return false;
}
