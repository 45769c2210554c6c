import {
  ARITHMETIC,
  CASTS,
  COMPARISONS,
  COMPUTED_VALUES,
  LITERALS,
  type NodeState,
  PRODUCTS,
  RESHAPES,
  SIZES_OF_TENSORS,
  SPLITS,
  VALUE_ATTRIBUTES,
} from "../../protocol";
import { type Graph, nodeOf, splitPort } from "../document/document";
import type { Row } from "../document/repeats";
import { UNWIRED, type Wiring, wiringOf } from "../document/wiring";
import { innerText } from "../values/text";
import { brackets, NEEDS, subscript, type Written } from "./summary";

/**
 * What a view writes on the cards that use it instead of drawing it: size arithmetic, constants, parts of a tuple, and
 * the reshapes and casts that one line of code chains. `tests/cases/inlining.json` compares with Python's picture.
 */
export interface Inlining {
  /** The nodes that have no card of their own; those of `chains` after the first are not among them. */
  readonly hidden: ReadonlySet<string>;
  /**
   * What is written for the input ports that hidden nodes feed, and by which, by node: `size` of `view` is `B, T`; and for
   * the edges from a part of a result: `output` of `getitem` is `x[:, 0]`.
   */
  readonly written: ReadonlyMap<string, Written>;
  /**
   * Where the edges from parts of results begin on screen: those from `q` at an output of its own, as `split.q`, and those
   * from `getitem` where the whole result does, as `block.output`.
   */
  readonly picks: ReadonlyMap<string, string>;
  /** Rows of nodes that are one card, as `q.view(…).transpose(1, 2)` is one expression. */
  readonly chains: readonly Row[];
}

export const NOTHING_INLINED: Inlining = { hidden: new Set(), written: new Map(), picks: new Map(), chains: [] };

const BINARY: Readonly<Record<string, readonly [sign: string, level: number]>> = {
  operator_add: [" + ", 2],
  operator_sub: [" - ", 2],
  operator_mul: ["*", 3],
  operator_truediv: ["/", 3],
  operator_floordiv: ["//", 3],
  operator_mod: ["%", 3],
  operator_pow: ["**", 4],
};
const COMPARED: Readonly<Record<string, string>> = {
  eq: " == ",
  ne: " != ",
  lt: " < ",
  le: " <= ",
  gt: " > ",
  ge: " >= ",
};
const ATOM = 9;

/** What a graph's cards absorb; the nodes of `kept` stay as they are, and so does what leads to them. */
export function inliningOf(graph: Graph, kept: ReadonlySet<string>): Inlining {
  let any = false;
  for (const { type, origin } of graph.nodes.values())
    any ||= ABSORBED.has(type) || (origin != null && JOINED.has(type));
  if (!any) return NOTHING_INLINED;
  const found = new Reader(graph, kept).read();
  return found.hidden.size + found.chains.length > 0 ? found : NOTHING_INLINED;
}

type Types = ReadonlySet<string>;
const SIZES: Types = new Set(SIZES_OF_TENSORS);
const COMPUTED: Types = new Set(COMPUTED_VALUES);
const LITERAL: Types = new Set(LITERALS);
const ATTRIBUTES: Types = new Set(VALUE_ATTRIBUTES);
const GIVERS: Types = new Set(SPLITS);
const COMPARES: Types = new Set(COMPARISONS);
const BEGINNINGS: Types = new Set(PRODUCTS);
const COMPUTES: Types = new Set(ARITHMETIC);
const STEPS: Types = new Set([...RESHAPES, ...CASTS]);
const ABSORBED: Types = new Set(["getattr", ...SIZES, ...COMPUTED, ...LITERAL, ...STEPS, "Buffer"]);
/** Those of imported code alone. */
const JOINED: Types = new Set([...BEGINNINGS, ...COMPUTES]);

class Reader {
  private readonly wiring: Wiring;
  private readonly order: readonly string[];
  private readonly values = new Set<string>();
  /** Buffers, and what parts of them are compared with values to. */
  private readonly masks = new Set<string>();
  private readonly hidden = new Set<string>();
  private readonly picks = new Map<string, string>();
  /** What each value is, as one would write it, and how firmly its parts are bound. */
  private readonly formulas = new Map<string, readonly [text: string, level: number]>();

