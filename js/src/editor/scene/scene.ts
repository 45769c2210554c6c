import type { Diagnostic, EdgeState, Frame, NodeState, NodeTypeState } from "../../protocol";
import type { Scene } from "../document/connection";
import { definitionOf, usesOf } from "../document/definitions";
import { type Graph, graphAt, nodeOf, splitPort } from "../document/document";
import { frozenBlock } from "../document/freezing";
import { type Ports, type PortView, portsOf } from "../document/ports";
import { type Run, runsOf } from "../document/repeats";
import { type Columns, columnsOf, UNWIRED, wiringOf } from "../document/wiring";
import type { SessionState } from "../session/session";
import { countText } from "../values/amounts";
import { addressOn, type Card, Cards, cardOf, type Step } from "./card";
import { type Folds, foldsOf, placedAt, settled, shownAt } from "./folded";
import { type Box, CLEARLY_DOWN, CLEARLY_RIGHT, NODE_WIDTH, runsRight, type Size } from "./geometry";
import { giverOf, type Inlining, inliningOf, NOTHING_INLINED } from "./inlining";
import { type Point, provisionalPositions } from "./placement";
import { type Pushed, pushedBy, pushedFrames, unpushed } from "./pushed";
import { blockWords, kindOf, type Part, promotedParts, type Written } from "./summary";
import { NOTHING, STILL } from "./view";

/** One graph as one view shows it. */
export interface ShownScene extends Scene {
  readonly graphId: string;
  /** `""` or `"block."`: what makes a name in this graph a full path. */
  readonly prefix: string;
  /** The names of the blocks that lead to it. */
  readonly path: readonly string[];
  readonly cards: Cards;
  /** Whether the graph is drawn from left to right. */
  readonly across: boolean;
  /** Centres of nodes that have no position of their own. */
  readonly provisional: ReadonlyMap<string, Point>;
  /** What repeats in rows of nodes, folded or not. */
  readonly runs: () => readonly Run[];
  readonly folds: Folds;
  /** What is drawn in the blocks that are open in place. */
  readonly open: ReadonlyMap<string, ShownScene>;
  readonly pushed: Pushed;
  /** Frames as shown: open blocks move and widen them. */
  readonly frames: ReadonlyMap<string, Frame>;
  /** What is written on the cards that use it instead of being drawn. */
  readonly inlined: Inlining;
  /** Whether anything could be, also while all is drawn. */
  readonly absorbs: () => boolean;
  /** The edges that are drawn: those into nodes that have no card of their own are not. */
  readonly wires: readonly EdgeState[];
}

interface Made {
  readonly card: Card;
  readonly made: readonly unknown[];
  /** What it was made of, where that is all of one node; null for a card of several, or one that more depends on. */
  readonly alone: readonly unknown[] | null;
  /** What was the same for all cards then. */
  readonly common: readonly unknown[];
}

/** Most cards of deleted nodes that are kept. */
const MANY_LEFT = 200;

const NO_DIAGNOSTICS: readonly never[] = [];

/** Makes scenes; cards whose inputs have not changed keep their identity, so that React skips them. */
export class SceneMaker {
  private readonly made = new Map<string, Made>();
  private last: { inputs: readonly unknown[]; scene: ShownScene } | null = null;
  private common: readonly unknown[] = [];
  /** For each block that is open in place. */
  private inner = new Map<string, SceneMaker>();

