import { calculate, NO_SIZES, resultOf, type Sizes } from "./calculate";
import type { JsonValue } from "./check";

const NUMBER = /^[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/;
const WORD = /^[A-Za-z_][A-Za-z0-9_.]*/;
const WORDS: Record<string, JsonValue> = {
  True: true,
  true: true,
  False: false,
  false: false,
  None: null,
  null: null,
  inf: { $float: "inf" },
  nan: { $float: "nan" },
};

/**
 * Reads a Python constant as a person types it and returns its JSON form.
 *
 * `3, 3` is a tuple without its parentheses; `N` in a tuple is the text 'N', as sizes are named.
 * Returns undefined when the text is not a constant.
 */
export function parseLiteral(text: string, sizes: Sizes = NO_SIZES): JsonValue | undefined {
  const reader = new Reader(text, sizes);
  const members = reader.members("");
  return members && members.values.length > 0 && reader.atEnd() ? unwrap(members) : undefined;
}

interface Members {
  values: JsonValue[];
  comma: boolean;
}

/** `(3)` is 3, `(3,)` is a tuple. */
function unwrap({ values, comma }: Members): JsonValue {
  return values.length === 1 && !comma ? values[0] : values;
}

class Reader {
  private rest: string;

  constructor(
    text: string,
    private readonly sizes: Sizes,
  ) {
    this.rest = text.trim();
  }

  atEnd(): boolean {
    return this.rest === "";
  }

  /** Values between commas, up to and including `close`. */
  members(close: string): Members | undefined {
    const values: JsonValue[] = [];
    let comma = false;
    while (this.rest !== "" && !(close && this.rest.startsWith(close))) {
      const value = this.value();
      if (value === undefined) return undefined;
      values.push(value);
      if (!this.skip(",")) break;
      comma = true;
    }
    return close === "" || this.skip(close) ? { values, comma } : undefined;
  }

  private value(): JsonValue | undefined {
    const calculated = calculate(this.rest, this.sizes);
    if (calculated) {
      const value = resultOf(calculated, this.rest);
      this.take(calculated.length);
      return value;
    }
    if (this.skip("(")) {
      const members = this.members(")");
      return members && unwrap(members);
    }
    if (this.skip("[")) {
      const members = this.members("]");
      return members && { $list: members.values };
    }
    if (this.skip("{")) return this.dictionary();
    const quote = this.rest[0];
    if (quote === "'" || quote === '"') return this.text(quote);
    if (this.skip("...")) return { $ellipsis: true };
    if (this.skip("-inf")) return { $float: "-inf" };
    const number = NUMBER.exec(this.rest)?.[0];
    if (number) return this.number(number);
    const word = WORD.exec(this.rest)?.[0];
    if (!word) return undefined;
    this.take(word.length);
    if (word === "slice" && this.skip("(")) return this.slice();
    if (word.startsWith("torch.")) return { $torch: word.slice("torch.".length) };
    return Object.hasOwn(WORDS, word) ? WORDS[word] : word;
  }

  private slice(): JsonValue | undefined {
    const members = this.members(")");
    if (!members || members.values.length === 0 || members.values.length > 3) return undefined;
    const [first, second, third] = members.values;
    return { $slice: members.values.length === 1 ? [null, first, null] : [first, second, third ?? null] };
  }

  private number(text: string): JsonValue | undefined {
    this.take(text.length);
    const imaginary = /^([+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)j/.exec(this.rest);
    if (imaginary?.[1]) {
      this.take(imaginary[0].length);
      return { $complex: [Number(text), Number(imaginary[1])] };
    }
    if (this.skip("j")) return { $complex: [0, Number(text)] };
    if (/^[A-Za-z_0-9]/.test(this.rest)) return undefined;
    const value = Number(text.replaceAll("_", ""));
    // A whole number that a browser cannot hold exactly would become another one.
    const exact = /[.eE]/.test(text) || Number.isSafeInteger(value);
    return exact && Number.isFinite(value) ? value : undefined;
  }

  private text(quote: string): string | undefined {
    let value = "";
    for (let at = 1; at < this.rest.length; at += 1) {
      const character = this.rest[at];
      if (character === quote) {
        this.take(at + 1);
        return value;
      }
      if (character === "\\") {
        at += 1;
        const escaped = this.rest[at] ?? "";
        value += escaped === "n" ? "\n" : escaped === "t" ? "\t" : escaped;
      } else {
        value += character;
      }
    }
    return undefined;
  }

  private dictionary(): JsonValue | undefined {
    const pairs: JsonValue[][] = [];
    while (!this.skip("}")) {
      const key = this.value();
      if (key === undefined || !this.skip(":")) return undefined;
      const value = this.value();
      if (value === undefined) return undefined;
      pairs.push([key, value]);
      if (!this.skip(",") && !this.rest.startsWith("}")) return undefined;
    }
    return { $dict: pairs };
  }

  private skip(token: string): boolean {
    if (!this.rest.startsWith(token)) return false;
    this.take(token.length);
    return true;
  }

  private take(length: number): void {
    this.rest = this.rest.slice(length).trimStart();
  }
}
