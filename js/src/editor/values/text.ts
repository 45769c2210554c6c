import type { PropertyType } from "../../protocol";
import { formulaOf, NO_SIZES, type Sizes, whyNot } from "./calculate";
import { type Checked, check, describe, items, type JsonValue, tagged } from "./check";
import { parseLiteral } from "./literal";

/** What a person typed, read as `kind` wants it: the value to store, or the reason why not. */
type Parsed = { ok: true; value: JsonValue } | { ok: false; reason: string };

/** Reads typed text; both the Python constant it spells and the bare text itself are candidates. */
export function parseAs(kind: PropertyType, text: string, sizes: Sizes = NO_SIZES): Parsed {
  const trimmed = text.trim();
  const literal = parseLiteral(trimmed.replaceAll("×", ","), sizes);
  const candidates = prefersText(kind) ? [trimmed, literal] : [literal, trimmed];
  // A single size typed into a tuple field means a tuple of one.
  if (literal !== undefined && items(literal) === null) candidates.push([literal]);
  for (const candidate of candidates) {
    if (candidate === undefined) continue;
    const checked: Checked = check(kind, candidate);
    if (checked.ok) return checked;
  }
  const wanted = describe(kind);
  return { ok: false, reason: `It must be ${wanted}.${/number/.test(wanted) ? whyNot(trimmed, sizes) : ""}` };
}

/** The text to edit for a stored value: the inverse of `parseAs`. */
export function textOf(kind: PropertyType | null, value: JsonValue): string {
  if (typeof value === "string" && (kind === null || kind.type !== "constant")) return value;
  if (Array.isArray(value) && value.length > 1)
    return value.map((item) => innerText(item, kind?.type === "shape")).join(", ");
  return innerText(value, kind?.type === "shape");
}

/** The value as Python shows it inside a tuple. */
export function innerText(value: JsonValue, bareText = false): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return numberText(value);
  if (typeof value === "string") return bareText ? value : `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  if (Array.isArray(value)) {
    return `(${value.map((item) => innerText(item, bareText)).join(", ")}${value.length === 1 ? "," : ""})`;
  }
  const formula = formulaOf(value);
  if (formula !== null) return formula;
  const list = tagged(value, "$list");
  if (Array.isArray(list)) return `[${list.map((item) => innerText(item, bareText)).join(", ")}]`;
  const pairs = tagged(value, "$dict");
  if (Array.isArray(pairs))
    return `{${pairs.map(([key, item]) => `${innerText(key, false)}: ${innerText(item, false)}`).join(", ")}}`;
  const name = tagged(value, "$torch");
  if (typeof name === "string") return `torch.${name}`;
  const float = tagged(value, "$float");
  if (typeof float === "string") return float;
  if (tagged(value, "$ellipsis")) return "...";
  const complex = tagged(value, "$complex");
  if (Array.isArray(complex)) return `${complex[0]}${Number(complex[1]) < 0 ? "" : "+"}${complex[1]}j`;
  const slice = tagged(value, "$slice");
  if (Array.isArray(slice)) return `slice(${slice.map((part) => innerText(part, false)).join(", ")})`;
  return JSON.stringify(value);
}

/** A number as Python writes it: `1e-05` where JavaScript says 0.00001. */
function numberText(value: number): string {
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-4 && size < 1e16)) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
}

function prefersText({ type }: PropertyType): boolean {
  return /^(string|enum|nodeRef|dtype|device)$/.test(type);
}
