import type { NodeTypeState, TensorShape } from "../../protocol";
import { definitionOf, type Place } from "../document/definitions";

const NAME = 4;
const CATEGORY = 2;
const DOC = 1;

/** What a new node is to take, and what the document has already. */
export interface Circumstances {
  /** The shape of the tensor that comes in; undefined if it is not known, or nothing comes in. */
  readonly shape: TensorShape | undefined;
  /** How many nodes there are of each type. */
  readonly counts: ReadonlyMap<string, number>;
  /** The type of the node that it goes on from, `""` in an empty graph; and how often each type follows that type. */
  readonly after?: string | undefined;
  readonly followers?: ReadonlyMap<string, number>;
}

/** Types that only an import or a command makes. */
export const NOT_OFFERED = new Set(["Subgraph", "Module"]);

/** What usually follows, before the graph shows it. */
const USUAL: readonly (readonly [RegExp, string])[] = [
  [/^$/, "Input"],
  [/^(Conv|Linear|BatchNorm)/, "ReLU"],
  [/^(ReLU|GELU)$/, "MaxPool2d"],
  [/Pool|^Input$/, "Conv2d"],
  [/Pool/, "Flatten"],
  [/^(Flatten|Input)$/, "Linear"],
  [/^Linear$/, "Output"],
];

const COMMON = new Set([
  ...["Linear", "Conv2d", "ReLU", "BatchNorm2d", "MaxPool2d", "Dropout", "Flatten", "LayerNorm", "GELU", "Embedding"],
  ...["MultiheadAttention", "LSTM", "add", "cat", "Output"],
]);
/** Types without a number of dimensions in their names that suit tensors of one rank. */
const SUITS: Readonly<Record<string, number>> = {
  Linear: 2,
  LayerNorm: 3,
  MultiheadAttention: 3,
  LSTM: 3,
  GRU: 3,
  RNN: 3,
};
const WHOLE_NUMBERS = /^u?int|^bool$/;

/** How well a type suits what comes in, and how likely it is wanted: by the tensor's rank and element type, and by use. */
function suitability({ type }: NodeTypeState, { shape, counts, after, followers }: Circumstances): number {
  const isUsual = after !== undefined && USUAL.some(([before, next]) => next === type && before.test(after));
  const follows = Math.max(isUsual ? 3 : 0, followers?.has(type) ? 4 + Math.min(2, followers.get(type) ?? 0) : 0);
  const use = follows + Math.min(2, Math.log2(1 + (counts.get(type) ?? 0))) + (COMMON.has(type) ? 1.5 : 0);
  if (!shape) return use;
  if (WHOLE_NUMBERS.test(shape.dtype)) return use + (type === "Embedding" ? 6 : 0);
  const rank = shape.shape.length;
  const dimensions = /(\d)d$/.exec(type)?.[1];
  const wanted = dimensions ? Number(dimensions) + 2 : SUITS[type];
  if (type === "Flatten") return use + (rank > 2 ? 1 : -3);
  if (type === "Embedding") return use - 6;
  return use + (wanted === undefined ? 0 : wanted === rank ? 3 : dimensions ? -6 : -1);
}

/**
 * Node types that match what was typed, best first; all of them for an empty text, in their order, or with what suits
 * best first.
 */
export function searchTypes(
  types: Iterable<NodeTypeState>,
  text: string,
  circumstances: Circumstances | null = null,
): NodeTypeState[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const suits = (type: NodeTypeState) => (circumstances ? suitability(type, circumstances) : 0);
  if (words.length === 0) return [...types].sort((a, b) => suits(b) - suits(a));
  const scored: { type: NodeTypeState; score: number }[] = [];
  for (const type of types) {
    const scores = words.map((word) =>
      Math.max(
        NAME * similarity(type.type, word),
        CATEGORY * similarity(type.category.name, word, false),
        DOC * (type.doc?.toLowerCase().includes(word) ? 0.5 : 0),
      ),
    );
    if (scores.includes(0)) continue;
    // Of names that fit about alike, what suits comes first.
    scored.push({ type, score: scores.reduce((sum, score) => sum + score) + suits(type) / 10 });
  }
  return scored.sort((a, b) => b.score - a.score || a.type.type.length - b.type.type.length).map(({ type }) => type);
}

/** What counts for a node in another graph than the shown one: of two that fit alike, the nearer comes first. */
const ELSEWHERE = 0.95;

/**
 * How well a word fits a node, from 0 to 1: its name, its path such as `layer1.0.conv1` or the end of that, its type,
 * or the definition that it shows.
 */
export function nodeSimilarity({ path, node }: Place, word: string, shownPrefix: string): number {
  const inside = definitionOf(node);
  const kind = Math.max(similarity(node.type, word), inside === null ? 0 : similarity(inside, word));
  const fit = Math.max(word.includes(".") ? pathSimilarity(path, word) : similarity(node.name, word), kind / 2);
  return path === shownPrefix + node.name ? fit : ELSEWHERE * fit;
}

/** The nodes of the type that was typed; of another word, those whose names, types or paths have it. */
export function meantBy(places: readonly Place[], text: string): Place[] {
  const word = text.toLowerCase();
  const ofType = places.filter(({ node }) => node.type.toLowerCase() === word);
  if (ofType.length > 0) return ofType;
  return places.filter(({ path, node }) =>
    [word.includes(".") ? path : node.name, node.type].some((name) => name.toLowerCase().includes(word)),
  );
}

function pathSimilarity(path: string, word: string): number {
  const lower = path.toLowerCase();
  if (lower === word || lower.endsWith(`.${word}`)) return 1;
  const at = lower.indexOf(word);
  if (at < 0) return 0;
  return at === 0 || lower[at - 1] === "." ? 0.9 : 0.6;
}

/** How well `word` fits a name, from 0 to 1: whole, start, start of a part, inside, or letters in order. */
export function similarity(name: string, word: string, loose = true): number {
  const lower = name.toLowerCase();
  if (lower === word) return 1;
  if (lower.startsWith(word)) return 0.9;
  const at = lower.indexOf(word);
  if (at >= 0) return startsPart(name, at) ? 0.8 : 0.6;
  return loose ? 0.45 * inOrder(lower, word) : 0;
}

/** Whether a part of a name such as `MaxPool2d` or `max_pool2d` starts at `at`. */
function startsPart(name: string, at: number): boolean {
  const before = name[at - 1] ?? "";
  const here = name[at] ?? "";
  return before === "_" || before === " " || (/[a-z0-9]/.test(before) && /[A-Z]/.test(here));
}

/** 1 when the letters of `word` stand in `name` side by side, less for each gap, 0 when one is missing. */
function inOrder(name: string, word: string): number {
  let at = -1;
  let gaps = 0;
  for (const letter of word) {
    const next = name.indexOf(letter, at + 1);
    if (next < 0) return 0;
    if (at >= 0 && next !== at + 1) gaps += 1;
    at = next;
  }
  return gaps > 3 ? 0 : 1 / (1 + gaps);
}
