import { BLOCK, type Category, type Diagnostic, type NodeState, type NodeTypeState, UNKNOWN } from "../../protocol";
import { definitionOf } from "../document/definitions";
import { flagOf, isFrozen } from "../document/freezing";
import { type Provenance, provenanceOf } from "../document/origin";
import type { Ports } from "../document/ports";
import type { Run } from "../document/repeats";
import {
  dotGeometry,
  type Geometry,
  geometryOf,
  HEADER_HEIGHT,
  NODE_WIDTH,
  openedGeometry,
  picturedGeometry,
  REROUTE,
  type Size,
  SUMMARY_HEIGHT,
} from "./geometry";
import { isGiven, variableOf } from "./inlining";
import { BETWEEN_PARTS, isWide, linesOf, type Part, partsOf, rowTitle, type Written, wordsOf } from "./summary";

/** Everything that the picture of one node shows; two equal cards are the same object (`scene.ts`). */
export interface Card {
  readonly path: string;
  readonly name: string;
  readonly type: string;
  readonly category: Category;
  readonly known: boolean;
  readonly summary: string;
  /** The same as it stands on the card; each step of a chain begins with its type. */
  readonly lines: readonly (readonly Part[])[];
  readonly ports: Ports;
  readonly geometry: Geometry;
  /** The geometry that it has without what is inside, or its picture, drawn in it. */
  readonly closed: Geometry;
  readonly diagnostics: readonly Diagnostic[];
  readonly label: string;
  readonly collapsed: boolean;
  /** How many nodes of the document show the same definition; 0 for what shows none. */
  readonly uses: number;
  readonly origin: Provenance | null;
  /** Whether it stands there unconnected, and nothing else is wrong with it. */
  readonly loose: boolean;
  /** What it gives instead of running; empty if it runs. */
  readonly ablated: string;
  /** Whether training leaves its weights as they are: it is frozen, or a block around it is. */
  readonly frozen: boolean;
  /** Whether there is a graph inside that can be entered. */
  readonly inside: boolean;
  /** What repeats in a folded row that it represents, its own node first. */
  readonly run: Run | null;
  /** The node that gives what it gives: of a card of several, the last. */
  readonly last: string;
  /** What is written on it: its name, or those of the first and the last of a run. */
  readonly title: string;
  /** What a block is, and how many parameters it has: `148 k`; null for anything else. */
  readonly block: Drawn["block"];
  /** The line below: what the node is; empty where the name says it. */
  readonly kind: string;
  /** Path of the node whose picture it shows; null for none. */
  readonly picture: string | null;
}

/** How a card differs from that of its node alone. */
export interface Drawn {
  /** What repeats in the folded row that it represents. */
  readonly run: Run | null;
  /** The nodes of an expression or of a pattern that it represents, and the texts for their ports. */
  readonly steps: readonly Step[];
  /** Whether edges run right. */
  readonly across: boolean;
  /** Whether no edge leads to or from it. */
  readonly isAlone: boolean;
  readonly isCatalogThere: boolean;
  /** Whether it is in a block that is frozen. */
  readonly isCold: boolean;
  /** How large what is inside is drawn, if it is open in place. */
  readonly inside: Size | null;
  /** Path of the node whose picture it has room for, if it is drawn as a card. */
  readonly picture: string | null;
  /** The parts of inner nodes that a block shows on its own card. */
  readonly promoted: readonly Part[];
  /** What a block is, and how many parameters it has; null for anything else. */
  readonly block: readonly [words: string, weight: string] | null;
}

export interface Step {
  readonly node: NodeState;
  readonly type: NodeTypeState | undefined;
  /** The type in words; of a block, its class. */
  readonly kind: string;
  readonly resolved: Readonly<Record<string, unknown>> | undefined;
  readonly written: Written | undefined;
}

export function categoryOf(node: NodeState, type: NodeTypeState | undefined): Category {
  return node.type === "Subgraph" ? BLOCK : (type?.category ?? UNKNOWN);
}