  constructor(
    private readonly graph: Graph,
    private readonly kept: ReadonlySet<string>,
  ) {
    this.wiring = wiringOf(graph);
    this.order = orderOf(graph, this.wiring);
  }

  read(): Inlining {
    for (const name of this.order) {
      const place = this.placeOf(name);
      if (this.isValue(name)) this.values.add(name);
      else if (this.isMask(name)) this.masks.add(name);
      else if (place !== null) this.picks.set(name, place);
    }
    for (const name of [...this.order].reverse()) {
      const isText = this.values.has(name) || this.masks.has(name);
      if (this.picks.has(name) || (isText && this.isAbsorbed(name))) this.hidden.add(name);
    }
    for (const name of this.order)
      if (this.hidden.has(name) && splitPort(this.picks.get(name) ?? ".")[1] !== name)
        this.formulas.set(name, this.formula(name));
    const written = new Map<string, Map<string, { text: string; from: string }>>();
    for (const { source, target } of this.graph.edges.values()) {
      const from = nodeOf(source);
      if (!this.formulas.has(from) || this.hidden.has(nodeOf(target))) continue;
      const [name, port] = splitPort(this.picks.has(from) ? source : target);
      const ports = written.get(name) ?? new Map();
      written.set(name, ports.set(port, { text: this.term(from, -1), from }));
    }
    for (const name of this.order) {
      const [host, condition] = [this.guarded(name), written.get(name)?.get("condition")];
      if (!host || !condition) continue;
      this.hidden.add(name);
      written.delete(name);
      const text = NEEDS + condition.text;
      written.set(host, (written.get(host) ?? new Map()).set(name, { text, from: name }));
    }
    return { hidden: this.hidden, written, picks: this.picks, chains: this.chains() };
  }

  private into(name: string) {
    return this.wiring.into.get(name) ?? UNWIRED;
  }

  private feeding(name: string): string[] {
    return [...this.into(name).values()].map(({ source }) => nodeOf(source));
  }

  private usersOf(name: string): string[] {
    return (this.wiring.outOf.get(name) ?? []).map(({ target }) => nodeOf(target));
  }

  private typeOf(name: string): string {
    return this.graph.nodes.get(name)?.type ?? "";
  }

  private isAbsorbed(name: string): boolean {
    const users = this.usersOf(name);
    // The outputs of a graph are always drawn.
    const mayAbsorb = (user: string) => this.typeOf(name) !== "Buffer" && this.typeOf(user) !== "Output";
    const absorbs = (user: string) => this.hidden.has(user) || mayAbsorb(user);
    return !this.kept.has(name) && users.length > 0 && users.every(absorbs);
  }

  /** Whether a node gives no tensor, but a number or several that are made of sizes and constants. */
  private isValue(name: string): boolean {
    const { type, properties } = this.graph.nodes.get(name) as NodeState;
    if (type === "getattr") return ATTRIBUTES.has(String(properties?.name));
    const feeding = this.feeding(name);
    const made = LITERAL.has(type) || (COMPUTED.has(type) && (feeding.length > 0 || type === "choose"));
    return SIZES.has(type) || (made && feeding.every((one) => this.values.has(one)));
  }

  /** Whether a node gives a buffer, or what a part of one is compared with a value to: `bias[:, :, :T] == 0`. */
  private isMask(name: string): boolean {
    const type = this.typeOf(name);
    if (type === "Buffer") return true;
    const input = this.into(name).get("input");
    const given = input && nodeOf(input.source);
    if (given === undefined || !this.masks.has(given) || !(type === "getitem" || COMPARES.has(type))) return false;
    return this.feeding(name).every((one) => one === given || this.values.has(one));
  }

  /** The output on screen at which the edges from a part of a result begin; null if the node has a card. */
  private placeOf(name: string): string | null {
    const { type, properties } = this.graph.nodes.get(name) as NodeState;
    const [edge, more] = type === "getitem" && !this.kept.has(name) ? [...this.into(name).values()] : [];
    if (!edge || more || properties?.index === undefined) return null;
    const [giver, port] = splitPort(edge.source);
    if (name === port) return null;
    if (GIVERS.has(this.typeOf(giver)) && Number.isInteger(properties.index)) return `${giver}.${name}`;
    return this.isImported(name) && this.usersOf(name).length > 0 ? (this.picks.get(giver) ?? edge.source) : null;
  }

