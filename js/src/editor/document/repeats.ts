import type { NodeState } from "../../protocol";
import { definitionOf } from "./definitions";
import { type Graph, type GraphDocument, splitPort } from "./document";
import { UNWIRED, wiringOf } from "./wiring";

/** Names of equal nodes in a row, the first one first; at least two. */
export type Run = readonly string[];

/**
 * Every run of a graph: nodes that are equal, each of which feeds nothing but the next, always the same way; whatever
 * else they take comes from the same ports for all of them. `tests/cases/repeats.json` compares with Python.
 *
 * Nodes are equal that have the same type and property values, or show graphs of which that is true, and for which
 * `resolved` gives equal values.
 */
export function runsOf(document: GraphDocument, graph: Graph, resolved: (name: string) => unknown): readonly Run[] {
  const nextOf = linker(document, graph, resolved);
  const links = new Map<string, Link>();
  for (const name of graph.nodes.keys()) {
    const link = nextOf(name);
    if (link) links.set(name, link);
  }
  const follows = new Set([...links.values()].map(({ name }) => name));
  const runs: Run[] = [];
  const taken = new Set<string>();
  // From where each row begins; where the way of feeding changes, another run does.
  const starts = [...links.keys()].filter((name) => !follows.has(name));
  for (const start of starts) {
    const run = [start];
    let link = links.get(start);
    const how = link?.how;
    while (link && link.how === how && !taken.has(link.name)) {
      run.push(link.name);
      taken.add(link.name);
      link = links.get(link.name);
    }
    if (link && !taken.has(link.name)) starts.push(link.name);
    if (run.length > 1) runs.push(run);
  }
  if (runs.length < 2) return runs;
  const places = new Map([...graph.nodes.keys()].map((name, place) => [name, place]));
  return runs.sort(([a = ""], [b = ""]) => (places.get(a) ?? 0) - (places.get(b) ?? 0));
}

/** A node of a run and the way it is fed by the one before. */
interface Link {
  readonly name: string;
  readonly how: string;
}

/** Returns what finds the node that a node feeds and nothing else, and how; null unless the two are a part of a run. */
function linker(
  { graphs }: GraphDocument,
  graph: Graph,
  resolved: (name: string) => unknown,
): (name: string) => Link | null {
  const { into, outOf } = wiringOf(graph);
  const form = formsOf(graphs);
  const areEqual = (one: string, other: string) =>
    form(graph.nodes.get(one) as NodeState) === form(graph.nodes.get(other) as NodeState) &&
    JSON.stringify(resolved(one)) === JSON.stringify(resolved(other));
  return (name) => {
    const edges = outOf.get(name) ?? [];
    const [next] = splitPort(edges[0]?.target ?? "");
    const node = graph.nodes.get(name);
    if (
      !next ||
      graph.nodes.get(next)?.type !== node?.type ||
      edges.some(({ target }) => splitPort(target)[0] !== next)
    )
      return null;
    const [mine, theirs] = [into.get(name) ?? UNWIRED, into.get(next) ?? UNWIRED];
    if (mine.size !== theirs.size || !areEqual(name, next)) return null;
    const how: string[] = [];
    for (const [port, { source }] of theirs) {
      const [giver, output] = splitPort(source);
      if (giver === name) how.push(`${output} ${port}`);
      if (!mine.has(port) || (giver !== name && mine.get(port)?.source !== source)) return null;
    }
    return { name: next, how: how.sort().join() };
  };
}

/** Whether a node may be in a run, whatever is inferred for it: what it is joined to says so, without a look at the rest. */
export function mayRepeat(document: GraphDocument, graph: Graph, name: string): boolean {
  const nextOf = linker(document, graph, () => null);
  const before = [...(wiringOf(graph).into.get(name)?.values() ?? [])].map(({ source }) => splitPort(source)[0]);
  return nextOf(name) !== null || before.some((giver) => nextOf(giver)?.name === name);
}

type Place = readonly [GraphDocument, Graph];

/** Whether a graph has the same runs as before, because nothing was changed since but where its nodes stand. */
export function haveSameRuns([before, graph]: Place, [{ graphs }, after]: Place): boolean {
  if (graph.edges !== after.edges || graph.nodes.size !== after.nodes.size || before.graphs.size !== graphs.size)
    return false;
  for (const [id, each] of graphs) if (each !== after && before.graphs.get(id) !== each) return false;
  const earlier = graph.nodes.values();
  for (const node of after.nodes.values()) {
    const { value } = earlier.next();
    if (
      node !== value &&
      (node.name !== value?.name || node.type !== value.type || node.properties !== value.properties)
    )
      return false;
  }
  return true;
}

/**
 * Turns nodes into texts that are the same for nodes that are equal; definitions that say the same have the same
 * number, so that the texts stay short however deep graphs are nested.
 */
function formsOf(graphs: GraphDocument["graphs"]): (node: NodeState) => string {
  const known = new Map<string, number>();
  const numbers = new Map<string, number>();
  const numberOf = (id: string): number => {
    const earlier = known.get(id);
    if (earlier !== undefined) return earlier;
    const graph = graphs.get(id);
    const nodes = [...(graph?.nodes.values() ?? [])].map((node) => [node.name, form(node)]);
    const edges = [...(graph?.edges.values() ?? [])].map(({ source, target }) => `${target} ${source}`).sort();
    const text = JSON.stringify([nodes, edges]);
    const number = numbers.get(text) ?? numbers.size;
    numbers.set(text, number);
    known.set(id, number);
    return number;
  };
  const form = (node: NodeState): string => {
    const id = definitionOf(node);
    const earlier = id === null ? plainForms.get(node) : undefined;
    if (earlier !== undefined) return earlier;
    const { definition: _, ...properties } = node.properties ?? {};
    const own = id === null ? (node.properties ?? {}) : properties;
    const sorted = Object.entries(own).sort(([a], [b]) => (a < b ? -1 : 1));
    const text = JSON.stringify([node.type, sorted, id === null ? null : numberOf(id)]);
    if (id === null) plainForms.set(node, text);
    return text;
  };
  return form;
}

/** The texts of nodes that show no definition: of a large graph, an edit changes one of them. */
const plainForms = new WeakMap<NodeState, string>();
