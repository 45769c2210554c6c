import type { Diagnostic, NodeState, NodeTypeState, PropertyState, PropertyType } from "../../protocol";
import { type Origin, originOf } from "../document/origin";
import type { Ports } from "../document/ports";
import type { Run } from "../document/repeats";
import { items } from "../values/check";
import { textOf } from "../values/text";
import { type Geometry, geometryOf } from "./geometry";

/** Everything that the picture of one node shows; two equal cards are the same object (`scene.ts`). */
export interface Card {
  readonly path: string;
  readonly name: string;
  readonly type: string;
  readonly category: string;
  readonly known: boolean;
  readonly summary: string;
  readonly ports: Ports;
  readonly geometry: Geometry;
  readonly diagnostics: readonly Diagnostic[];
  readonly label: string;
  readonly collapsed: boolean;
  /** How many nodes of the document show the same definition; 0 for what shows none. */
  readonly uses: number;
  readonly origin: Origin | null;
  /** Names of the nodes that it stands for, itself first, if equal ones in a row are folded into it. */
  readonly run: Run | null;
  /** What is written on it: its name, or those of the first and the last of a run. */
  readonly title: string;
}

/** Arguments that say how many numbers go in, and those that say how many come out. */
const INTO = ["in_channels", "in_features", "input_size"];
const OUT_OF = ["out_channels", "out_features", "hidden_size"];
const MAX_PARTS = 4;
const MAX_VALUE = 24;

export function cardOf(
  path: string,
  node: NodeState,
  type: NodeTypeState | undefined,
  ports: Ports,
  resolved: Readonly<Record<string, unknown>> | undefined,
  diagnostics: readonly Diagnostic[],
  uses: number,
  isCatalogThere = true,
  run: Run | null = null,
): Card {
  const summary = summaryOf(node, type, resolved);
  const errors = diagnostics.filter((diagnostic) => diagnostic.severity !== "info").length;
  const collapsed = node.collapsed ?? false;
  const shown = uses > 1 ? `, shown ${uses} times` : "";
  const origin = originOf(node);
  const opaque = origin?.proof === "opaque" ? ", opaque" : "";
  const problems = errors === 0 ? "" : `, ${errors} ${errors === 1 ? "problem" : "problems"}`;
  const called = run ? `${node.name} to ${run.at(-1)}, ${run.length} equal nodes in a row` : node.name;
  return {
    path,
    name: node.name,
    type: node.type,
    category: node.type === "Subgraph" ? "Block" : (type?.category ?? "Unknown"),
    // Without a catalogue, as in a page without a kernel, nothing can be said of any type.
    known: type !== undefined || !isCatalogThere || node.type === "Subgraph",
    summary,
    ports,
    geometry: geometryOf(ports, summary !== "", collapsed),
    diagnostics,
    label: `${called}, ${node.type}${summary ? `, ${summary}` : ""}${shown}${opaque}${collapsed ? ", collapsed" : ""}${problems}`,
    collapsed,
    uses,
    origin,
    run,
    title: run ? `${node.name} … ${run.at(-1)}` : node.name,
  };
}

/** How many nodes it stands for, or else show what it shows: `×8`. */
export function timesOf({ run, uses }: Card): string {
  const count = run?.length ?? uses;
  return count > 1 ? `×${count}` : "";
}

/** The few values that matter, on one line: `1→6 · 5×5 · stride 2`; mirrors `summary` in Python. */
export function summaryOf(
  node: NodeState,
  type: NodeTypeState | undefined,
  resolved: Readonly<Record<string, unknown>> = {},
): string {
  const given = node.properties ?? {};
  if (node.type === "Subgraph")
    return typeof given.definition === "string" && given.definition !== node.name ? given.definition : "";
  const properties = type?.properties ?? [];
  const valueFor = (property: PropertyState) => {
    const value = property.name in given ? given[property.name] : property.default;
    return value === "auto" && property.name in resolved ? resolved[property.name] : value;
  };
  const parts: string[] = [];
  const into = properties.find((property) => INTO.includes(property.name));
  const out = properties.find((property) => OUT_OF.includes(property.name));
  if (into && out) parts.push(`${short(valueFor(into))}→${short(valueFor(out))}`);
  for (const property of properties) {
    if (into && out && (property === into || property === out)) continue;
    const value = valueFor(property);
    if (property.name === "kernel_size" && value !== undefined) parts.push(times(property.type, value));
    else if (property.name === "shape" && Array.isArray(value)) parts.push(value.join("×") || "scalar");
    else if (property.required && property.name in given) parts.push(`${brief(property.name)} ${short(value)}`);
    else if (
      property.name in given &&
      JSON.stringify(given[property.name]) !== JSON.stringify(property.default ?? null)
    ) {
      parts.push(
        typeof value === "boolean"
          ? `${value ? "" : "no "}${property.name}`
          : `${brief(property.name)} ${short(value)}`,
      );
    } else if (property.name in resolved && value === resolved[property.name]) parts.push(short(value));
  }
  return parts.slice(0, MAX_PARTS).join(" · ");
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
  if (list && list.length > 0) {
    if (list.every((item) => typeof item === "number")) return list.map((item) => textOf(null, item)).join("×");
    if (list.length > 1) return textOf(null, list).slice(0, MAX_VALUE);
  }
  return textOf(null, value).slice(0, MAX_VALUE);
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