export function cardOf(
  path: string,
  ports: Ports,
  diagnostics: readonly Diagnostic[],
  uses: number,
  { run, steps, across, isAlone, isCatalogThere, isCold, inside, picture, promoted, block }: Drawn,
): Card {
  const [{ node, type }] = steps as readonly [Step];
  const isChain = steps.length > 1;
  const told = steps.map(({ node, type, resolved, written }) => partsOf(node, type, resolved, written));
  const parts = isChain ? steps.map((step, place) => stepPart(step, told[place] ?? [])) : (told[0] ?? []);
  // The title of a pattern says what its nodes are: those with values stand below.
  const listed = run ? parts.filter((_, place) => told[place]?.length).slice(0, MOST_VALUES) : parts;
  const summary = wordsOf(parts);
  const errors = diagnostics.filter((diagnostic) => diagnostic.severity !== "info").length;
  const collapsed = node.collapsed ?? false;
  const shown = uses > 1 ? `, shown ${uses} times` : "";
  const origin = provenanceOf(node);
  const frozen = steps.some((step) => isFrozen(step.node) || (isCold && flagOf(step.node, step.type) !== null));
  const opaque = origin?.proof === "opaque" ? ", opaque" : "";
  const problems = errors === 0 ? "" : `, ${errors} ${errors === 1 ? "problem" : "problems"}`;
  const last = run?.at(-1)?.at(-1) ?? steps.at(-1)?.node.name ?? "";
  const called = run ? `${node.name} to ${last}, ${timesInWords(run)}` : node.name;
  const [title, kind] = block ? [node.name, block[0]] : wordsFor(steps, run);
  const isDot = node.type === REROUTE;
  const rows = isChain ? listed.map((part) => [part]) : [node.type === "Subgraph" ? promoted : parts];
  const wide = isWide(title, isChain && run ? "" : kind, rows.flat(), (block ? 1 : 0) + (node.origin ? 1 : 0));
  const lines = rows.flatMap((row) => linesOf(row, wide));
  const closed = isDot ? dotGeometry(across) : geometryOf(ports, lines.length, wide, collapsed, across);
  const pictured = isDot || inside || collapsed ? null : picture;
  return {
    path,
    name: node.name,
    type: node.type,
    category: categoryOf(node, type),
    // Without a catalogue, as in a page without a kernel, nothing can be said of any type.
    known: type !== undefined || !isCatalogThere || node.type === "Subgraph",
    summary,
    lines,
    ports,
    geometry: inside ? openedGeometry(closed, inside, collapsed) : pictured ? picturedGeometry(closed) : closed,
    closed,
    diagnostics,
    label: `${[called, node.type, ...(block ?? []), summary].filter(Boolean).join(", ")}${shown}${opaque}${frozen ? ", frozen" : ""}${collapsed ? ", collapsed" : ""}${inside ? ", open" : ""}${problems}`,
    collapsed,
    uses,
    origin,
    loose:
      isAlone && errors > 0 && diagnostics.every(({ code }) => /^(unconnected-input|missing-property)$/.test(code)),
    ablated: steps.map((step) => ablationOf(step.node)).find((each) => each !== "") ?? "",
    frozen,
    inside: definitionOf(node) !== null,
    run,
    last,
    title: run && !isChain ? rowTitle(node.name, last) : title,
    block,
    kind,
    picture: pictured,
  };
}

/** Most lines of a pattern: more would not fit into the room that arranging left for its first node. */
const MOST_VALUES = 3;

function ablationOf({ properties }: NodeState): string {
  return typeof properties?.ablate === "string" ? properties.ablate : "";
}

/** A step of an expression in words: its type and its values. */
function stepPart({ node, kind }: Step, parts: readonly Part[]): Part {
  const from = parts.flat().find((value) => value.from !== undefined)?.from;
  const text = [kind, wordsOf(parts)].join(" ").trim();
  return [{ property: null, text, from: from ?? node.name }];
}

/** The text of a card: its name, and its type unless the name says it. */
function wordsFor(steps: readonly Step[], run: Run | null): readonly [title: string, kind: string] {
  const [{ node }] = steps as readonly [Step];
  if (steps.length > 1) {
    if (run)
      return [`(${steps.map((step) => step.kind).join(BETWEEN_PARTS)})`, rowTitle(node.name, run.at(-1)?.[0] ?? "")];
    const given = steps.findLast((step) => isGiven(step.node.name, step.node.type))?.node.name;
    const title = given ?? steps.map((step) => variableOf(step.node)).findLast(Boolean);
    return [title ?? rowTitle(steps[0]?.kind ?? "", steps.at(-1)?.kind ?? ""), `${steps.length} steps`];
  }
  return [node.name, isGiven(node.name, node.type) || /^[A-Z]/.test(node.type) ? node.type : ""];
}

