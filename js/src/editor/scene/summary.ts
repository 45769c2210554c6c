import type { NodeState, NodeTypeState, PropertyState, PropertyType } from "../../protocol";
import { definitionOf } from "../document/definitions";
import type { GraphDocument } from "../document/document";
import { TRAINABLE } from "../document/freezing";
import { namedShape } from "../document/origin";
import { numberOf } from "../values/calculate";
import { items, tagged } from "../values/check";
import { innerText, textOf } from "../values/text";

/** Words on a card, and the property that they tell of; null where they tell of none that is edited there. */
export interface Value {
  readonly property: PropertyState | null;
  readonly text: string;
  /** The node that they are the value of, if one is written instead of drawn. */
  readonly from?: string;
}

/** Values that belong together: `1→6` are two. */
export type Part = readonly Value[];

/** Arguments that say how many numbers go in, and those that say how many come out. */
const INTO = ["in_channels", "in_features", "input_size"];
const OUT_OF = ["out_channels", "out_features", "hidden_size"];
/** Begins the condition of a check, which is written on the card of an Input. */
export const NEEDS = "needs ";
/** Kinds of nodes of a block that its card names. */
const MOST_KINDS = 3;
const GENERIC = ["Sequential", "Subgraph"];
/** Types of nodes in a block that are no parts of it to a reader. */
const NO_PART = ["Input", "Output", "Constant", "Parameter", "Buffer"];
const MAX_PARTS = 4;
const MAX_VALUE = 24;
/** Letters of a name, and of a type, that fit a narrow card, and those that a mark beside them takes. */
const [NAME, MARK] = [15, 3];
/** Letters in one line of a narrow and of a wide card, and lines of one. */
const [LINE, WIDE_LINE] = [20, 26];
const MAX_LINES = 5;
/** Properties and ports whose values say enough without their names. */
const PLAIN = ["size", "shape", "dims", "dim0", "dim1", "other", "input", "a", "b"];

/** What is written for ports that hidden nodes feed, and by which, by port (`inlining.ts`). */
export type Written = ReadonlyMap<string, { readonly text: string; readonly from: string }>;

const NOTHING_WRITTEN: Written = new Map();

export const WITHIN_PART = "→";
export const BETWEEN_PARTS = " · ";

/** Parts in one line: `1→6 · 5×5 · stride 2`; `tests/cases/cards.json` compares with Python's. */
export function wordsOf(parts: readonly Part[]): string {
  return parts.map(partText).join(BETWEEN_PARTS);
}

function partText(part: Part): string {
  return part.map(({ text }) => text).join(WITHIN_PART);
}

/** Whether a text of a card is cut or broken on a narrow one; as `is_wide` in Python. */
export function isWide(title: string, kind: string, parts: readonly Part[], marks = 0): boolean {
  const most = Math.max(title.length, kind.length);
  return most > NAME - MARK * marks || parts.some((part) => partText(part).length > LINE);
}

/** The lines in which a card says its parts: as many in each as fit; a long one goes on below. */
export function linesOf(parts: readonly Part[], wide = false): readonly (readonly Part[])[] {
  const most = wide ? WIDE_LINE : LINE;
  const lines: { parts: Part[]; length: number }[] = [];
  for (const part of parts) {
    const words = partText(part);
    const last = lines.at(-1);
    if (last && last.length + BETWEEN_PARTS.length + words.length <= most) {
      last.parts.push(part);
      last.length += BETWEEN_PARTS.length + words.length;
      continue;
    }
    const [value] = part;
    for (const text of wrapped(words, most))
      lines.push({ parts: [value && part.length === 1 ? [{ ...value, text }] : part], length: text.length });
  }
  const made = lines.map((line) => line.parts);
  if (made.length <= MAX_LINES) return made;
  const cut = `${wordsOf(made[MAX_LINES - 1] ?? []).slice(0, most - 1)}…`;
  return [...made.slice(0, MAX_LINES - 1), [[{ property: null, text: cut }]]];
}

/** Wraps words into lines; a word that is longer than a line is broken anywhere. */
function wrapped(words: string, most: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (let word of words.split(" ")) {
    if (line && line.length + 1 + word.length <= most) {
      line += ` ${word}`;
      continue;
    }
    if (line) lines.push(line);
    for (; word.length > most; word = word.slice(most)) lines.push(word.slice(0, most));
    line = word;
  }
  return [...lines, line];
}

