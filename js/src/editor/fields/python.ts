/** A piece of Python source and its kind; null if it needs no colour. */
interface Token {
  readonly kind: "comment" | "string" | "number" | "keyword" | "defined" | null;
  readonly text: string;
}

const KEYWORDS =
  "and as assert break class continue def del elif else except False finally for from if import in is lambda None " +
  "not or pass raise return True try while with yield";

const COLOURED = new RegExp(
  [
    "(?<comment>#[^\\n]*)",
    `(?<string>[rbf]?(?:"""[^]*?"""|"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*'))`,
    "(?<defined>(?<=\\b(?:class|def) )\\w+)",
    `(?<keyword>\\b(?:${KEYWORDS.replaceAll(" ", "|")})\\b)`,
    "(?<number>\\b\\d[\\w.]*(?:(?<=[eE])[+-]\\d+)?)",
  ].join("|"),
  "g",
);

/** Cuts Python source into pieces to colour; together they are the source. */
export function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  let done = 0;
  for (const match of source.matchAll(COLOURED)) {
    if (match.index > done) tokens.push({ kind: null, text: source.slice(done, match.index) });
    const [kind] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? [null];
    tokens.push({ kind: kind as Token["kind"], text: match[0] });
    done = match.index + match[0].length;
  }
  if (done < source.length) tokens.push({ kind: null, text: source.slice(done) });
  return tokens;
}
