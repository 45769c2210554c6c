import type { NodeState } from "../../protocol";
import { definitionOf } from "./definitions";
import { type Graph, type GraphDocument, nodeOf, splitPort } from "./document";
import { UNWIRED, wiringOf } from "./wiring";

/** A pattern that repeats in a row of nodes: for each time, the names of its nodes in order; at least two times. */
export type Run = readonly Row[];
export type Row = readonly string[];

/** Most nodes of a pattern. */
const LONGEST = 8;

/**
 * Every run of a graph: nodes, or patterns of several, that are equal again and again, each of which feeds nothing but the
 * next, always the same way; whatever else they take comes from the same ports each time. `tests/cases/repeats.json` compares
 * with Python.
 *
 * Nodes are equal that have the same type and property values, or show graphs of which that is true, and for which
 * `resolved` gives equal values.
 */
export function runsOf({ graphs }: GraphDocument, graph: Graph, resolved: (name: string) => unknown): readonly Run[] {
  const { into, outOf } = wiringOf(graph);
  // The node that a node feeds and nothing else; and the only one that feeds a node so.
  const [next, previous] = [new Map<string, string>(), new Map<string, string>()];
  for (const [name, [first, ...others]] of outOf) {
    const taker = nodeOf(first?.target ?? "");
    if (others.some(({ target }) => nodeOf(target) !== taker)) continue;
    next.set(name, taker);
    previous.set(taker, previous.has(taker) ? "" : name);
  }
  const form = formsOf(graphs);
  const feedsAlike = (row: Row, at: number, length: number, isFirst: boolean) => {
    const mine = into.get(row[at] ?? "") ?? UNWIRED;
    const theirs = into.get(row[at + length] ?? "") ?? UNWIRED;
    if (mine.size !== theirs.size) return false;
    for (const [port, { source }] of theirs) {
      const own = mine.get(port)?.source ?? "";
      const [from, output] = splitPort(source);
      if (from !== row[at + length - 1]) {
        if (own !== source) return false;
      } else if (own === "" || (!isFirst && own !== `${row[at - 1]}.${output}`)) return false;
    }
    return true;
  };
  const runs: Run[] = [];
  for (const start of graph.nodes.keys()) {
    if (previous.get(start)) continue;
    const row = [start];
    for (let name = next.get(start); name && previous.get(name); name = next.get(name)) row.push(name);
    const nodes = row.map((name) => graph.nodes.get(name) as NodeState);
    const types = nodes.map(({ type }) => type);
    const repeats = (at: number, length: number, isFirst: boolean) =>
      types[at] === types[at + length] &&
      form(nodes[at] as NodeState) === form(nodes[at + length] as NodeState) &&
      textOf(resolved(row[at] ?? "")) === textOf(resolved(row[at + length] ?? "")) &&
      feedsAlike(row, at, length, isFirst);
    // Where the types of each length begin to repeat: a pattern begins there too, though its first layer may differ.
    const since: number[] = [];
    for (let at = 0, from = 0; at < row.length; ) {
      let best = { times: 1, length: 1, begin: at, until: at };
      for (let length = 1; length <= LONGEST && at + length < row.length; length += 1) {
        if (at === from || types[at - 1] !== types[at - 1 + length]) since[length] = at;
        // Several times what repeats already is no other pattern.
        if (length % best.length === 0 && at + length < best.until) continue;
        let end = at;
        while (end + length < row.length && repeats(end, length, end === at)) end += 1;
        const begin = at + ((length - ((at - (since[length] ?? at)) % length)) % length);
        const times = Math.floor((end + length - begin) / length);
        // What repeats most often, then what is longest.
        if (times > best.times || (times > 1 && times === best.times))
          best = { times, length, begin, until: end + length };
      }
      const { times, length, begin } = best;
      if (times > 1) {
        runs.push(Array.from({ length: times }, (_, k) => row.slice(begin + k * length, begin + (k + 1) * length)));
        from = begin + times * length;
      }
      at = Math.max(from, at + 1);
    }
  }
  if (runs.length < 2) return runs;
  const places = new Map([...graph.nodes.keys()].map((name, place) => [name, place]));
  const placeOf = ([[head = ""] = []]: Run) => places.get(head) ?? 0;
  return runs.sort((a, b) => placeOf(a) - placeOf(b));
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
const texts = new WeakMap<object, string>();

function textOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return "";
  const text = texts.get(value) ?? JSON.stringify(value);
  texts.set(value, text);
  return text;
}
