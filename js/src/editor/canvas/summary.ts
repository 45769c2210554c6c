import type { NodeState, NodeTypeState, PropertyState, PropertyType } from "../../protocol";
import { items, tagged } from "../values/check";
import { textOf } from "../values/text";

/** Words on a card, and the property that they tell of; null where they tell of none that is edited there. */
export interface Value {
  readonly property: PropertyState | null;
  readonly text: string;
}

/** Values that belong together: `1→6` are two. */
export type Part = readonly Value[];

/** Arguments that say how many numbers go in, and those that say how many come out. */
const INTO = ["in_channels", "in_features", "input_size"];
const OUT_OF = ["out_channels", "out_features", "hidden_size"];
const MAX_PARTS = 4;
const MAX_VALUE = 24;

export const WITHIN_PART = "→";
export const BETWEEN_PARTS = " · ";

/** The few values that matter, on one line: `1→6 · 5×5 · stride 2`; mirrors `summary` in Python. */
export function summaryOf(
  node: NodeState,
  type: NodeTypeState | undefined,
  resolved: Readonly<Record<string, unknown>> = {},
): string {
  return partsOf(node, type, resolved)
    .map((part) => part.map(({ text }) => text).join(WITHIN_PART))
    .join(BETWEEN_PARTS);
}

/** What the line of a card is made of: sizes, what is required, and whatever is not at its default. */
export function partsOf(
  node: NodeState,
  type: NodeTypeState | undefined,
  resolved: Readonly<Record<string, unknown>> = {},
): readonly Part[] {
  const given = node.properties ?? {};
  if (node.type === "Subgraph") {
    const { definition } = given;
    const isNamed = typeof definition === "string" && definition !== node.name;
    return isNamed ? [[{ property: null, text: definition }]] : [];
  }
  if (node.type === "Module") {
    const name = typeof given.target === "string" ? (given.target.split(".").at(-1) ?? "") : "";
    return name ? [[{ property: null, text: name }]] : [];
  }
  const properties = type?.properties ?? [];
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
    if (sizes.includes(property)) continue;
    const text = textFor(property, valueFor(property), given, resolved);
    if (text !== null) parts.push([{ property, text }]);
  }
  return parts.slice(0, MAX_PARTS);
}

/** The properties that are edited on the card: those that its line tells of, and others of its type up to a few. */
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
  if (property.name === "shape" && Array.isArray(value)) return value.join("×") || "scalar";
  // What is required and may come along an edge is not missing yet.
  if (property.required && (isGiven || property.role !== "call")) return `${brief(property.name)} ${short(value)}`;
  if (isGiven && JSON.stringify(given[property.name]) !== JSON.stringify(property.default ?? null)) {
    return typeof value === "boolean"
      ? `${value ? "" : "no "}${property.name}`
      : `${brief(property.name)} ${short(value)}`;
  }
  return property.name in resolved && value === resolved[property.name] ? short(value) : null;
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
    if (list.every((item) => typeof item === "number")) return list.map((item) => textOf(null, item)).join("×");
    if (list.length > 1) return textOf(null, list).slice(0, MAX_VALUE);
  }
  return textOf(null, value).slice(0, MAX_VALUE);
}

function isSlice(value: unknown): boolean {
  return Array.isArray(tagged(value, "$slice"));
}

/** What stands between brackets in Python: `1:` for a slice from 1 on. */
function subscript(value: unknown): string {
  const parts = tagged(value, "$slice");
  if (!Array.isArray(parts)) return textOf(null, value);
  const [start, stop, step] = parts.map((part) => (part === null ? "" : textOf(null, part)));
  return `${start}:${stop}${step ? `:${step}` : ""}`;
}

/** A window size in every dimension: 5 in a two-dimensional layer is `5×5`. */
function times(kind: PropertyType, value: unknown): string {
  const length = tupleLength(kind);
  return typeof value === "number" && length ? Array.from({ length }, () => value).join("×") : short(value);
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