  make(
    state: SessionState,
    path: readonly string[],
    shownPorts: ReadonlySet<string>,
    folded: ReadonlySet<string> = NOTHING,
    outlined: ReadonlySet<string> | "all" = NOTHING,
    opened: ReadonlySet<string> = NOTHING,
  ): ShownScene | null {
    const document = state.sync?.shown;
    if (!document) return null;
    const { diagnostics: found, resolved: inferred, costs } = state.derived;
    const options = [shownPorts, folded, outlined, opened];
    const { pictured } = state;
    const inputs = [document, found, inferred, costs, state.catalog, pictured, path.join("."), ...options];
    if (this.last && same(this.last.inputs, inputs)) return this.last.scene;
    const graphId = graphAt(document, path) ?? "";
    const graph = document.graphs.get(graphId) as Graph;
    const types: ReadonlyMap<string, NodeTypeState> = state.catalog?.types ?? new Map();
    const prefix = path.map((name) => `${name}.`).join("");
    const own = (paths: ReadonlySet<string>) =>
      [...paths].filter((each) => each.startsWith(prefix)).map((each) => each.slice(prefix.length));
    const exposed = new Set(own(shownPorts));
    const resolvedAt = (name: string) => inferred.get(prefix + name);
    const runs = once(() => runsOf(document, graph, resolvedAt));
    const provisional = provisionalPositions(graph);
    const toFold = [...folded].some((head) => head.startsWith(prefix))
      ? runs().filter((run) => run.some((names) => names.some((name) => folded.has(prefix + name))))
      : [];
    const inFolds = toFold.flat(2);
    const inlined = outlined === "all" ? NOTHING_INLINED : inliningOf(graph, new Set([...inFolds, ...own(outlined)]));
    const positionOf = (name: string) => graph.nodes.get(name)?.position ?? provisional.get(name) ?? null;
    const folds = foldsOf(graph, toFold, inlined.chains, positionOf);
    const wiring = wiringOf(graph);
    const usual = once(() => (outlined === "all" ? inliningOf(graph, NOTHING) : inlined));
    const across = isAcross(graph, usual());
    const counts = usesOf(document);
    const open = new Map<string, ShownScene>();
    const inner = new Map<string, SceneMaker>();
    const isHidden = (name: string) => folds.heads.has(name) || inlined.hidden.has(name);
    const toOpen = new Set(own(opened));
    for (const node of toOpen.size > 0 ? graph.nodes.values() : []) {
      const { name } = node;
      if (!toOpen.has(name) || isHidden(name) || definitionOf(node) === null) continue;
      const maker = this.inner.get(name) ?? new SceneMaker();
      inner.set(name, maker);
      const inside = maker.make(state, [...path, name], shownPorts, folded, outlined, opened);
      if (inside) open.set(name, inside);
    }
    this.inner = inner;
    const isCold = frozenBlock(document, path) !== null;
    // What no card alone depends on; while it is the same, an ordinary card is as its node is.
    const common = [
      prefix,
      across,
      state.catalog,
      exposed.size + toFold.length === 0,
      inlined === NOTHING_INLINED,
      outlined === "all",
      isCold,
      pictured,
    ];
    if (this.common.length !== common.length || !same(this.common, common)) this.common = common;
    const { common: shared, made } = this;
    if (made.size > 2 * graph.nodes.size + MANY_LEFT) made.clear();
    const make = (name: string): Card => {
      const node = graph.nodes.get(name) as NodeState;
      const full = prefix + name;
      const [type, into] = [types.get(node.type), wiring.into.get(name)];
      // Everything on which an ordinary node's card depends, besides what all cards share.
      const alone = [node, type, into, wiring.outOf.get(name), inferred.get(full), found.get(full)];
      const earlier = made.get(name);
      const isSimple = earlier?.common === shared && shared[3] && shared[4];
      if (isSimple && earlier.alone && same(earlier.alone, alone)) return earlier.card;
      const inside = sizeOf(open.get(name));
      const run = folds.runs.get(name) ?? null;
      const members = folds.members.get(name) ?? [name];
      const steps = (run?.[0] ?? members).map((name): Step => {
        const node = graph.nodes.get(name) as NodeState;
        const [type, resolved] = [types.get(node.type), inferred.get(prefix + name)];
        return { node, type, kind: kindOf(node, document.graphs), resolved, written: inlined.written.get(name) };
      });
      const last = graph.nodes.get(members.at(-1) ?? name) as NodeState;
      const outOf = wiring.outOf.get(last.name);
      const picks = picksOf(inlined, graph, last.name);
      const givers = steps.flatMap(({ written }) => [...(written?.values() ?? [])].map(({ from }) => from));
      const spoken = [...members, ...givers];
      const diagnostics = gathered(spoken.map((name) => found.get(prefix + name)));
      const asPorts = exposed.size === 0 ? "" : [...exposed].filter((port) => nodeOf(port) === name).join();
      const uses = counts.get(definitionOf(node) ?? "") ?? 0;
      const count = costs.get(full)?.parameters;
      const picture = members.map((each) => prefix + each).findLast((each) => pictured.has(each)) ?? null;
      const block =
        node.type === "Subgraph" && steps.length === 1
          ? ([blockWords(node, document.graphs), count ? countText(count) : ""] as const)
          : null;
      const key = [
        block?.join(),
        ...steps.flatMap((step) => [step.node, step.type, step.resolved, textsOf(step.written)]),
        `${[...(into?.keys() ?? [])].join()}|${outOf?.map(({ source }) => source).join() ?? ""}|${picks.join()}`,
        diagnostics,
        full,
        shownBy(node, document.graphs),
        asPorts,
        uses,
        run && members.join(),
        inside && `${inside.width} ${inside.height}`,
        picture,
        across,
        isCold,
        outlined === "all",
        state.catalog !== null,
      ];
      const isAlone = members.length === 1 && definitionOf(node) === null;
      const card =
        earlier && same(earlier.made, key)
          ? earlier.card
          : cardOf(
              full,
              portsShown(
                portsOf(document, node, type, into, last === node ? outOf : [], exposed),
                last === node ? null : portsOf(document, last, types.get(last.type), UNWIRED, outOf),
                inlined.written.get(name),
                picks,
                outlined === "all" || last.origin == null ? [] : (outOf ?? []),
              ),
              diagnostics,
              uses,
              {
                run,
                steps,
                across,
                isAlone: !into?.size && !outOf?.length,
                isCatalogThere: state.catalog !== null,
                isCold,
                inside,
                picture,
                promoted: promotedIn(shownBy(node, document.graphs), types),
                block,
              },
            );
      made.set(name, { card, made: key, alone: isAlone ? alone : null, common: shared });
      return card;
    };
    const isWholeGraph = folds.heads.size + inlined.hidden.size === 0;
    const drawn = isWholeGraph ? graph.nodes : new Set([...graph.nodes.keys()].filter((name) => !isHidden(name)));
    const cards = new Cards(drawn, make);
    const all = [...graph.edges.values()];
    const wires =
      isWholeGraph && inlined.written.size === 0
        ? all
        : all.filter(({ target }) => {
            const [name, port] = splitPort(target);
            return cards.has(name) && !inlined.written.get(name)?.has(port);
          });
    const pushed = pushedBy(
      open.size + pictured.size === 0
        ? []
        : [...cards].map(([name, { closed, geometry }]) => ({
            name,
            centre: shownAt(folds, positionOf(name) ?? [0, 0]),
            closed,
            open: geometry === closed ? null : geometry,
          })),
      across,
      [...graph.frames.values()],
    );
    const frames = pushedFrames(graph.frames, pushed);
    const hasSpare = ({ type, origin }: NodeState) => origin != null && (types.get(type)?.outputs?.length ?? 1) > 1;
    const absorbs = () => usual() !== NOTHING_INLINED || [...graph.nodes.values()].some(hasSpare);
    const shown = { document, graph, types, graphId, prefix, path, cards, across, exposed, provisional };
    const scene = { ...shown, runs, folds, open, pushed, frames, inlined, wires, absorbs };
    this.last = { inputs, scene };
    return scene;
  }
}