  /** The first Input that a check of inputs alone reads: it is written on the card of that. */
  private guarded(name: string): string | undefined {
    if (this.typeOf(name) !== "check" || this.kept.has(name)) return undefined;
    const seen = new Set(this.feeding(name));
    for (const one of seen) if (this.formulas.has(one)) for (const each of this.feeding(one)) seen.add(each);
    const read = this.order.filter((one) => seen.has(one) && !this.formulas.has(one));
    return read.every((one) => this.typeOf(one) === "Input") ? read[0] : undefined;
  }

  /** The name of a node, or its expression, in brackets if its precedence is below `level`. */
  private term(name: string, level: number): string {
    const formula = this.formulas.get(name);
    if (isGiven(name, this.typeOf(name)) && !(formula && this.picks.has(name))) return name;
    if (!formula) return variableOf(this.graph.nodes.get(name) as NodeState) ?? name;
    const [text, binds] = formula;
    if (text.length > MOST_LETTERS) return `${text.slice(0, MOST_LETTERS - 1)}…`;
    return binds < level ? `(${text})` : text;
  }

  /** What feeds a port of a value, or what was typed there. */
  private operand(name: string, port: string, level: number): string {
    const edge = this.into(name).get(port);
    if (edge) {
      const [from, output] = splitPort(edge.source);
      if (output === "output") return this.term(from, level); // else one of several, as the states of an LSTM
      return variableOf(this.graph.nodes.get(from) as NodeState, output) ?? edge.source;
    }
    const given = this.graph.nodes.get(name)?.properties?.[port];
    return given === undefined ? "?" : port === "index" ? brackets(given) : innerText(given);
  }

  private formula(name: string): readonly [text: string, level: number] {
    const { type, properties = {} } = this.graph.nodes.get(name) as NodeState;
    const binary = BINARY[type];
    if (binary) {
      const [sign, level] = binary;
      return [`${this.operand(name, "a", level)}${sign}${this.operand(name, "b", level + 1)}`, level];
    }
    const compared = COMPARED[bare(type)];
    if (compared !== undefined) {
      const [one, other] = COMPARES.has(type) ? ["input", "other"] : ["a", "b"];
      return [`${this.operand(name, one as string, 2)}${compared}${this.operand(name, other as string, 2)}`, 1];
    }
    switch (type) {
      case "Constant":
        return [subscript(properties.value), ATOM];
      case "slice": {
        const part = (port: string) => this.operand(name, port, 0).replace(/^None$/, "");
        const step = part("step");
        return [`${part("start")}:${part("stop")}${step ? `:${step}` : ""}`, 0];
      }
      case "tuple":
      case "list": {
        const items = this.itemsOf(name);
        const inside = items.join(", ");
        return type === "list" ? [`[${inside}]`, ATOM] : [items.length === 1 ? `${inside},` : inside, -1];
      }
      case "getattr":
        return [`${this.operand(name, "input", ATOM)}.${properties.name}`, ATOM];
      case "getitem":
        return [`${this.operand(name, "input", ATOM)}[${this.operand(name, "index", -1)}]`, ATOM];
      case "operator_neg":
        return [`-${this.operand(name, "a", ATOM)}`, 3];
      case "choose":
        return [`${this.operand(name, "train", 1)} if training else ${this.operand(name, "eval", 1)}`, 0];
      case "Buffer":
        return [name, ATOM];
    }
    const [first] = this.feeding(name);
    const subject = (level: number) => (first === undefined ? "?" : this.term(first, level));
    if (type === "len" || !SIZES.has(type)) return [`${bare(type)}(${subject(0)})`, ATOM];
    const { dim } = properties;
    return [`${subject(ATOM)}.${type}(${dim == null ? "" : innerText(dim)})`, ATOM];
  }

  private itemsOf(name: string): string[] {
    const wired = [...this.into(name)].map(([port, edge]) => [Number(port.split("_").at(-1)), edge] as const);
    return wired.sort(([a], [b]) => a - b).map(([, edge]) => this.term(nodeOf(edge.source), 0));
  }

  private chains(): Row[] {
    const links = new Map<string, string>();
    for (const name of this.graph.nodes.keys()) {
      const next = this.nextOf(name);
      if (next !== null) links.set(name, next);
    }
    const followers = new Set(links.values());
    const found: Row[] = [];
    for (const start of links.keys()) {
      if (followers.has(start)) continue;
      const chain = [start];
      for (let at = links.get(start); at !== undefined && chain.length < MOST_STEPS; at = links.get(at)) chain.push(at);
      found.push(chain);
    }
    return found;
  }

