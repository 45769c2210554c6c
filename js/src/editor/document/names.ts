// `tests/cases/names.json` compares this file with `pnne_nb/graph/schema/names.py`.
import { MAX_NAME_LENGTH, NODE_NAME, RESERVED_NAMES } from "../../protocol";
import type { Graph } from "./document";

const RESERVED: ReadonlySet<string> = new Set(RESERVED_NAMES);

/** Why a text is no name that a node or a definition can have, or null; as `check_identifier` in Python. */
export function whyIllegal(name: string): string | null {
  if (name === "") return "A name is needed.";
  if (!NODE_NAME.test(name)) return "Use letters, digits and underscores only: it becomes an attribute in Python.";
  if (name.length > MAX_NAME_LENGTH) return `A name has at most ${MAX_NAME_LENGTH} characters.`;
  return null;
}

/** As `whyIllegal`, with the names that mean something already. */
export function whyReserved(name: string): string | null {
  const reason = whyIllegal(name);
  if (reason) return reason;
  if (RESERVED.has(name) || name.startsWith("__")) {
    return `${name} means something in Python or in an nn.Module; try ${name.replace(/^_+|_+$/g, "")}1.`;
  }
  return null;
}

/** Why `name` cannot be the new name of `current`, or null. */
export function whyNotName(graph: Graph, current: string, name: string): string | null {
  if (name === current) return null;
  return (
    whyReserved(name) ??
    (graph.nodes.has(name) ? `There is already a node ${name}; ${freeIdentifier(name, graph.nodes)} is free.` : null)
  );
}

/** The lower-case name that nodes of a type are numbered under; as `stem_of` in Python. */
function stemOf(type: string): string {
  const acronyms = type.replace(
    /(PRe|RRe|Re|Si)LU/g,
    (word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase(),
  );
  const words = acronyms.replace(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, "_");
  const stem = words
    .toLowerCase()
    .replace(/[^a-z0-9_]/g, "_")
    .slice(0, MAX_NAME_LENGTH - 10);
  return /\d$/.test(stem) ? `${stem}_` : stem || "node";
}

/** The default name of a new node or frame: its stem and the smallest number that is free. */
export function freeName(type: string, taken: { has(name: string): boolean }): string {
  return numbered(stemOf(type), taken, 1);
}

/** `name` itself if it is free, else with the smallest number that makes it so. */
export function freeIdentifier(name: string, taken: { has(name: string): boolean }): string {
  if (!taken.has(name) && whyReserved(name) === null) return name;
  return numbered(/\d$/.test(name) ? `${name}_` : name, taken, 2);
}

/** The name of a copy: its own where that is free, else its base with the next number that is: fc, fc2, fc3. */
export function copyName(name: string, taken: { has(name: string): boolean }): string {
  const [, stem = "", digits = ""] = /^(.*?)(\d{0,6})$/.exec(name) ?? [];
  if (stem === "" || (!taken.has(name) && whyReserved(name) === null)) return freeIdentifier(name, taken);
  return numbered(/\d$/.test(stem) ? `${stem}_` : stem, taken, digits === "" ? 2 : Number(digits) + 1);
}

/** A stem with the smallest number, from `first` on, that makes it a free name; as `numbered` in Python. */
function numbered(text: string, taken: { has(name: string): boolean }, first: number): string {
  const stem = text.replace(/^__+/, "");
  let number = first;
  while (taken.has(`${stem}${number}`) || RESERVED.has(`${stem}${number}`)) number += 1;
  return `${stem}${number}`;
}