/** The parts of a card's line: sizes, required values, and values other than the defaults. */
export function partsOf(
  node: NodeState,
  type: NodeTypeState | undefined,
  resolved: Readonly<Record<string, unknown>> = {},
  written: Written = NOTHING_WRITTEN,
): readonly Part[] {
  const given = node.properties ?? {};
  const told = [...written].map(([port, { text, from }]): Part => {
    const isPlain = PLAIN.includes(port) || text.startsWith(NEEDS) || /\d$/.test(port);
    const words = port === "index" ? `[${text}]` : isPlain ? text : `${brief(port)} ${text}`;
    return [{ property: null, text: words, from }];
  });
  if (node.type === "Subgraph") return told;
  if (node.type === "Module") {
    const text = kindOf(node, new Map());
    return text ? [[{ property: null, text }], ...told] : told;
  }
  const properties =
    type?.properties?.filter((property) => property.name !== PROMOTED && property.name !== TRAINABLE) ?? [];
  const valueFor = (property: PropertyState) => {
    const value = property.name in given ? given[property.name] : property.default;
    return value === "auto" && property.name in resolved ? resolved[property.name] : value;
  };
  const parts: Part[] = [];
  const into = properties.find((property) => INTO.includes(property.name));
  const out = properties.find((property) => OUT_OF.includes(property.name));
  const sizes = into && out ? [into, out] : [];
  if (sizes.length > 0) parts.push(sizes.map((property) => ({ property, text: short(valueFor(property)) })));
  // Where a node runs, and whether it is computed again, was chosen for this one: it must not be cut off.
  const isOwn = (property: PropertyState) => property.role === "node";
  for (const property of [...properties.filter(isOwn), ...properties.filter((other) => !isOwn(other))]) {
    if (sizes.includes(property) || written.has(property.name)) continue;
    const value = property.name === "shape" ? namedShape(node, valueFor(property)) : valueFor(property);
    const text = textFor(property, value, given, resolved);
    if (text !== null) parts.push([{ property, text }]);
  }
  return [...told, ...parts.slice(0, MAX_PARTS)];
}

/**
 * What a block is: its class, or what it holds where that says no more than its name: `BasicBlock ×2`. As `block_words`
 * in Python.
 */
export function blockWords(node: NodeState, graphs: GraphDocument["graphs"]): string {
  const title = kindOf(node, graphs);
  if (!GENERIC.includes(title) && title.toLowerCase() !== unnumbered(node.name).toLowerCase()) return title;
  const inside = [...(graphs.get(definitionOf(node) ?? "")?.nodes.values() ?? [])];
  const held = inside.filter(({ type }) => !NO_PART.includes(type));
  const layers = held.filter(({ type }) => /^[A-Z]/.test(type));
  const kinds = (layers.length > 0 ? layers : held).map((each) => kindOf(each, graphs));
  for (let length = 1; length <= MOST_KINDS && 2 * length <= kinds.length; length += 1) {
    if (kinds.length % length > 0 || kinds.some((kind, place) => kind !== kinds[place % length])) continue;
    const row = kinds.slice(0, length).join(BETWEEN_PARTS);
    return `${length === 1 ? row : `(${row})`} ×${kinds.length / length}`;
  }
  const words = [...new Set(kinds)].map((kind) => {
    const count = kinds.filter((each) => each === kind).length;
    return count > 1 ? `${kind} ×${count}` : kind;
  });
  if (words.length > MOST_KINDS) words.splice(MOST_KINDS, words.length, "…");
  return words.join(BETWEEN_PARTS) || "block";
}

/** The name of a card for a row of nodes: `h_0 … 5`. */
export function rowTitle(first: string, last: string): string {
  const stem = unnumbered(first);
  return `${first} … ${stem === unnumbered(last) && /_\d+$/.test(last) ? last.slice(stem.length + 1) : last}`;
}

/** The type of a node; of a block and of a closed module, the class, without the number of a definition. */
export function kindOf(node: NodeState, graphs: GraphDocument["graphs"]): string {
  if (node.type === "Module") return String(node.properties?.target ?? "").replace(/.*\./, "");
  const definition = definitionOf(node) ?? node.type;
  const stem = unnumbered(definition);
  return graphs.has(stem) || GENERIC.includes(stem) ? stem : definition;
}

function unnumbered(name: string): string {
  return name.replace(/_?\d+$/, "");
}

/** The property that names what a block shows of a node inside as its own. */
export const PROMOTED = "promoted";

