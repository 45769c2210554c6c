import type { Graph } from "./document";

/** What a node cannot be called although the characters are legal; Python knows the full list. */
const KEYWORDS = new Set(
  `False None True and as assert async await break class continue def del elif else except finally for from global if
  import in is lambda nonlocal not or pass raise return try while with yield self torch nn F forward training type
  parameters buffers children modules float double half cpu cuda to eval train apply compile`.split(/\s+/),
);

/** The lower-case name that nodes of a type are numbered under; mirrors `stem_of` in Python. */
export function stemOf(type: string): string {
  const acronyms = type.replace(/(PRe|RRe|Re|Si)LU/g, (word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase());
  const words = acronyms.replace(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, "_");
  const stem = words
    .toLowerCase()
    .replace(/[^a-z0-9_]/g, "_")
    .slice(0, 90);
  return /\d$/.test(stem) ? `${stem}_` : stem || "node";
}

/** The default name of a new node: its stem and the smallest number that is free. */
export function freeName(type: string, taken: { has(name: string): boolean }): string {
  const stem = stemOf(type);
  let number = 1;
  while (taken.has(`${stem}${number}`)) number += 1;
  return `${stem}${number}`;
}

/** Why `name` cannot be the new name of `current`, or null. Python has the last word on reserved names. */
export function whyNotName(graph: Graph, current: string, name: string): string | null {
  if (name === current) return null;
  if (name === "") return "A node needs a name.";
  if (!/^[A-Za-z0-9_]+$/.test(name)) return "Use letters, digits and underscores only: it becomes an attribute in Python.";
  if (name.length > 100) return "A name has at most 100 characters.";
  if (KEYWORDS.has(name) || name.startsWith("__")) return `${name} means something in Python or in an nn.Module; try ${name}1.`;
  if (graph.nodes.has(name)) return `There is already a node ${name}.`;
  return null;
}
