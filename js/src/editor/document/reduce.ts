import { type EdgeState, type Frame, MAX_NAME_LENGTH, type NodeState, type Op } from "../../protocol";
import { leadsTo, type Neighbours, neighboursIn } from "./cycles";
import { blocksOf, contains, definitionOf, interfaceOf, showsDefinitions, usersOf } from "./definitions";
import { EMPTY_GRAPH, type Graph, type GraphDocument, nodeOf, splitPort } from "./document";
import { whyNotFrame } from "./frame";
import { whyIllegal, whyReserved } from "./names";
import { rewire, wiringOf } from "./wiring";

/** A change that the document cannot take; the message completes what Python would say. */
export class Refusal extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** A graph during a change; unchanged parts are not copied, and keep their identity. */
class DraftGraph implements Graph {
  readonly nodes: Map<string, NodeState>;
  edges: ReadonlyMap<string, EdgeState>;
  frames: ReadonlyMap<string, Frame>;
  readonly #before: Graph;
  /** Where edges may differ; null where that is not known. */
  #targets: Set<string> | null = new Set();

  constructor(graph: Graph) {
    this.#before = graph;
    this.nodes = new Map(graph.nodes);
    this.edges = graph.edges;
    this.frames = graph.frames;
  }

  ownFrames(): Map<string, Frame> {
    const own = this.frames === this.#before.frames ? new Map(this.frames) : (this.frames as Map<string, Frame>);
    this.frames = own;
    return own;
  }

  setEdge(edge: EdgeState): void {
    this.#targets?.add(edge.target);
    this.ownEdges().set(edge.target, edge);
  }

  dropEdge(target: string): void {
    this.#targets?.add(target);
    this.ownEdges().delete(target);
  }

  replaceEdges(edges: readonly EdgeState[]): void {
    this.#targets = null;
    this.edges = new Map(edges.map((edge) => [edge.target, edge]));
  }

