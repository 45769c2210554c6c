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
export function runsOf({ graphs }: GraphDocument, graph: Graph, resolved: (name: string) => unknown): readonly Run[] {
  const { into, outOf } = wiringOf(graph);
  const form = formsOf(graphs);
  const formOf = (name: string) => `${form(graph.nodes.get(name) as NodeState)} ${JSON.stringify(resolved(name))}`;
  /** The node that a node feeds and nothing else, and how; null unless the two are a part of a run. */
  const nextOf = (name: string): { name: string; how: string } | null => {
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
    if (mine.size !== theirs.size || formOf(name) !== formOf(next)) return null;
    const how: string[] = [];
    for (const [port, { source }] of theirs) {
      const [giver, output] = splitPort(source);
      if (giver === name) how.push(`${output} ${port}`);
      if (!mine.has(port) || (giver !== name && mine.get(port)?.source !== source)) return null;
    }
    return { name: next, how: how.sort().join() };
  };
  const links = new Map<string, { name: string; how: string }>();
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
    const { definition: _, ...properties } = node.properties ?? {};
    const id = definitionOf(node);
    const own = id === null ? (node.properties ?? {}) : properties;
    const sorted = Object.entries(own).sort(([a], [b]) => (a < b ? -1 : 1));
    return JSON.stringify([node.type, sorted, id === null ? null : numberOf(id)]);
  };
  return form;
}
