import type { EdgeState } from "../../protocol";
import { type Graph, nodeOf, splitPort } from "./document";

/** The edges of a graph by node: what each view of a node needs to know. */
export interface Wiring {
  /** Edges into each port, by node and port name. */
  readonly into: ReadonlyMap<string, ReadonlyMap<string, EdgeState>>;
  readonly outOf: ReadonlyMap<string, readonly EdgeState[]>;
}

const known = new WeakMap<Graph["edges"], Wiring>();

export const UNWIRED: ReadonlyMap<string, EdgeState> = new Map();

/** The wiring of a graph, worked out once for the same edges; they must not change any more. */
export function wiringOf(graph: Graph): Wiring {
  const earlier = known.get(graph.edges);
  if (earlier) return earlier;
  const into = new Map<string, Map<string, EdgeState>>();
  const outOf = new Map<string, EdgeState[]>();
  for (const edge of graph.edges.values()) {
    const [target, port] = splitPort(edge.target);
    const source = nodeOf(edge.source);
    const ports = into.get(target);
    if (ports) ports.set(port, edge);
    else into.set(target, new Map([[port, edge]]));
    const list = outOf.get(source);
    if (list) list.push(edge);
    else outOf.set(source, [edge]);
  }
  const wiring = { into, outOf };
  known.set(graph.edges, wiring);
  return wiring;
}

/** Notes the wiring of edges of which only those into some ports differ from earlier ones: most nodes keep theirs. */
export function rewire(before: Graph["edges"], after: Graph["edges"], targets: Iterable<string>): void {
  origins.set(after, new WeakRef(before));
  const earlier = known.get(before);
  if (!earlier) return;
  const [into, outOf] = [new Map(earlier.into), new Map(earlier.outOf)];
  for (const target of targets) {
    const [node, port] = splitPort(target);
    const [old, made] = [before.get(target), after.get(target)];
    if (old === made) continue;
    const ports = new Map(into.get(node));
    if (made) ports.set(port, made);
    else ports.delete(port);
    if (ports.size > 0) into.set(node, ports);
    else into.delete(node);
    for (const edge of [old, made]) {
      if (!edge) continue;
      const source = nodeOf(edge.source);
      const others = (outOf.get(source) ?? []).filter((each) => each !== edge);
      if (edge === made) others.push(edge);
      if (others.length > 0) outOf.set(source, others);
      else outOf.delete(source);
    }
  }
  known.set(after, { into, outOf });
}

/** A graph as numbers in the order of its nodes and edges, for work on a whole large graph at each edit. */
export interface Columns {
  readonly names: readonly string[];
  /** The places of the nodes in the document; not a number for one without. */
  readonly xs: Float64Array;
  readonly ys: Float64Array;
  /** The nodes at which each edge begins and ends; -1 for none. */
  readonly from: Int32Array;
  readonly to: Int32Array;
}

const columns = new WeakMap<Graph, Columns>();
/** The last ones of each set of edges: an edit of a node leaves the edges as they are. */
const lastColumns = new WeakMap<Graph["edges"], Columns>();

/** What edges were made of. */
const origins = new WeakMap<Graph["edges"], WeakRef<Graph["edges"]>>();

export function columnsOf(graph: Graph): Columns {
  const made = columns.get(graph);
  if (made) return made;
  const before = lastColumns.has(graph.edges) ? graph.edges : origins.get(graph.edges)?.deref();
  const earlier = before && lastColumns.get(before);
  const size = graph.nodes.size;
  const [xs, ys] = [new Float64Array(size), new Float64Array(size)];
  const names: string[] = new Array(size);
  let [place, isSame] = [0, earlier?.names.length === size];
  for (const { name, position } of graph.nodes.values()) {
    names[place] = name;
    isSame &&= earlier?.names[place] === name;
    xs[place] = position?.[0] ?? Number.NaN;
    ys[place] = position?.[1] ?? Number.NaN;
    place += 1;
  }
  const ends = isSame && earlier && before ? endsAfter(graph, earlier, before) : endsOf(graph, names);
  const found = { names, xs, ys, from: ends.from, to: ends.to };
  columns.set(graph, found);
  lastColumns.set(graph.edges, found);
  return found;
}

type Ends = Pick<Columns, "from" | "to">;

function endsOf({ edges }: Graph, names: readonly string[]): Ends {
  const index = new Map(names.map((name, place) => [name, place]));
  const [from, to] = [new Int32Array(edges.size), new Int32Array(edges.size)];
  let place = 0;
  for (const { source, target } of edges.values()) {
    from[place] = index.get(nodeOf(source)) ?? -1;
    to[place] = index.get(nodeOf(target)) ?? -1;
    place += 1;
  }
  return { from, to };
}

/** The same where the nodes are those of before: only edges that are new are looked up. */
function endsAfter({ edges }: Graph, earlier: Columns, before: Graph["edges"]): Ends {
  if (edges === before) return earlier;
  const [from, to] = [new Int32Array(edges.size), new Int32Array(edges.size)];
  const old = before.values();
  let [place, oldPlace, next] = [0, 0, old.next()];
  for (const edge of edges.values()) {
    while (!next.done && next.value !== edge && edges.get(next.value.target) !== next.value) {
      next = old.next();
      oldPlace += 1;
    }
    const isOld = next.value === edge;
    from[place] = isOld ? (earlier.from[oldPlace] as number) : earlier.names.indexOf(nodeOf(edge.source));
    to[place] = isOld ? (earlier.to[oldPlace] as number) : earlier.names.indexOf(nodeOf(edge.target));
    place += 1;
    if (isOld) {
      next = old.next();
      oldPlace += 1;
    }
  }
  return { from, to };
}
