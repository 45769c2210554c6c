/** Named sizes of the graph in their JSON form: numbers, and calculations of others. */
export type Sizes = Readonly<Record<string, unknown>>;
export const NO_SIZES: Sizes = {};

/** What a calculation at the beginning of a text gives, and how much of the text it is. */
export interface Calculated {
  readonly value: number;
  readonly length: number;
  /** Whether it has names of sizes. */
  readonly named: boolean;
}

const DIGITS = /^\s*(\d[\d_]*)/;
const NAME = /^\s*([A-Za-z_]\w*)/;

/**
 * Calculates `2*64`, `(3 + 1)*8` or `4*hidden` at the beginning of a text: whole numbers, names, `+`, `-`, `*`, `//`, brackets.
 *
 * Null where there is no such calculation, one has other names, divides by zero, or gets too large for a browser. Python has
 * the same in `graph/schema/calculation.py`; `tests/cases/calculations.json` compares the two.
 */
export function calculate(text: string, sizes: Sizes = NO_SIZES): Calculated | null {
  let [at, operations, named] = [0, 0, false];
  const takes = (sign: RegExp) => {
    const found = sign.exec(text.slice(at));
    at += found?.[0].length ?? 0;
    return found;
  };
  const known = (value: number) => (Number.isSafeInteger(value) ? value + 0 : null);
  const joined = (part: () => number | null, sign: RegExp): number | null => {
    let value = part();
    for (let found = value === null ? null : takes(sign); found; found = value === null ? null : takes(sign)) {
      const other = part();
      operations += 1;
      value = value === null || other === null ? null : known(combined(found[0].trim(), value, other));
    }
    return value;
  };
  const sum = (): number | null => joined(product, /^\s*[+-]/);
  const product = (): number | null => joined(factor, /^\s*(\*(?!\*)|\/\/)/);
  const factor = (): number | null => {
    const sign = takes(/^\s*[+-]/);
    if (sign) {
      const value = factor();
      return value !== null && sign[0].trim() === "-" ? known(-value) : value;
    }
    if (takes(/^\s*\(/)) {
      const value = sum();
      return takes(/^\s*\)/) ? value : null;
    }
    const name = takes(NAME)?.[1];
    if (name !== undefined) {
      named = true;
      return Object.hasOwn(sizes, name) ? numberOf(sizes[name]) : null;
    }
    const digits = takes(DIGITS)?.[1];
    return digits === undefined ? null : known(Number(digits.replaceAll("_", "")));
  };
  const value = sum();
  const isPart = /^[\w.]/.test(text.slice(at)) || (operations === 0 && !named);
  return value === null || isPart ? null : { value, length: at, named };
}

/** The JSON form of a calculation's result: one with names keeps them. */
export function resultOf({ value, length, named }: Calculated, text: string): unknown {
  return named ? { $size: [text.slice(0, length).replace(/\s+/g, ""), value] } : value;
}

/** The number of a number in its JSON form, also of a calculated one; null where it is none. */
export function numberOf(value: unknown): number | null {
  const number = Array.isArray(sized(value)) ? sized(value)?.[1] : value;
  return typeof number === "number" ? number : null;
}

/** The calculation that a number in its JSON form was made of; null where there is none. */
export function formulaOf(value: unknown): string | null {
  const text = sized(value)?.[0];
  return typeof text === "string" ? text : null;
}

/** Why a text that looks like a calculation gives no number; empty where it does not look like one. */
export function whyNot(text: string, sizes: Sizes): string {
  if (!/^[\w\s+*()/-]+$/.test(text)) return "";
  const unknown = text.match(/\b[A-Za-z_]\w*/g)?.find((name) => !Object.hasOwn(sizes, name));
  if (unknown) return ` The graph has no size ${unknown}; add it under Sizes, in the panel of the graph.`;
  return /\/\//.test(text) ? " Or does it divide by zero?" : "";
}

function sized(value: unknown): readonly unknown[] | undefined {
  return (value as { $size?: readonly unknown[] } | null | undefined)?.$size;
}

function combined(sign: string, a: number, b: number): number {
  if (sign === "+") return a + b;
  if (sign === "-") return a - b;
  return sign === "*" ? a * b : Math.floor(a / b);
}
