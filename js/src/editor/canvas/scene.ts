import type { Diagnostic, EdgeState, NodeState, NodeTypeState } from "../../protocol";
import type { Scene } from "../document/connection";
import { definitionOf, usesOf } from "../document/definitions";
import type { Graph } from "../document/document";
import { graphAt, nodeOf, splitPort } from "../document/document";
import { portsOf } from "../document/ports";
import { type Run, runsOf } from "../document/repeats";
import { wiringOf } from "../document/wiring";
import type { SessionState } from "../session/session";
import { NOTHING } from "../view";
import { type Card, cardOf } from "./card";
import { type Folds, foldsOf, shownAt } from "./folded";
import { runsRight } from "./geometry";
import { type Point, provisionalPositions } from "./placement";

/** One graph as one view shows it. */
export interface ShownScene extends Scene {
  readonly graphId: string;
  /** `""` or `"block."`: what makes a name in this graph a full path. */
  readonly prefix: string;
  readonly cards: ReadonlyMap<string, Card>;
  /** Whether the graph is drawn from left to right. */
  readonly across: boolean;
  /** Centres of nodes that have no position of their own. */
  readonly provisional: ReadonlyMap<string, Point>;
  /** Equal nodes in a row, folded or not. */
  readonly runs: () => readonly Run[];
  readonly folds: Folds;
  /** The edges that are drawn: those into nodes that a folded card stands for are not. */
  readonly wires: readonly EdgeState[];
}

interface Made {
  readonly card: Card;
  readonly made: readonly unknown[];
}

const NO_DIAGNOSTICS: readonly never[] = [];

/** Makes scenes; cards whose inputs have not changed keep their identity, so that React skips them. */
export class SceneMaker {
  private made = new Map<string, Made>();
  private last: { inputs: readonly unknown[]; scene: ShownScene } | null = null;

  make(
    state: SessionState,
    path: readonly string[],
    shownPorts: ReadonlySet<string>,
    folded: ReadonlySet<string> = NOTHING,
  ): ShownScene | null {
    const document = state.sync?.shown;
    if (!document) return null;
    const inputs = [document, state.derived, state.catalog, path, shownPorts, folded];
    if (this.last && same(this.last.inputs, inputs)) return this.last.scene;
    const graphId = graphAt(document, path) ?? "";
    const graph = document.graphs.get(graphId) as Graph;
    const types: ReadonlyMap<string, NodeTypeState> = state.catalog?.types ?? new Map();
    const prefix = path.map((name) => `${name}.`).join("");
    const exposed = new Set(
      [...shownPorts].filter((port) => port.startsWith(prefix)).map((port) => port.slice(prefix.length)),
    );
    const { diagnostics: found, resolved: inferred } = state.derived;
    const runs = once(() => runsOf(document, graph, (name) => inferred.get(prefix + name)));
    const provisional = provisionalPositions(graph);
    const toFold = [...folded].some((head) => head.startsWith(prefix))
      ? runs().filter(([head]) => folded.has(prefix + head))
      : [];
    const folds = foldsOf(graph, toFold, (name) => graph.nodes.get(name)?.position ?? provisional.get(name) ?? null);
    const wiring = wiringOf(graph);
    const across = isAcross(graph);
    const counts = usesOf(document);
    const cards = new Map<string, Card>();
    const made = new Map<string, Made>();
    for (const node of graph.nodes.values()) {
      if (folds.heads.has(node.name)) continue;
      const into = wiring.into.get(node.name);
      const outOf = wiring.outOf.get(node.name);
      const full = prefix + node.name;
      const resolved = inferred.get(full);
      const run = folds.runs.get(node.name);
      const diagnostics = run
        ? gathered(run.map((name) => found.get(prefix + name)))
        : (found.get(full) ?? NO_DIAGNOSTICS);
      const type = types.get(node.type);
      const wired = `${[...(into?.keys() ?? [])].join()}|${outOf?.map((edge) => edge.source).join() ?? ""}`;
      const asPorts = exposed.size === 0 ? "" : [...exposed].filter((port) => nodeOf(port) === node.name).join();
      const uses = counts.get(definitionOf(node) ?? "") ?? 0;
      const shown = shownBy(node, document.graphs);
      const key = [
        node,
        type,
        wired,
        resolved,
        diagnostics,
        full,
        shown,
        asPorts,
        uses,
        run?.join(),
        across,
        state.catalog !== null,
      ];
      const earlier = this.made.get(node.name);
      const entry =
        earlier && same(earlier.made, key)
          ? earlier
          : {
              card: cardOf(
                full,
                node,
                type,
                portsOf(document, node, type, into, outOf, exposed),
                resolved,
                diagnostics,
                uses,
                state.catalog !== null,
                run,
                across,
              ),
              made: key,
            };
      made.set(node.name, entry);
      cards.set(node.name, entry.card);
    }
    this.made = made;
    const wires = [...graph.edges.values()].filter(({ target }) => !folds.heads.has(nodeOf(target)));
    const scene = { document, graph, types, graphId, prefix, cards, across, exposed, provisional, runs, folds, wires };
    this.last = { inputs, scene };
    return scene;
  }
}

/** Whether a graph is drawn from left to right, as far as its nodes have places. */
function isAcross({ nodes, edges }: Graph): boolean {
  const ends = [...edges.values()].flatMap(({ source, target }) => {
    const [from, to] = [nodes.get(nodeOf(source))?.position, nodes.get(nodeOf(target))?.position];
    return from && to ? [[from[0], from[1], to[0], to[1]] as const] : [];
  });
  return runsRight(ends);
}

/** Where a node stands in the document, or will stand until it is arranged. */
export function placeOf({ graph, provisional }: ShownScene, name: string): Point {
  return graph.nodes.get(name)?.position ?? provisional.get(name) ?? [0, 0];
}

/** Centre of a node as shown. */
export function centreOf(scene: ShownScene, name: string, moving: ReadonlyMap<string, Point>): Point {
  return moving.get(name) ?? shownAt(scene.folds, placeOf(scene, name));
}

/** The node whose card stands for a node: itself, unless it is folded away. */
export function cardFor(scene: ShownScene, name: string): string {
  return scene.folds.heads.get(name) ?? name;
}

/** The node that has the ports of one side of a card: what a folded card gives, its last node gives. */
export function ownerOf({ folds }: ShownScene, name: string, side: "input" | "output"): string {
  return side === "output" ? (folds.runs.get(name)?.at(-1) ?? name) : name;
}

/** The address in the document of a port of a card, given as `"card.port"`. */
export function addressOf(scene: ShownScene, place: string, side: "input" | "output"): string {
  const [name, port] = splitPort(place);
  return `${ownerOf(scene, name, side)}.${port}`;
}

function shownBy(node: NodeState, graphs: ReadonlyMap<string, Graph>): Graph | undefined {
  const id = definitionOf(node);
  return id === null ? undefined : graphs.get(id);
}

function gathered(lists: readonly (readonly Diagnostic[] | undefined)[]): readonly Diagnostic[] {
  const all = lists.flatMap((list) => list ?? []);
  return all.length > 0 ? all : NO_DIAGNOSTICS;
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