  /** The wiring of before, which is known, with the edges that have changed since. */
  neighbours(): Neighbours {
    const { edges } = this;
    if (!this.#targets) return neighboursIn(wiringOf({ ...this, edges: new Map(edges) }));
    const before = neighboursIn(wiringOf(this.#before));
    if (edges === this.#before.edges) return before;
    const made = [...this.#targets].flatMap((target) => edges.get(target) ?? []);
    const left = (all: Iterable<EdgeState>) => [...all].filter((edge) => edges.get(edge.target) === edge);
    return {
      outOf: (name) => [...left(before.outOf(name)), ...made.filter(({ source }) => nodeOf(source) === name)],
      into: (name) => [...left(before.into(name)), ...made.filter(({ target }) => nodeOf(target) === name)],
    };
  }

  finish(): Graph {
    const { nodes, edges, frames } = this;
    if (this.#targets && edges !== this.#before.edges) rewire(this.#before.edges, edges, this.#targets);
    return { nodes, edges, frames };
  }

  private ownEdges(): Map<string, EdgeState> {
    const own = this.edges === this.#before.edges ? new Map(this.edges) : (this.edges as Map<string, EdgeState>);
    this.edges = own;
    return own;
  }
}

/**
 * Applies `ops` in order, all or none, and returns the new document, as `NodeGraph.apply` does:
 * `tests/cases/editing` and random edits compare the two.
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
  private sizes: NonNullable<GraphDocument["sizes"]>;
  private readonly graphs: Map<string, Graph>;
  private readonly touched = new Map<string, DraftGraph>();

  constructor(document: GraphDocument) {
    this.name = document.name;
    this.sizes = document.sizes ?? {};
    this.graphs = new Map(document.graphs);
  }

  finish(): GraphDocument {
    for (const [id, draft] of this.touched) this.graphs.set(id, draft.finish());
    return { name: this.name, graphs: this.graphs, sizes: this.sizes };
  }

  apply(op: Op): void {
    switch (op.op) {
      case "addNode":
        this.addNode(op);
        break;
      case "removeNode":
        this.removeNode(op.graph ?? "", op.name);
        break;
      case "renameNode":
        this.renameNode(op.graph ?? "", op.name, op.newName);
        break;
      case "setProperty":
      case "resetProperty":
        this.changeProperty(op);
        break;
      case "moveNode":
        this.changeNode(op, () => ({ position: checkedPosition(op.name, op.position) }));
        break;
      case "collapseNode":
        this.changeNode(op, () => ({ collapsed: op.collapsed }));
        break;
      case "setOrigin":
        this.changeNode(op, () => ({ origin: op.origin }));
        break;
      case "addFrame":
      case "changeFrame":
      case "removeFrame":
        this.changeFrames(this.edit(op.graph).ownFrames(), op);
        break;
      case "connect":
        this.connect(this.edit(op.graph), op);
        break;
      case "disconnect":
        this.disconnect(this.edit(op.graph), op);
        break;
      case "addGraph":
        refuse(whyIllegal(op.graph), "illegal-name");
        if (this.graphs.has(op.graph)) throw new Refusal("name-taken", `There is already a definition ${op.graph}.`);
        this.graphs.set(op.graph, EMPTY_GRAPH);
        break;
      case "removeGraph":
        this.removeGraph(op.graph);
        break;
      case "renameDocument":
        if (op.name.trim() === "" || op.name.length > MAX_NAME_LENGTH || /\p{C}/u.test(op.name)) {
          throw new Refusal("illegal-name", "A graph's name has 1 to 100 printable characters.");
        }
        this.name = op.name;
        break;
      case "setSize": {
        // What is calculated from it follows in Python's answer.
        const { [op.name]: _, ...others } = this.sizes;
        this.sizes = op.value === null || op.value === undefined ? others : { ...others, [op.name]: op.value };
        break;
      }
      default:
        assertNever(op);
    }
  }

  private edit(id = ""): DraftGraph {
    const open = this.touched.get(id);
    if (open) return open;
    const graph = this.graphs.get(id);
    if (!graph) throw new Refusal("unknown-graph", `There is no definition ${id}.`);
    const draft = new DraftGraph(graph);
    this.touched.set(id, draft);
    this.graphs.set(id, draft);
    return draft;
  }

  private addNode(op: Extract<Op, { op: "addNode" }>): void {
    const graph = this.edit(op.graph);
    refuse(whyReserved(op.name), "illegal-name");
    if (graph.nodes.has(op.name)) throw new Refusal("name-taken", `There is already a node ${op.name}.`);
    if (op.type === "") throw new Refusal("bad-value", "A node needs a type.");
    const node: NodeState = {
      name: op.name,
      type: op.type,
      properties: op.properties ?? {},
      position: checkedPosition(op.name, op.position ?? null),
      origin: op.origin ?? null,
      collapsed: op.collapsed ?? false,
    };
    this.checkDefinition(op.graph ?? "", node);
    if (op.index === undefined || op.index === null || op.index >= graph.nodes.size) {
      graph.nodes.set(op.name, node);
      return;
    }
    const entries = [...graph.nodes];
    entries.splice(Math.max(op.index, 0), 0, [op.name, node]);
    replaceEntries(graph.nodes, entries);
  }

  private removeNode(id: string, name: string): void {
    const graph = this.edit(id);
    const node = this.require(graph, name);
    this.dropOuterEdges(id, node);
    graph.nodes.delete(name);
    for (const [target, edge] of graph.edges) {
      if (nodeOf(target) === name || nodeOf(edge.source) === name) graph.dropEdge(target);
    }
  }

  /** An Input or Output node is a port of every node that shows its graph; the edges there go with it. */
  private dropOuterEdges(id: string, port: NodeState): void {
    if (port.type !== "Input" && port.type !== "Output") return;
    for (const user of blocksOf(this.graphs, id)) {
      const outer = this.edit(user.graph);
      const address = `${user.node}.${port.name}`;
      for (const [target, edge] of outer.edges) {
        if ((port.type === "Input" ? target : edge.source) === address) outer.dropEdge(target);
      }
    }
  }

  private renameNode(id: string, name: string, newName: string): void {
    const graph = this.edit(id);
    const node = this.require(graph, name);
    refuse(whyReserved(newName), "illegal-name");
    if (name === newName) return;
    if (graph.nodes.has(newName)) throw new Refusal("name-taken", `There is already a node ${newName}.`);
    if (node.type === "Input" || node.type === "Output") {
      const end = node.type === "Input" ? "target" : "source";
      for (const user of blocksOf(this.graphs, id)) {
        redirect(this.edit(user.graph), end, `${user.node}.${name}`, `${user.node}.${newName}`);
      }
    }
    const renamed = [...graph.nodes.values()].map((other): [string, NodeState] => {
      const next = other.name === name ? { ...other, name: newName } : other;
      if (next.properties?.shares !== name) return [next.name, next];
      return [next.name, { ...next, properties: { ...next.properties, shares: newName } }];
    });
    replaceEntries(graph.nodes, renamed);
    const follow = (address: string) => {
      const [other, port] = splitPort(address);
      return other === name ? `${newName}.${port}` : address;
    };
    const edges = [...graph.edges.values()].map((edge) => {
      const target = follow(edge.target);
      const source = follow(edge.source);
      return target === edge.target && source === edge.source ? edge : { source, target };
    });
    graph.replaceEdges(edges);
    if (!node.origin?.held) this.renameMember(id, name, newName);
  }

  /** Let what stands for a tensor of a renamed node go on standing for it, here and in the graphs around. */
  private renameMember(id: string, old: string, path: string): void {
    const graph = this.edit(id);
    for (const [name, node] of graph.nodes) {
      const of = node.properties?.of;
      if (typeof of !== "string" || !`${of}.`.startsWith(`${old}.`)) continue;
      graph.nodes.set(name, { ...node, properties: { ...node.properties, of: path + of.slice(old.length) } });
    }
    for (const { graph: around, node: block } of blocksOf(this.graphs, id)) {
      const member = this.graphs.get(around)?.nodes.get(block)?.origin?.held || block;
      this.renameMember(around, `${member}.${old}`, `${member}.${path}`);
    }
  }

  private changeNode({ name, graph: id }: { name: string; graph?: string }, change: () => Partial<NodeState>): void {
    const graph = this.edit(id);
    graph.nodes.set(name, { ...this.require(graph, name), ...change() });
  }

  private changeProperty(op: Extract<Op, { op: "setProperty" | "resetProperty" }>): void {
    const graph = this.edit(op.graph);
    const old = this.require(graph, op.node);
    const { [op.property]: _, ...others } = old.properties ?? {};
    const properties = op.op === "setProperty" ? { ...old.properties, [op.property]: op.value } : others;
    const node = { ...old, properties };
    if (op.property === "definition") {
      this.checkDefinition(op.graph ?? "", node);
      if (definitionOf(node) !== definitionOf(old)) this.dropLostEdges(graph, node);
    }
    graph.nodes.set(op.node, node);
  }

  /** What another definition has no ports for is not connected any more. */
  private dropLostEdges(graph: DraftGraph, node: NodeState): void {
    if (node.type !== "Subgraph") return;
    const inputs = interfaceOf(this.graphs, definitionOf(node), "Input");
    const outputs = interfaceOf(this.graphs, definitionOf(node), "Output");
    for (const [target, edge] of graph.edges) {
      const [to, input] = splitPort(target);
      const [from, output] = splitPort(edge.source);
      const lost = (to === node.name && !inputs.includes(input)) || (from === node.name && !outputs.includes(output));
      if (lost) graph.dropEdge(target);
    }
  }

  private checkDefinition(graph: string, node: NodeState): void {
    if (!showsDefinitions(node.type) || !("definition" in (node.properties ?? {}))) return;
    if (node.type === "Module" && node.properties?.definition === null) return;
    const id = definitionOf(node);
    if (id === null || id === "" || !this.graphs.has(id)) {
      throw new Refusal("bad-value", `${node.name}.definition: there is no such definition.`);
    }
    if (contains(this.graphs, id, graph)) {
      throw new Refusal("cycle", `${node.name} cannot show definition ${id}: a graph cannot contain itself.`);
    }
  }

  private connect(graph: DraftGraph, edge: EdgeState): void {
    const source = this.checkEnd(graph, edge.source, "Output");
    const target = this.checkEnd(graph, edge.target, "Input");
    if (graph.edges.has(edge.target)) {
      throw new Refusal("port-taken", `${edge.target} is already fed by ${graph.edges.get(edge.target)?.source}.`);
    }
    if (leadsTo(graph.neighbours(), target, source)) {
      throw new Refusal("cycle", `An edge from ${source} to ${target} would close a loop.`);
    }
    graph.setEdge({ source: edge.source, target: edge.target });
  }

  private checkEnd(graph: DraftGraph, address: string, type: "Input" | "Output"): string {
    const [name, port] = splitPort(address);
    const node = this.require(graph, name);
    const known = node.type !== "Subgraph" || interfaceOf(this.graphs, definitionOf(node), type).includes(port);
    if (port === "" || port.includes(".") || !known) {
      throw new Refusal("unknown-port", `${name} has no ${type.toLowerCase()} named “${port}”.`);
    }
    return name;
  }

  private disconnect(graph: DraftGraph, edge: EdgeState): void {
    if (graph.edges.get(edge.target)?.source !== edge.source) {
      throw new Refusal("unknown-edge", `There is no edge from ${edge.source} to ${edge.target}.`);
    }
    graph.dropEdge(edge.target);
  }

  private removeGraph(id: string): void {
    const graph = this.graphs.get(id);
    if (!graph || id === "") throw new Refusal("unknown-graph", `There is no definition “${id}” to remove.`);
    if (graph.nodes.size + graph.frames.size > 0)
      throw new Refusal("graph-in-use", `The definition ${id} is not empty.`);
    const [user] = usersOf(this.graphs, id);
    if (user) throw new Refusal("graph-in-use", `The definition ${id} is used by ${user.node}.`);
    this.graphs.delete(id);
    this.touched.delete(id);
  }

  private changeFrames(
    frames: Map<string, Frame>,
    op: Extract<Op, { op: "addFrame" | "changeFrame" | "removeFrame" }>,
  ): void {
    const { name } = op;
    const old = frames.get(name);
    if (op.op === "addFrame" && old) throw new Refusal("name-taken", `There is already a frame ${name}.`);
    if (op.op !== "addFrame" && !old) throw new Refusal("unknown-frame", `There is no frame ${name}.`);
    if (op.op === "removeFrame") {
      frames.delete(name);
      return;
    }
    const frame: Frame = {
      name,
      box: op.box ?? (old as Frame).box,
      title: op.title ?? old?.title ?? "",
      text: op.text ?? old?.text ?? "",
      colour: op.colour ?? old?.colour ?? "grey",
    };
    refuse(whyIllegal(name), "illegal-name");
    refuse(whyNotFrame(frame), "bad-value");
    frames.set(name, frame);
  }

  private require(graph: DraftGraph, name: string): NodeState {
    const node = graph.nodes.get(name);
    if (!node) throw new Refusal("unknown-node", `There is no node ${name}.`);
    return node;
  }
}

function refuse(reason: string | null, code: string): void {
  if (reason !== null) throw new Refusal(code, reason);
}

function checkedPosition(name: string, position: readonly [number, number] | null): readonly [number, number] | null {
  if (position !== null && !(position.length === 2 && position.every(Number.isFinite))) {
    throw new Refusal("bad-value", `${name} cannot be placed there: a position is a pair of finite numbers.`);
  }
  return position;
}

/** Gives one end of edges another address. */
function redirect(graph: DraftGraph, end: keyof EdgeState, from: string, to: string): void {
  graph.replaceEdges([...graph.edges.values()].map((edge) => (edge[end] === from ? { ...edge, [end]: to } : edge)));
}

function replaceEntries<V>(map: Map<string, V>, entries: [string, V][]): void {
  map.clear();
  for (const [key, value] of entries) map.set(key, value);
}

function assertNever(value: never): never {
  throw new Refusal("unknown-op", `This editor does not know the change ${JSON.stringify(value)}; reload the page.`);
}
