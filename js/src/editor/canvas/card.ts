import type { Diagnostic, NodeState, NodeTypeState } from "../../protocol";
import { definitionOf } from "../document/definitions";
import { type Origin, originOf } from "../document/origin";
import type { Ports } from "../document/ports";
import type { Run } from "../document/repeats";
import { type Geometry, geometryOf } from "./geometry";
import { summaryOf } from "./summary";

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
  /** Whether there is a graph inside that can be entered. */
  readonly inside: boolean;
  /** Names of the nodes that it stands for, itself first, if equal ones in a row are folded into it. */
  readonly run: Run | null;
  /** What is written on it: its name, or those of the first and the last of a run. */
  readonly title: string;
}

/** What decides how a node looks. */
export function categoryOf(node: NodeState, type: NodeTypeState | undefined): string {
  return node.type === "Subgraph" ? "Block" : (type?.category ?? "Unknown");
}

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
  across = false,
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
    category: categoryOf(node, type),
    // Without a catalogue, as in a page without a kernel, nothing can be said of any type.
    known: type !== undefined || !isCatalogThere || node.type === "Subgraph",
    summary,
    ports,
    geometry: geometryOf(ports, summary !== "", collapsed, across),
    diagnostics,
    label: `${called}, ${node.type}${summary ? `, ${summary}` : ""}${shown}${opaque}${collapsed ? ", collapsed" : ""}${problems}`,
    collapsed,
    uses,
    origin,
    inside: definitionOf(node) !== null,
    run,
    title: run ? `${node.name} … ${run.at(-1)}` : node.name,
  };
}

/** How many nodes it stands for, or else show what it shows: `×8`. */
export function timesOf({ run, uses }: Card): string {
  const count = run?.length ?? uses;
  return count > 1 ? `×${count}` : "";
}
