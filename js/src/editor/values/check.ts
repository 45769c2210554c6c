import { DEVICE, DTYPES, type PropertyType, SIZE_NAME } from "../../protocol";
import { calculate, numberOf } from "./calculate";

/** Constants in their JSON form, as `pnne_nb/graph/schema/values.py` lists them: tuples are arrays. */
export type JsonValue = unknown;

const NOTHING: Checked = { ok: false };

export type Checked = { ok: true; value: JsonValue } | { ok: false };

/** Accepts or refuses a value in JSON form; `tests/cases/values` compares with `check` in Python. */
export function check(kind: PropertyType, value: JsonValue): Checked {
  switch (kind.type) {
    case "bool":
      return accept(typeof value === "boolean", value);
    case "int": {
      const found = typeof value === "string" ? calculated(value) : value;
      const number = numberOf(found);
      return accept(Number.isSafeInteger(number) && within(number as number, kind.minimum, kind.maximum), found);
    }
    case "float": {
      const found = typeof value === "string" ? calculated(value) : value;
      const number = asFloat(found);
      return accept(number !== null && within(number, kind.minimum, kind.maximum), found);
    }
    case "number": {
      const found = typeof value === "string" ? calculated(value) : value;
      return accept(typeof found === "boolean" || asFloat(found) !== null, found);
    }
    case "string":
    case "nodeRef":
      return accept(typeof value === "string", value);
    case "enum":
      return accept(typeof value === "string" && kind.choices.includes(value), value);
    case "dtype": {
      const given = typeof value === "string" ? value : tagged(value, "$torch");
      const name = String(given).replace(/^torch\./, "");
      return accept((DTYPES as readonly string[]).includes(name), name);
    }
    case "device":
      return accept(typeof value === "string" && DEVICE.test(value), value);
    case "shape": {
      const sizes = items(value)?.map(sizeFrom);
      return accept(sizes?.every(isSize) ?? false, sizes);
    }
    case "tuple": {
      const list = items(value);
      if (list) return typeof kind.length === "number" && list.length !== kind.length ? NOTHING : each(kind.item, list);
      return kind.scalar ? check(kind.item, value) : NOTHING;
    }
    case "list": {
      const list = items(value);
      const checked = list ? each(kind.item, list) : NOTHING;
      return checked.ok ? { ok: true, value: { $list: checked.value } } : NOTHING;
    }
    case "tensor": {
      const found = elements(value);
      return accept(found !== null, found?.value);
    }
    case "optional":
      return value === null ? { ok: true, value } : check(kind.item, value);
    case "union": {
      for (const option of kind.options) {
        const checked = check(option, value);
        if (checked.ok) return checked;
      }
      return NOTHING;
    }
    case "constant":
      return accept(value !== undefined, value);
  }
}

/** Says in words what `kind` accepts, completing "it must be …", in Python's words. */
export function describe(kind: PropertyType): string {
  switch (kind.type) {
    case "bool":
      return "True or False";
    case "int":
      return `a whole number${range(kind.minimum, kind.maximum)}`;
    case "float":
      return `a number${range(kind.minimum, kind.maximum)}`;
    case "number":
      return "a number";
    case "string":
      return "a text";
    case "enum":
      return `${kind.choices.length > 1 ? "one of " : ""}${kind.choices.map((choice) => `'${choice}'`).join(", ")}`;
    case "dtype":
      return "the name of a dtype such as 'float32' or 'int64'";
    case "device":
      return "a device such as 'cpu' or 'cuda:0'";
    case "shape":
      return "a tuple of sizes such as ('N', 3, 32, 32), each a whole number ≥ 0 or a name";
    case "tuple": {
      const count = typeof kind.length === "number" ? `a tuple of ${kind.length} values, each` : "a tuple, each item";
      const text = `${count} ${describe(kind.item)}`;
      return kind.scalar ? `${describe(kind.item)}, or ${text}` : text;
    }
    case "list":
      return `a list, each item ${describe(kind.item)}`;
    case "tensor":
      return "a number, or a list of numbers, nested for more axes";
    case "optional":
      return `${describe(kind.item)}, or None`;
    case "union":
      return kind.options.map(describe).join(", or ");
    case "constant":
      return "a constant (number, text, tuple, list, dict, slice or None)";
    case "nodeRef":
      return "the name of a node in the same graph";
  }
}

/** The members of a tuple or list in JSON form, or null. */
export function items(value: JsonValue): readonly JsonValue[] | null {
  if (Array.isArray(value)) return value;
  const list = tagged(value, "$list");
  return Array.isArray(list) ? list : null;
}

/** The body of `{[tag]: body}`, or undefined. */
export function tagged(value: JsonValue, tag: string): unknown {
  return typeof value === "object" && value !== null && tag in value
    ? (value as Record<string, unknown>)[tag]
    : undefined;
}

function accept(condition: boolean, value: JsonValue): Checked {
  return condition ? { ok: true, value } : NOTHING;
}

function each(kind: PropertyType, values: readonly JsonValue[]): Checked {
  const checked = values.map((value) => check(kind, value));
  return checked.every((item) => item.ok) ? { ok: true, value: checked.map((item) => item.value) } : NOTHING;
}

/** The numbers of a tensor as nested arrays, and its shape; null where they are none. */
function elements(value: JsonValue): { value: JsonValue; shape: string } | null {
  if (asFloat(value) !== null) return { value, shape: "" };
  const rows = items(value)?.map(elements);
  if (!rows) return null;
  const found = rows.filter((row) => row !== null);
  const shapes = new Set(found.map(({ shape }) => shape));
  if (found.length < rows.length || shapes.size > 1) return null;
  return { value: found.map((row) => row.value), shape: `${rows.length},${found[0]?.shape ?? ""}` };
}

/** The floats that JSON has no numbers for. */
const SPECIAL: ReadonlyMap<unknown, number> = new Map([
  ["inf", Infinity],
  ["-inf", -Infinity],
  ["nan", Number.NaN],
]);

function asFloat(value: JsonValue): number | null {
  return numberOf(value) ?? SPECIAL.get(tagged(value, "$float")) ?? null;
}

/** A size as it is stored: one that is left open, as None or -1, gets a name. */
function sizeFrom(size: JsonValue, axis: number): JsonValue {
  if (size === null || size === -1) return axis > 0 ? `D${axis}` : "N";
  return typeof size === "string" ? (calculated(size) ?? size) : size;
}

function calculated(text: string): number | null {
  const found = calculate(text);
  return found?.length === text.trimEnd().length ? found.value : null;
}

function isSize(size: JsonValue): boolean {
  const number = numberOf(size);
  return typeof size === "string" ? SIZE_NAME.test(size) : Number.isSafeInteger(number) && (number as number) >= 0;
}

function within(value: number, minimum?: number | null, maximum?: number | null): boolean {
  return (minimum == null || value >= minimum) && (maximum == null || value <= maximum);
}

function range(minimum?: number | null, maximum?: number | null): string {
  if (minimum == null) return maximum == null ? "" : ` ≤ ${maximum}`;
  return maximum == null ? ` ≥ ${minimum}` : ` from ${minimum} to ${maximum}`;
}