/** Whether it is open in place, as a frame around its contents. */
export function isOpen({ geometry, closed, picture }: Card): boolean {
  return geometry !== closed && picture === null;
}

/** What a run is: `5 equal nodes in a row`. */
export function timesInWords(run: Run): string {
  const { length = 1 } = run[0] ?? [];
  return length === 1 ? `${run.length} equal nodes in a row` : `${run.length} times the same ${length} nodes in a row`;
}

/** How often the run that it represents repeats, or number of nodes that show its definition: `×8`. */
export function timesOf({ run, uses }: Card): string {
  const count = run?.length ?? uses;
  return count > 1 ? `×${count}` : "";
}

/** The address in the document of a port of a card: what a card of several gives, its last node gives. */
export function addressOn({ name, ports, last }: Card, port: string, side: "input" | "output"): string {
  if (side === "input") return `${name}.${port}`;
  const shown = ports.outputs.find((each) => each.name === port);
  return shown?.address ?? `${last}.${port}`;
}

/** Of a graph with more cards, each is made when it is first needed, or when there is nothing else to do. */
const MANY_CARDS = 2_000;
/** As large as most cards are. */
const USUAL: Size = { width: NODE_WIDTH, height: HEADER_HEIGHT + SUMMARY_HEIGHT };

/** The cards of a graph by name, each made when it is first asked for. */
export class Cards {
  private readonly made = new Map<string, Card>();

  constructor(
    private readonly names: Pick<ReadonlyMap<string, unknown>, "size" | "has" | "keys">,
    private readonly make: (name: string) => Card,
  ) {}

  get size(): number {
    return this.names.size;
  }

  has(name: string): boolean {
    return this.names.has(name);
  }

  get(name: string): Card | undefined {
    const known = this.made.get(name);
    if (known || !this.names.has(name)) return known;
    const card = this.make(name);
    this.made.set(name, card);
    return card;
  }

  /** A card that is there already, or one of few. */
  ready(name: string): Card | undefined {
    return this.size > MANY_CARDS ? this.made.get(name) : this.get(name);
  }

  /** How large a card is; of one of many that is not made yet, how large most are. */
  roughSize(name: string): Size {
    return this.ready(name)?.geometry ?? USUAL;
  }

  /** Makes those that nobody has asked for yet, in pieces, while the browser is idle; returns what ends it. */
  makeWhenIdle(): () => void {
    if (this.size <= MANY_CARDS) return () => {};
    const names = this.names.keys();
    return whenIdle(() => {
      const next = names.next();
      if (!next.done) this.get(next.value);
      return !next.done;
    });
  }

  keys(): MapIterator<string> {
    return this.names.keys();
  }

  *values(): MapIterator<Card> {
    for (const name of this.names.keys()) yield this.get(name) as Card;
  }

  *[Symbol.iterator](): MapIterator<[string, Card]> {
    for (const card of this.values()) yield [card.name, card];
  }
}

/** So long after a change, in milliseconds: there may be another one, and the first picture comes before. */
const IDLE_AFTER = 1_000;
/** Milliseconds of a piece where the browser does not say how much time there is. */
const PIECE = 8;

/** Calls `work` again and again until it returns false, while the browser has nothing else to do; returns what ends it. */
function whenIdle(work: () => boolean): () => void {
  let ended = false;
  const piece = (deadline?: IdleDeadline) => {
    const end = performance.now() + PIECE;
    while (!ended && (deadline ? deadline.timeRemaining() > 1 : performance.now() < end)) if (!work()) return;
    if (!ended) ask();
  };
  const ask = () => {
    if (typeof requestIdleCallback === "function") requestIdleCallback(piece);
    else setTimeout(piece, 2 * PIECE);
  };
  const begin = setTimeout(ask, IDLE_AFTER);
  return () => {
    ended = true;
    clearTimeout(begin);
  };
}