/** Whether a graph is drawn from left to right, as far as its cards have places. */
function isAcross(graph: Graph, inlined: Inlining): boolean {
  if (inlined === NOTHING_INLINED) return leansRight(columnsOf(graph));
  const { nodes, edges } = graph;
  const heads = new Map<string, string>();
  for (const [head = "", ...others] of inlined.chains) for (const name of others) heads.set(name, head);
  const ends: (readonly [number, number, number, number])[] = [];
  for (const { source, target } of edges.values()) {
    const [giver] = giverOf(inlined, source);
    const taker = nodeOf(target);
    if (inlined.hidden.has(giver) || inlined.hidden.has(taker) || heads.has(taker)) continue;
    const [from, to] = [nodes.get(heads.get(giver) ?? giver)?.position, nodes.get(taker)?.position];
    if (from && to) ends.push([from[0], from[1], to[0], to[1]]);
  }
  return runsRight(ends);
}

/** The same as `runsRight`, of a large graph at each edit. */
function leansRight({ xs, ys, from, to }: Columns): boolean {
  let more = 0;
  for (let edge = 0; edge < from.length; edge += 1) {
    const [source, target] = [from[edge] as number, to[edge] as number];
    // What has no place compares as neither.
    if ((xs[target] as number) - (xs[source] as number) >= CLEARLY_RIGHT) more += 1;
    if ((ys[target] as number) - (ys[source] as number) >= CLEARLY_DOWN) more -= 1;
  }
  return more > 0;
}

/** The ports of a card, as far as they are not written on it; of the outputs of imported code, those that `edges` use. */
function portsShown(
  first: Ports,
  last: Ports | null,
  written: Written | undefined,
  picks: readonly string[],
  edges: readonly EdgeState[],
): Ports {
  const used = new Set(edges.map(({ source }) => splitPort(source)[1]));
  const inputs = written ? first.inputs.filter(({ name }) => !written.has(name)) : first.inputs;
  const outputs = (last ?? first).outputs.filter(({ name }) => used.size === 0 || used.has(name));
  if (picks.length === 0) return { inputs, outputs };
  const part = { kind: "tensor", optional: false, wired: true, doc: "" } as const;
  return { inputs, outputs: picks.map((name): PortView => ({ ...part, name, address: `${name}.output` })) };
}

/** The parts that nodes take of what a node gives, in their order: its outputs on screen. */
function picksOf({ picks }: Inlining, { nodes }: Graph, giver: string): readonly string[] {
  if (picks.size === 0) return [];
  const index = (name: string) => Number(nodes.get(name)?.properties?.index);
  return [...picks]
    .flatMap(([name, place]) => (place === `${giver}.${name}` ? [name] : []))
    .sort((a, b) => index(a) - index(b));
}

function textsOf(written: Written | undefined): string {
  return written ? [...written].map(([port, { text, from }]) => `${port} ${text} ${from}`).join() : "";
}

