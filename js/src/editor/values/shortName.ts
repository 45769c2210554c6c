/** A piece of a name's line; omitted parts may be marked by an ellipsis. */
interface Piece {
  readonly text: string;
  readonly shown: "yes" | "no" | "ellipsis";
}

/** A line of a name, and by how much its letters are narrowed to fit. */
export interface NameLine {
  readonly pieces: readonly Piece[];
  readonly squeeze: number;
}

/** Letters may be as much narrower as this, before a name is shortened. */
const NARROWEST = 0.8;
const ELLIPSIS = "…";
/** Where a line may end: after the signs that join words, and before the capital letter of another word. */
const WORDS = /(?<=[_.·\s])(?=\S)|(?<=[a-z])(?=[A-Z])/;
/** The same, and between letters and numbers: `decoder0` in two lines rather than a part of it. */
const HALVES = /(?<=[_.·\s])(?=\S)|(?<=[a-z])(?=[A-Z0-9])/;

/**
 * A name in at most `most` lines that are `room` wide: broken where its words end, narrowed a little where that helps,
 * and otherwise without its beginning. The end tells it from its neighbours: of `decoder0_attention_query`, the query.
 */
export function nameLines(name: string, room: number, most: number, widthOf: (text: string) => number): NameLine[] {
  const fits = (text: string) => widthOf(bare(text)) * NARROWEST <= room;
  const line = (...pieces: Piece[]): NameLine => {
    const seen = pieces.map(({ text, shown }) => (shown === "yes" ? text : shown === "no" ? "" : ELLIPSIS)).join("");
    return { pieces, squeeze: Math.min(1, room / Math.max(widthOf(seen), 1)) };
  };
  for (const boundary of [WORDS, HALVES]) {
    const lines = wrapped(name.split(boundary), fits);
    if (lines && lines.length <= most) return lines.map((text) => line(...withoutJoint(text)));
  }
  const last = name.split(WORDS).at(-1) as string;
  const before = name.slice(0, name.length - last.length);
  if (!fits(last)) return [line(...inMiddle(before, last, fits))];
  const words = [...before.split(HALVES), last];
  // From the end, as many words as there is room for.
  const lines: string[] = [last];
  let place = words.length - 1;
  for (; place > 0; place -= 1) {
    const word = words[place - 1] as string;
    const marked = place > 1 ? ELLIPSIS : "";
    const [first = ""] = lines;
    if (fits(`${marked}${word}${first}`)) lines[0] = word + first;
    else if (lines.length < most && fits(marked + word)) lines.unshift(word);
    else break;
  }
  const left = words.slice(0, place).join("");
  const [first = "", ...others] = lines;
  // A word that fills its line is shown, rather than the mark.
  const mark: Piece = { text: left, shown: fits(ELLIPSIS + first) ? "ellipsis" : "no" };
  return [line(mark, ...withoutJoint(first)), ...others.map((text) => line(...withoutJoint(text)))];
}

/** Words in lines; null if one is too long for any. */
function wrapped(words: readonly string[], fits: (text: string) => boolean): string[] | null {
  const lines: string[] = [];
  for (const word of words) {
    const before = lines.at(-1);
    if (before !== undefined && fits(before + word)) lines[lines.length - 1] = before + word;
    else if (fits(word)) lines.push(word);
    else return null;
  }
  return lines;
}

/** The beginning and the end of a word that is too long. */
function inMiddle(before: string, word: string, fits: (text: string) => boolean): Piece[] {
  let [head, tail] = [word.length - 2, 1];
  const cut = () => `${word.slice(0, head)}${ELLIPSIS}${word.slice(word.length - tail)}`;
  while (head > 1 && !fits(cut())) head -= 1;
  while (head > tail + 1) {
    tail += 1;
    head -= 1;
    if (!fits(cut())) {
      tail -= 1;
      break;
    }
  }
  return [
    { text: before, shown: "no" },
    { text: word.slice(0, head), shown: "yes" },
    { text: word.slice(head, word.length - tail), shown: "ellipsis" },
    { text: word.slice(word.length - tail), shown: "yes" },
  ];
}

/** What joins a word with that of the next line is not seen: `_` hangs into the letters below. */
function withoutJoint(text: string): Piece[] {
  const seen = bare(text);
  const pieces: Piece[] = [{ text: seen, shown: "yes" }];
  return seen === text ? pieces : [...pieces, { text: text.slice(seen.length), shown: "no" }];
}

function bare(text: string): string {
  return text.replace(/(?<=.)[_.·\s]+$/, "");
}