/** The properties of a node that the block around it shows as its own. */
export function promotedOf(node: NodeState, type: NodeTypeState | undefined): readonly PropertyState[] {
  const names = items(node.properties?.[PROMOTED]) ?? [];
  return names.flatMap((name) => type?.properties?.find((property) => property.name === name) ?? []);
}

/** The same in words, as they stand on the card of the block: `conv1 3×3`. */
export function promotedParts(node: NodeState, type: NodeTypeState | undefined): readonly Part[] {
  return promotedOf(node, type).map((property): Part => {
    const { name } = property;
    const value = name in (node.properties ?? {}) ? node.properties?.[name] : property.default;
    const words = name === "kernel_size" ? times(property.type, value) : told(name, value);
    return [{ property: null, text: `${node.name} ${words}` }];
  });
}

/** The properties that are edited on the card: those of its line, and a few others of its type. */
export function mainProperties(
  node: NodeState,
  type: NodeTypeState | undefined,
  resolved: Readonly<Record<string, unknown>> = {},
): readonly PropertyState[] {
  if (node.type === "Subgraph" || node.type === "Module") return [];
  const told = partsOf(node, type, resolved).flatMap((part) => part.flatMap(({ property }) => property ?? []));
  const others = (type?.properties ?? []).filter(
    (property) => !told.includes(property) && (property.role ?? "init") === "init",
  );
  return [...told, ...others.slice(0, Math.max(0, MAX_PARTS - told.length))];
}

function textFor(
  property: PropertyState,
  value: unknown,
  given: Readonly<Record<string, unknown>>,
  resolved: Readonly<Record<string, unknown>>,
): string | null {
  const isGiven = property.name in given;
  if (property.name === "kernel_size" && value !== undefined) return times(property.type, value);
  if (property.name === "shape" && Array.isArray(value))
    return value.map((size) => textOf(null, size)).join("×") || "scalar";
  // What is required and may come along an edge is not missing yet.
  if (property.required && (isGiven || property.role !== "call")) return told(property.name, value);
  if (isGiven && JSON.stringify(given[property.name]) !== JSON.stringify(property.default ?? null)) {
    return typeof value === "boolean" ? `${value ? "" : "no "}${property.name}` : told(property.name, value);
  }
  return property.name in resolved && value === resolved[property.name] ? short(value) : null;
}

function told(name: string, value: unknown): string {
  return PLAIN.includes(name) ? short(value) : `${brief(name)} ${short(value)}`;
}

function brief(name: string): string {
  return name
    .replace(/^(num|n)_/, "")
    .replace(/_(size|channels|features)$/, "")
    .replace(/^padding$/, "pad");
}

function short(value: unknown): string {
  if (value === undefined) return "?";
  if (value === "auto") return "auto";
  const list = items(value);
  if ((list ?? [value]).some(isSlice)) return `[${(list ?? [value]).map(subscript).join(", ")}]`.slice(0, MAX_VALUE);
  if (list && list.length > 0) {
    if (list.every((item) => numberOf(item) !== null)) return list.map((item) => textOf(null, item)).join("×");
    if (list.length > 1) return textOf(null, list).slice(0, MAX_VALUE);
  }
  return textOf(null, value).slice(0, MAX_VALUE);
}

function isSlice(value: unknown): boolean {
  return Array.isArray(tagged(value, "$slice"));
}

/** All that stands between brackets in Python: `:, 0` for the tuple of a slice and a number. */
export function brackets(value: unknown): string {
  return (Array.isArray(value) ? value : [value]).map(subscript).join(", ") || "()";
}

/** One of them: `1:` for a slice from 1 on. */
export function subscript(value: unknown): string {
  const parts = tagged(value, "$slice");
  if (!Array.isArray(parts)) return innerText(value);
  const [start, stop, step] = parts.map((part) => (part === null ? "" : textOf(null, part)));
  return `${start}:${stop}${step ? `:${step}` : ""}`;
}

/** A window size in every dimension: 5 in a two-dimensional layer is `5×5`. */
function times(kind: PropertyType, value: unknown): string {
  const length = tupleLength(kind);
  return numberOf(value) !== null && length
    ? Array.from({ length }, () => textOf(null, value)).join("×")
    : short(value);
}

function tupleLength(kind: PropertyType): number | null {
  switch (kind.type) {
    case "tuple":
      return kind.length ?? null;
    case "optional":
      return tupleLength(kind.item);
    case "union":
      return kind.options.map(tupleLength).find((length) => length !== null) ?? null;
    default:
      return null;
  }
}
