// Large numbers as a person reads them at a glance.

const STEPS = ["", " k", " M", " G", " T", " P"];
const SIZES = [" B", " KiB", " MiB", " GiB", " TiB", " PiB"];

/** A count with three significant digits: `86.4 k`. */
export function countText(count: number): string {
  return scaled(count, 1000, STEPS);
}

/** A number of bytes: `241 KiB`. */
export function bytesText(bytes: number): string {
  return scaled(bytes, 1024, SIZES);
}

/** A count with every digit: `61,706`. */
export function exactText(count: number): string {
  return count.toLocaleString("en-US");
}

/** The sizes for which costs are: one sample, or example values of free sizes; empty if all sizes are fixed. */
export function exampleText(example: Readonly<Record<string, number>>): string {
  const sizes = Object.entries(example);
  if (sizes.length === 1 && sizes[0]?.[1] === 1) return "per sample";
  return sizes.length === 0 ? "" : `at ${sizes.map(([name, size]) => `${name}=${size}`).join(", ")}`;
}

/** Two significant digits: `0.93`, `1.2e-4`. */
export function numberText(value: number | null | undefined): string {
  if (value == null) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e4) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(size >= 100 ? 3 : 2)));
}

function scaled(amount: number, base: number, units: readonly string[]): string {
  let [value, step] = [amount, 0];
  // What would be rounded up to the next step is written in it: 1 M, not 1000 k.
  while (value >= base - 0.5 && step < units.length - 1) [value, step] = [value / base, step + 1];
  return `${step === 0 ? value : Number(value.toPrecision(3))}${units[step]}`;
}
