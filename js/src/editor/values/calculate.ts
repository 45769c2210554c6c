/** What a calculation at the beginning of a text gives, and how much of the text it is. */
export interface Calculated {
  readonly value: number;
  readonly length: number;
}

const DIGITS = /^\s*(\d[\d_]*)/;

/**
 * Calculates `2*64`, `64//4` or `(3 + 1)*8` at the beginning of a text: whole numbers, `+`, `-`, `*`, `//` and brackets.
 *
 * Null where there is no such calculation, one divides by zero, or gets too large for a browser. Python has the same in
 * `graph/schema/calculation.py`; `tests/cases/calculations.json` compares the two.
 */
export function calculate(text: string): Calculated | null {
  let [at, operations] = [0, 0];
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
    const digits = takes(DIGITS)?.[1];
    return digits === undefined ? null : known(Number(digits.replaceAll("_", "")));
  };
  const value = sum();
  return value === null || operations === 0 || /^[\w.]/.test(text.slice(at)) ? null : { value, length: at };
}

function combined(sign: string, a: number, b: number): number {
  if (sign === "+") return a + b;
  if (sign === "-") return a - b;
  return sign === "*" ? a * b : Math.floor(a / b);
}
