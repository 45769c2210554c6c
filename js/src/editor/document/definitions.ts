import type { NodeState, Op } from "../../protocol";
import { type Graph, type GraphDocument, graphAt } from "./document";
import { freeIdentifier } from "./names";

type Graphs = ReadonlyMap<string, Graph>;

/** The definition that a Subgraph node shows, or that holds what is inside a Module node; or null. */
export function definitionOf(node: NodeState): string | null {
  const id = showsDefinitions(node.type) ? node.properties?.definition : undefined;
  return typeof id === "string" ? id : null;
}

/** Whether nodes of a type may have a graph inside. */
export function showsDefinitions(type: string): boolean {
  return type === "Subgraph" || type === "Module";
}

/** Whether a node is a box: it runs its own code around the nodes inside it. */
export function isBox(node: NodeState): boolean {
  return node.type === "Module" && definitionOf(node) !== null;
}

/** The Module node whose own code runs what a graph holds; null for graphs that are drawn. */
export function boxAround(graphs: Graphs, id: string): NodeState | null {
  const [user] = usersOf(graphs, id);
  const node = user && graphs.get(user.graph)?.nodes.get(user.node);
  return node !== undefined && isBox(node) ? node : null;
}

/** Every node that shows a definition, with its graph. */
export function usersOf(graphs: Graphs, id: string): { graph: string; node: string }[] {
  const users: { graph: string; node: string }[] = [];
  if (id === "") return users;
  for (const [graph, { nodes }] of graphs) {
    for (const node of nodes.values()) if (definitionOf(node) === id) users.push({ graph, node: node.name });
  }
  return users;
}

/** The Subgraph nodes among them: their ports are the definition's Input and Output nodes. */
export function blocksOf(graphs: Graphs, id: string): { graph: string; node: string }[] {
  return usersOf(graphs, id).filter(({ graph, node }) => graphs.get(graph)?.nodes.get(node)?.type === "Subgraph");
}