  /** The step that follows one of an expression: it alone uses what that gives, and takes nothing else drawn. */
  private nextOf(name: string): string | null {
    if (!this.begins(name)) return null;
    const [next, more] = this.usersOf(name).filter((user) => !this.hidden.has(user) || this.picks.has(user));
    if (next === undefined || more !== undefined || !this.isStep(next)) return null;
    return this.drawnInputs(next) === 1 ? next : null;
  }

  private drawnInputs(name: string): number {
    return this.feeding(name).filter((from) => !this.hidden.has(from) || this.picks.has(from)).length;
  }

  private isStep(name: string): boolean {
    const type = this.typeOf(name);
    return !this.kept.has(name) && (STEPS.has(type) || (COMPUTES.has(type) && this.isImported(name)));
  }

  /** Whether an expression may begin with a node, or go on after it. */
  private begins(name: string): boolean {
    const type = this.typeOf(name);
    if (BEGINNINGS.has(type)) return !this.kept.has(name) && this.isImported(name);
    return this.isStep(name) && (!COMPUTES.has(type) || this.drawnInputs(name) === 1);
  }

  private isImported(name: string): boolean {
    return this.graph.nodes.get(name)?.origin != null;
  }
}

/** Beyond so many steps, a card would be a list. */
const MOST_STEPS = 4;
const MOST_LETTERS = 60;

/** Whether a name says more than its type: `conv2` is what a `Conv2d` is called by itself, `stem` is not. */
export function isGiven(name: string, type: string): boolean {
  const plain = (words: string) =>
    bare(words)
      .replace(/_?\d*$/, "")
      .toLowerCase();
  return plain(name) !== plain(type);
}

/** What imported code calls the result of a node. */
export function variableOf({ origin }: NodeState, port = "output"): string | undefined {
  return origin?.variables?.[port];
}

function bare(type: string): string {
  return type.replace(/^(operator|math)_/, "");
}

/** The nodes in an order in which every edge points forward; those on a loop, of a damaged file, are left out. */
function orderOf(graph: Graph, { into, outOf }: Wiring): string[] {
  const waiting = new Map([...graph.nodes.keys()].map((name) => [name, into.get(name)?.size ?? 0]));
  const ready = [...graph.nodes.keys()].filter((name) => waiting.get(name) === 0);
  for (const name of ready) {
    for (const { target } of outOf.get(name) ?? []) {
      const follower = nodeOf(target);
      const left = (waiting.get(follower) ?? 0) - 1;
      waiting.set(follower, left);
      if (left === 0) ready.push(follower);
    }
  }
  return ready;
}

/** Where an edge begins on screen that begins at an output of the document: a part that is taken begins at its giver. */
export function giverOf({ picks }: Inlining, source: string): readonly [node: string, port: string] {
  return splitPort(picks.get(nodeOf(source)) ?? source);
}

/** What an edge says that begins at a part of a result: `x[:, 0]`. */
export function partAt({ picks, written }: Inlining, source: string): string | undefined {
  const [name, port] = splitPort(source);
  return picks.has(name) ? written.get(name)?.get(port)?.text : undefined;
}

/** Nodes, with what is written for them alone and the parts that are taken of them: they are copied and deleted together. */
export function withOwn(
  { hidden, picks, written }: Inlining,
  graph: Graph,
  names: ReadonlySet<string>,
): ReadonlySet<string> {
  if (hidden.size === 0) return names;
  const { outOf } = wiringOf(graph);
  const all = new Set(names);
  const grow = (name: string) => {
    const host = [...written].find(([, ports]) => ports.has(name))?.[0];
    const place = picks.get(name);
    const giver = place === undefined ? host : nodeOf(place);
    if (giver !== undefined && all.has(giver)) return true;
    // An output of a card stays with that; what is written of an edge goes with either end.
    if (giver !== undefined && (place === undefined || splitPort(place)[1] === name)) return false;
    return (outOf.get(name) ?? []).every(({ target }) => all.has(nodeOf(target)));
  };
  let before: number;
  do {
    before = all.size;
    for (const name of [...hidden].reverse()) if (!all.has(name) && grow(name)) all.add(name);
  } while (all.size > before);
  return all;
}
