import type { EdgeState, NodeState, Op } from "../../protocol";
import { closesCycle } from "./cycles";
import type { Graph, GraphDocument } from "./document";
import { nodeOf, splitPort } from "./document";

/** A change that the document cannot take; the message completes what Python would say. */
export class Refusal extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

interface DraftGraph {
  nodes: Map<string, NodeState>;
  edges: Map<string, EdgeState>;
}

/**
 * Applies `ops` in order, all or none, and returns the new document; mirrors `NodeGraph.apply`.
 *
 * Each graph that is touched is copied once for the whole transaction.
 *
 * @throws Refusal when an op does not fit; `document` is never changed.
 */
export function applyOps(document: GraphDocument, ops: readonly Op[]): GraphDocument {
  const draft = new Draft(document);
  for (const op of ops) draft.apply(op);
  return draft.finish();
}

class Draft {
  private name: string;
  private readonly graphs: Map<string, Graph>;
  private readonly touched = new Map<string, DraftGraph>();

  constructor(document: GraphDocument) {
    this.name = document.name;
    this.graphs = new Map(document.graphs);
  }

  finish(): GraphDocument {
    return { name: this.name, graphs: this.graphs };
  }

  apply(op: Op): void {
    switch (op.op) {
      case "addNode":
        return this.addNode(this.edit(op.graph), op);
      case "removeNode":
        return this.removeNode(this.edit(op.graph), op.name);
      case "renameNode":
        return this.renameNode(this.edit(op.graph), op.name, op.newName);
      case "setProperty":
        return this.update(this.edit(op.graph), op.node, (node) => ({
          ...node,
          properties: { ...node.properties, [op.property]: op.value },
        }));
      case "resetProperty":
        return this.update(this.edit(op.graph), op.node, (node) => {
          const { [op.property]: _, ...properties } = node.properties ?? {};
          return { ...node, properties };
        });
      case "moveNode":
        return this.update(this.edit(op.graph), op.name, (node) => ({ ...node, position: op.position }));
      case "connect":
        return this.connect(this.edit(op.graph), op);
      case "disconnect":
        return this.disconnect(this.edit(op.graph), op);
      case "addGraph":
        if (this.graphs.has(op.graph)) throw new Refusal("name-taken", `There is already a definition ${op.graph}.`);
        this.graphs.set(op.graph, { nodes: new Map(), edges: new Map() });
        return;
      case "removeGraph":
        return this.removeGraph(op.graph);
      case "renameDocument":
        this.name = op.name;
        return;
      default:
        return assertNever(op);
    }
  }

  private edit(id = ""): DraftGraph {
    const open = this.touched.get(id);
    if (open) return open;
    const graph = this.graphs.get(id);
    if (!graph) throw new Refusal("unknown-graph", `There is no definition ${id}.`);
    const draft = { nodes: new Map(graph.nodes), edges: new Map(graph.edges) };
    this.touched.set(id, draft);
    this.graphs.set(id, draft);
    return draft;
  }

  private addNode(graph: DraftGraph, op: Extract<Op, { op: "addNode" }>): void {
    if (graph.nodes.has(op.name)) throw new Refusal("name-taken", `There is already a node ${op.name}.`);
    const node: NodeState = {
      name: op.name,
      type: op.type,
      properties: op.properties ?? {},
      position: op.position ?? null,
      origin: op.origin ?? null,
    };
    if (op.index === undefined || op.index === null || op.index >= graph.nodes.size) {
      graph.nodes.set(op.name, node);
      return;
    }
    const entries = [...graph.nodes];
    entries.splice(op.index, 0, [op.name, node]);
    replaceEntries(graph.nodes, entries);
  }

  private removeNode(graph: DraftGraph, name: string): void {
    this.require(graph, name);
    graph.nodes.delete(name);
    for (const [target, edge] of graph.edges) {
      if (nodeOf(target) === name || nodeOf(edge.source) === name) graph.edges.delete(target);
    }
  }

  private renameNode(graph: DraftGraph, name: string, newName: string): void {
    this.require(graph, name);
    if (name === newName) return;
    if (graph.nodes.has(newName)) throw new Refusal("name-taken", `There is already a node ${newName}.`);
    const renamed = [...graph.nodes.values()].map((node): [string, NodeState] => {
      if (node.name === name) return [newName, { ...node, name: newName }];
      if (node.properties?.shares === name) {
        return [node.name, { ...node, properties: { ...node.properties, shares: newName } }];
      }
      return [node.name, node];
    });
    replaceEntries(graph.nodes, renamed);
    const follow = (address: string) => {
      const [node, port] = splitPort(address);
      return node === name ? `${newName}.${port}` : address;
    };
    const edges = [...graph.edges.values()].map((edge): [string, EdgeState] => {
      const target = follow(edge.target);
      const source = follow(edge.source);
      return [target, target === edge.target && source === edge.source ? edge : { source, target }];
    });
    replaceEntries(graph.edges, edges);
  }

  private update(graph: DraftGraph, name: string, change: (node: NodeState) => NodeState): void {
    graph.nodes.set(name, change(this.require(graph, name)));
  }

  private connect(graph: DraftGraph, edge: EdgeState): void {
    const source = nodeOf(edge.source);
    const target = nodeOf(edge.target);
    this.require(graph, source);
    this.require(graph, target);
    if (graph.edges.has(edge.target)) {
      throw new Refusal("port-taken", `${edge.target} is already fed by ${graph.edges.get(edge.target)?.source}.`);
    }
    if (closesCycle(graph, source, target)) {
      throw new Refusal("cycle", `An edge from ${source} to ${target} would close a loop.`);
    }
    graph.edges.set(edge.target, { source: edge.source, target: edge.target });
  }

  private disconnect(graph: DraftGraph, edge: EdgeState): void {
    if (graph.edges.get(edge.target)?.source !== edge.source) {
      throw new Refusal("unknown-edge", `There is no edge from ${edge.source} to ${edge.target}.`);
    }
    graph.edges.delete(edge.target);
  }

  private removeGraph(id: string): void {
    const graph = this.graphs.get(id);
    if (!graph || id === "") throw new Refusal("unknown-graph", `There is no definition ${id}.`);
    if (graph.nodes.size > 0) throw new Refusal("graph-in-use", `The definition ${id} is not empty.`);
    this.graphs.delete(id);
    this.touched.delete(id);
  }

  private require(graph: DraftGraph, name: string): NodeState {
    const node = graph.nodes.get(name);
    if (!node) throw new Refusal("unknown-node", `There is no node ${name}.`);
    return node;
  }
}

function replaceEntries<V>(map: Map<string, V>, entries: [string, V][]): void {
  map.clear();
  for (const [key, value] of entries) map.set(key, value);
}

function assertNever(value: never): never {
  throw new Refusal("unknown-op", `This editor does not know the change ${JSON.stringify(value)}; reload the page.`);
}