/** Names of the Input or Output nodes of a definition, which are the ports of nodes that show it. */
export function interfaceOf(graphs: Graphs, id: string | null, type: "Input" | "Output"): string[] {
  const graph = id === null ? undefined : graphs.get(id);
  return [...(graph?.nodes.values() ?? [])].flatMap((node) => (node.type === type ? [node.name] : []));
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

/** How many Subgraph nodes show each definition, worked out once per document. */
export function usesOf({ graphs }: GraphDocument): ReadonlyMap<string, number> {
  const known = counted.get(graphs);
  if (known) return known;
  const uses = new Map<string, number>();
  for (const { nodes } of graphs.values()) {
    for (const node of nodes.values()) {
      const id = definitionOf(node);
      if (id !== null) uses.set(id, (uses.get(id) ?? 0) + 1);
    }
  }
  counted.set(graphs, uses);
  return uses;
}

const counted = new WeakMap<Graphs, ReadonlyMap<string, number>>();

/** Every definition that nodes show, however deep, each after those that it shows itself. */
export function usedBy(graphs: Graphs, nodes: Iterable<NodeState>): string[] {
  const found: string[] = [];
  const visit = (list: Iterable<NodeState>, around: readonly string[]) => {
    for (const node of list) {
      const id = definitionOf(node);
      const graph = id === null ? undefined : graphs.get(id);
      if (id === null || !graph || found.includes(id) || around.includes(id)) continue;
      visit(graph.nodes.values(), [...around, id]);
      found.push(id);
    }
  };
  visit(nodes, []);
  return found;
}

/** Whether two definitions show the same, once the second's own definitions are called as in `ids`. */
export function sameGraph(own: Graph, other: Graph, ids: ReadonlyMap<string, string>): boolean {
  const text = (graph: Graph, rename: ReadonlyMap<string, string>) =>
    JSON.stringify([
      [...graph.nodes.values()].map(({ name, type, properties = {}, origin = null }) => [
        name,
        type,
        Object.entries(renamedIn(type, properties, rename)).sort(([a], [b]) => (a < b ? -1 : 1)),
        origin,
      ]),
      [...graph.edges.values()].map(({ source, target }) => `${target} ${source}`).sort(),
    ]);
  return text(own, new Map()) === text(other, ids);
}

/** The ops that add a definition with all that it holds; it may show others, under the names of `ids`. */
export function addGraphOps(id: string, { nodes, edges, frames }: Graph, ids: ReadonlyMap<string, string>): Op[] {
  const ops: Op[] = [{ op: "addGraph", graph: id }];
  for (const node of nodes.values()) {
    const { shares: _, ...properties } = renamedIn(node.type, node.properties ?? {}, ids);
    ops.push({ op: "addNode", ...node, properties, graph: id });
  }
  // A node can share only with one that is there.
  for (const { name, properties } of nodes.values()) {
    const value = properties?.shares;
    if (typeof value === "string") ops.push({ op: "setProperty", node: name, property: "shares", value, graph: id });
  }
  for (const { source, target } of edges.values()) ops.push({ op: "connect", source, target, graph: id });
  for (const frame of frames.values()) ops.push({ op: "addFrame", ...frame, graph: id });
  return ops;
}

/** The ops that remove what nothing shows any more once `removed` nodes are gone. */
export function discardOps({ graphs }: GraphDocument, removed: readonly NodeState[]): Op[] {
  const left = new Map(usesOf({ name: "", graphs }));
  const ops: Op[] = [];
  const drop = (nodes: Iterable<NodeState>) => {
    for (const node of nodes) {
      const id = definitionOf(node);
      const graph = id === null ? undefined : graphs.get(id);
      if (id === null || !graph) continue;
      left.set(id, (left.get(id) ?? 0) - 1);
      if (left.get(id) !== 0) continue;
      for (const name of graph.nodes.keys()) ops.push({ op: "removeNode", name, graph: id });
      for (const name of graph.frames.keys()) ops.push({ op: "removeFrame", name, graph: id });
      ops.push({ op: "removeGraph", graph: id });
      drop(graph.nodes.values());
    }
  };
  drop(removed);
  return ops;
}

/**
 * The ops that give a Subgraph node a definition of its own, with a free name, equal to the one it shows; none if no
 * other node shows that. What it shows inside stays shared. `tests/cases/own.json` compares with
 * `own_definition` in Python.
 */
export function ownOps(document: GraphDocument, graph: string, node: string): Op[] {
  const nodes = document.graphs.get(graph)?.nodes;
  const found = nodes?.get(node);
  const definition = found ? definitionOf(found) : null;
  const shown = definition === null ? undefined : document.graphs.get(definition);
  if (!nodes || definition === null || !shown || (usesOf(document).get(definition) ?? 0) < 2) return [];
  const own = freeIdentifier(definition, document.graphs);
  const ops = addGraphOps(own, shown, new Map());
  // Weights can be shared only by nodes that show the same: those that took this one's go on among themselves.
  if (found?.properties?.shares != null) ops.push({ op: "resetProperty", node, property: "shares", graph });
  const [heir, ...others] = [...nodes.values()].filter((other) => other.properties?.shares === node);
  if (heir) ops.push({ op: "resetProperty", node: heir.name, property: "shares", graph });
  for (const other of others)
    ops.push({ op: "setProperty", node: other.name, property: "shares", value: heir?.name ?? "", graph });
  ops.push({ op: "setProperty", node, property: "definition", value: own, graph });
  return ops;
}

type Properties = NonNullable<NodeState["properties"]>;

function renamedIn(type: string, properties: Properties, ids: ReadonlyMap<string, string>): Properties {
  const { definition } = properties;
  if (!showsDefinitions(type) || typeof definition !== "string") return properties;
  return { ...properties, definition: ids.get(definition) ?? definition };
}

/** A node where it is seen: under its path from the outermost graph. */
export interface Place {
  readonly path: string;
  readonly node: NodeState;
}

/** A node and the graph that holds it: one that several paths lead to. */
export interface Located {
  readonly graph: string;
  readonly node: NodeState;
}

/** The nodes at paths, each once. */
export function locatedAt(document: GraphDocument, paths: Iterable<string>): Located[] {
  const found = new Map<NodeState, Located>();
  for (const path of paths) {
    const names = path.split(".");
    const name = names.pop() ?? "";
    const graph = graphAt(document, names);
    const node = graph === null ? undefined : document.graphs.get(graph)?.nodes.get(name);
    if (graph !== null && node) found.set(node, { graph, node });
  }
  return [...found.values()];
}

/** Definitions in definitions can be seen at more places than anybody could look through. */
const MOST_PLACES = 20_000;

/** Every node of a document, or of one graph in it, at every place where it is seen, the outermost ones first. */
export function placesOf({ graphs }: GraphDocument, most = MOST_PLACES, from = { id: "", prefix: "" }): Place[] {
  const places: Place[] = [];
  const left = [from];
  for (const { id, prefix } of left) {
    for (const node of graphs.get(id)?.nodes.values() ?? []) {
      if (places.length === most) return places;
      const path = prefix + node.name;
      places.push({ path, node });
      const inside = definitionOf(node);
      if (inside !== null) left.push({ id: inside, prefix: `${path}.` });
    }
  }
  return places;
}
