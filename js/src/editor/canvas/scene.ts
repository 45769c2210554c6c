import type { NodeState, NodeTypeState } from "../../protocol";
import type { Scene } from "../document/connection";
import { definitionOf, usesOf } from "../document/definitions";
import type { Graph } from "../document/document";
import { graphAt, nodeOf } from "../document/document";
import { portsOf } from "../document/ports";
import { wiringOf } from "../document/wiring";
import type { SessionState } from "../session/session";
import { type Card, cardOf } from "./card";
import { type Point, provisionalPositions } from "./placement";

/** One graph as one view shows it. */
export interface ShownScene extends Scene {
  readonly graphId: string;
  /** `""` or `"block."`: what makes a name in this graph a full path. */
  readonly prefix: string;
  readonly cards: ReadonlyMap<string, Card>;
  /** Centres of nodes that have no position of their own. */
  readonly provisional: ReadonlyMap<string, Point>;
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

  make(state: SessionState, path: readonly string[], shownPorts: ReadonlySet<string>): ShownScene | null {
    const document = state.sync?.shown;
    if (!document) return null;
    const inputs = [document, state.derived, state.catalog, path, shownPorts];
    if (this.last && same(this.last.inputs, inputs)) return this.last.scene;
    const graphId = graphAt(document, path) ?? "";
    const graph = document.graphs.get(graphId) as Graph;
    const types: ReadonlyMap<string, NodeTypeState> = state.catalog?.types ?? new Map();
    const prefix = path.map((name) => `${name}.`).join("");
    const exposed = new Set(
      [...shownPorts].filter((port) => port.startsWith(prefix)).map((port) => port.slice(prefix.length)),
    );
    const wiring = wiringOf(graph);
    const counts = usesOf(document);
    const cards = new Map<string, Card>();
    const made = new Map<string, Made>();
    for (const node of graph.nodes.values()) {
      const into = wiring.into.get(node.name);
      const outOf = wiring.outOf.get(node.name);
      const full = prefix + node.name;
      const resolved = state.derived.resolved.get(full);
      const diagnostics = state.derived.diagnostics.get(full) ?? NO_DIAGNOSTICS;
      const type = types.get(node.type);
      const wired = `${[...(into?.keys() ?? [])].join()}|${outOf?.map((edge) => edge.source).join() ?? ""}`;
      const asPorts = exposed.size === 0 ? "" : [...exposed].filter((port) => nodeOf(port) === node.name).join();
      const uses = counts.get(definitionOf(node) ?? "") ?? 0;
      const key = [node, type, wired, resolved, diagnostics, full, shownBy(node, document.graphs), asPorts, uses];
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
              ),
              made: key,
            };
      made.set(node.name, entry);
      cards.set(node.name, entry.card);
    }
    this.made = made;
    const scene = { document, graph, types, graphId, prefix, cards, exposed, provisional: provisionalPositions(graph) };
    this.last = { inputs, scene };
    return scene;
  }
}

/** Centre of a node as shown. */
export function centreOf(scene: ShownScene, name: string, moving: ReadonlyMap<string, Point>): Point {
  return moving.get(name) ?? scene.graph.nodes.get(name)?.position ?? scene.provisional.get(name) ?? [0, 0];
}

function shownBy(node: NodeState, graphs: ReadonlyMap<string, Graph>): Graph | undefined {
  const id = definitionOf(node);
  return id === null ? undefined : graphs.get(id);
}

function same(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.every((value, index) => Object.is(value, b[index]));
}
