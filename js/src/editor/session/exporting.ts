import type { Diagnostic, ExportCheck, ExportState, NodeError, NodeMark } from "../../protocol";
import type { GraphDocument } from "../document/document";
import { numberText } from "../values/amounts";
import { type Lens, withBlocks } from "./marks";

/** What colours nodes: how well the exported file agrees at each, or what an export would do to each. */
export type LensKind = "error" | "check";

/** The share of the tolerance from which on an error has a colour of its own. */
const NEAR = 0.5;

/** Nodes by error ÷ tolerance; null where there is no result, or it is of another graph than the one that is drawn. */
export function errorLens(state: ExportState | null): Lens | null {
  if (!state?.result || state.stale) return null;
  return withBlocks(new Map(state.result.nodes.map((node) => [node.node, errorMark(node)])));
}

function errorMark({ error, ratio, ok, note }: NodeError): NodeMark {
  if (!ok) return { level: "bad", text: ratio === null ? "differs" : `${numberText(ratio)} ×`, title: note ?? "" };
  if (ratio === null) return { level: "plain", text: "–", title: note || "Not compared: it has no tensor of its own." };
  return {
    level: ratio >= NEAR ? "near" : "good",
    text: `${numberText(ratio)} ×`,
    title: `The error is ${numberText(error)}: ${numberText(ratio)} of what rounding explains.`,
  };
}

/** Nodes by what an export would do to them; null while none is watched. */
export function checkLens(check: ExportCheck | null, nodes: Iterable<string>): Lens | null {
  if (!check || check.state === "off" || check.state === "failed") return null;
  const found = new Map<string, Diagnostic[]>();
  for (const each of check.findings ?? []) if (each.node) found.set(each.node, [...(found.get(each.node) ?? []), each]);
  const lens = new Map<string, NodeMark>();
  if (check.state === "done")
    for (const node of nodes) lens.set(node, { level: "good", text: "✓", title: "It is exported as it is." });
  for (const [node, findings] of found) lens.set(node, checkMark(findings));
  return withBlocks(lens);
}

const WORDS: Readonly<Record<string, string>> = {
  "no-translation": "no translation",
  "data-dependent": "depends on data",
  "not-traceable": "not traceable",
  "size-fixed": "size fixed",
  "axis-fixed": "axis fixed",
  differs: "differs",
  decomposed: "decomposed",
};
const ORDER = ["error", "warning", "info"];

function checkMark(findings: readonly Diagnostic[]): NodeMark {
  const rank = ({ severity }: Diagnostic) => ORDER.indexOf(severity ?? "error");
  const [worst] = [...findings].sort((a, b) => rank(a) - rank(b));
  const severity = worst?.severity ?? "error";
  return {
    level: severity === "error" ? "bad" : severity === "warning" ? "warning" : "good",
    text: WORDS[worst?.code ?? ""] ?? severity,
    title: findings.map(({ message, hint }) => (hint ? `${message} ${hint}` : message)).join("\n"),
  };
}

/** The names of the sizes that the outermost Input nodes leave open. */
export function freeSizes(document: GraphDocument): string[] {
  const inputs = [...(document.graphs.get("")?.nodes.values() ?? [])].filter(({ type }) => type === "Input");
  const sizes = inputs.flatMap(({ properties }) => (Array.isArray(properties?.shape) ? properties.shape : []));
  return [...new Set(sizes.filter((size): size is string => typeof size === "string"))];
}