/** A node's position in the document, or its provisional one until the graph is arranged. */
export function placeOf({ graph, provisional }: ShownScene, name: string): Point {
  return graph.nodes.get(name)?.position ?? provisional.get(name) ?? [0, 0];
}

/** Centre of a node as shown. */
export function centreOf(scene: ShownScene, name: string, moving: ReadonlyMap<string, Point>): Point {
  return moving.get(name) ?? scene.pushed.places.get(name) ?? shownAt(scene.folds, placeOf(scene, name));
}

/** The place of all that is drawn, frames included; null for nothing. */
export function extentOf(scene: ShownScene): Box | null {
  let [left, top, right, bottom] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, -Infinity, -Infinity];
  const reach = (x: number, y: number, width: number, height: number) => {
    if (x < left) left = x;
    if (y < top) top = y;
    if (x + width > right) right = x + width;
    if (y + height > bottom) bottom = y + height;
  };
  for (const name of scene.cards.keys()) {
    const [x, y] = centreOf(scene, name, STILL);
    const { width, height } = scene.cards.roughSize(name);
    reach(x - width / 2, y - height / 2, width, height);
  }
  for (const { box } of scene.frames.values()) reach(...box);
  return right < left ? null : { left, top, width: right - left, height: bottom - top };
}

/** The place of every card; of one of many that is not made yet, as large as most are. */
export function roughBoxes(scene: ShownScene): Box[] {
  const boxes: Box[] = [];
  for (const name of scene.cards.keys()) {
    const [x, y] = centreOf(scene, name, STILL);
    const { width, height } = scene.cards.roughSize(name);
    boxes.push({ left: x - width / 2, top: y - height / 2, width, height });
  }
  return boxes;
}

/** How large the inside of an open block is drawn. */
export function sizeOf(inside: ShownScene | undefined): Size | null {
  return inside ? (extentOf(inside) ?? EMPTY_INSIDE) : null;
}

const EMPTY_INSIDE: Size = { width: NODE_WIDTH, height: 0 };

/** The place of the document for something of a size that is shown at a point. */
export function documentPlace({ folds, pushed }: ShownScene, at: Point, size: Size): Point {
  return placedAt(folds, unpushed(pushed, at, size));
}

/** The places of the document that nodes get when their cards are moved to these centres. */
export function settledAt(scene: ShownScene, cards: ReadonlyMap<string, Point>): ReadonlyMap<string, Point> {
  const moved = new Map<string, Point>();
  for (const { name } of scene.pushed.pushes) {
    const [to, from] = [cards.get(name), centreOf(scene, name, STILL)];
    if (to) moved.set(name, [to[0] - from[0], to[1] - from[1]]);
  }
  const points = new Map<string, Point>();
  for (const [name, point] of cards) {
    const size = scene.cards.get(name)?.geometry;
    points.set(name, size ? unpushed(scene.pushed, point, size, moved, name) : point);
  }
  return settled(scene.folds, points, (name) => placeOf(scene, name));
}

/** The node whose card represents a node: the node itself, unless it is folded. */
export function cardFor(scene: ShownScene, name: string): string {
  return scene.folds.heads.get(name) ?? name;
}

/** The nodes that a card represents, its own first. */
export function membersOf({ folds }: ShownScene, name: string): readonly string[] {
  return folds.members.get(name) ?? [name];
}

/** The node that has the ports of one side of a card: what a card of several gives, its last node gives. */
export function ownerOf(scene: ShownScene, name: string, side: "input" | "output"): string {
  return side === "output" ? (membersOf(scene, name).at(-1) ?? name) : name;
}

/** The address in the document of a port of a card, given as `"card.port"`. */
export function addressOf(scene: ShownScene, place: string, side: "input" | "output"): string {
  const [name, port] = splitPort(place);
  const card = scene.cards.get(name);
  return card ? addressOn(card, port, side) : place;
}

function shownBy(node: NodeState, graphs: ReadonlyMap<string, Graph>): Graph | undefined {
  const id = definitionOf(node);
  return id === null ? undefined : graphs.get(id);
}

function promotedIn(inside: Graph | undefined, types: ReadonlyMap<string, NodeTypeState>): readonly Part[] {
  return [...(inside?.nodes.values() ?? [])].flatMap((node) => promotedParts(node, types.get(node.type)));
}

function gathered(lists: readonly (readonly Diagnostic[] | undefined)[]): readonly Diagnostic[] {
  const [first, more] = lists.filter((list) => list !== undefined && list.length > 0);
  // The same list as before where there is one: cards are compared by it.
  return more ? lists.flatMap((list) => list ?? []) : (first ?? NO_DIAGNOSTICS);
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

function same(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.every((value, index) => Object.is(value, b[index]));
}
