import type { Fix, Op } from "../protocol";
import { freePlace, type Point, STEP_Y } from "./canvas/placement";
import { centreOf, SceneMaker, type ShownScene } from "./canvas/scene";
import { matchPorts, whyNotConnect } from "./document/connection";
import { edgeId, graphAt, nodeOf, toState } from "./document/document";
import { type Fragment, fragmentOf, parseFragment, pasteOps } from "./document/fragment";
import { freeName } from "./document/names";
import { portsOf } from "./document/ports";
import type { Session } from "./session/session";
import { Store } from "./session/store";
import { FIRST_VIEW, NOTHING, STILL, type ViewState } from "./view";

/** What the canvas can do for the commands: it alone knows the viewport. */
export interface Viewport {
  centre(): Point;
  fit(): void;
  reveal(name: string): void;
  /** The place on the canvas under a point of the page; null outside of it. */
  at(clientX: number, clientY: number): Point | null;
}

const NUDGE_ENDS_AFTER = 350;
const PASTE_OFFSET = [32, 48] as const;

/** What was copied last, for hosts whose page may not read the clipboard. */
let pageClipboard = "";

/** One view's commands: each reads the scene, builds ops, and sends them as one undoable edit. */
export class Editor {
  readonly view = new Store<ViewState>(FIRST_VIEW);
  viewport: Viewport | null = null;
  private readonly scenes = new SceneMaker();
  private nudging: ReturnType<typeof setTimeout> | null = null;

  constructor(readonly session: Session) {}

  scene(): ShownScene | null {
    return this.scenes.make(this.session.store.get(), this.view.get().path);
  }

  patch(change: Partial<ViewState>): void {
    this.view.update((state) => ({ ...state, ...change }));
  }

  select(nodes: Iterable<string>, edges: Iterable<string> = NOTHING): void {
    this.patch({ nodes: new Set(nodes), edges: new Set(edges) });
  }

  selectAll(): void {
    this.select(this.scene()?.graph.nodes.keys() ?? []);
  }

  /** Adds a node of `type` at `at`, or where there is room; fed by the one selected node when that fits. */
  add(type: string, at?: Point): string | null {
    const scene = this.scene();
    if (!scene) return null;
    const name = freeName(type, scene.graph.nodes);
    const node = { name, type, properties: {}, position: null, origin: null };
    const { nodes } = this.view.get();
    const [only] = nodes.size === 1 && !at ? nodes : [];
    const feeder = only === undefined ? undefined : scene.graph.nodes.get(only);
    const source = feeder && scene.cards.get(feeder.name)?.ports;
    const edge =
      feeder && source && matchPorts(feeder.name, source, name, portsOf(scene.document, node, scene.types.get(type)));
    const wanted = at ?? this.placeFor(scene, edge ? feeder.name : null);
    const position = at ?? freePlace(this.centres(scene), wanted);
    const ops: Op[] = [
      { op: "addNode", name, type, position: [Math.round(position[0]), Math.round(position[1])], graph: scene.graphId },
    ];
    if (edge) ops.push({ op: "connect", ...edge, graph: scene.graphId });
    if (!this.session.edit(ops, `Add ${name}`)) return null;
    this.select([name]);
    this.viewport?.reveal(name);
    return name;
  }

  connect(source: string, target: string): void {
    const scene = this.scene();
    if (!scene) return;
    const reason = whyNotConnect(scene, source, target);
    if (reason) this.session.notify(reason);
    else this.session.edit([{ op: "connect", source, target, graph: scene.graphId }], `Connect ${source} → ${target}`);
  }

  /** Connects a port to whatever port of a node takes it: what dropping a connection on a node means. */
  connectToNode(port: string, side: "input" | "output", other: string): void {
    const scene = this.scene();
    const here = scene?.graph.nodes.get(nodeOf(port));
    const there = scene?.graph.nodes.get(other);
    if (!scene || !here || !there || here === there) return;
    const mine = scene.cards.get(here.name)?.ports;
    const theirs = scene.cards.get(there.name)?.ports;
    if (!mine || !theirs) return;
    const only = {
      inputs: mine.inputs,
      outputs: mine.outputs.filter((candidate) => `${here.name}.${candidate.name}` === port),
    };
    const onlyInput = {
      outputs: mine.outputs,
      inputs: mine.inputs.filter((candidate) => `${here.name}.${candidate.name}` === port),
    };
    const edge =
      side === "output"
        ? matchPorts(here.name, only, there.name, theirs)
        : matchPorts(there.name, theirs, here.name, onlyInput);
    if (edge) this.connect(edge.source, edge.target);
    else this.session.notify(`No free port of ${there.name} fits ${port}.`);
  }

  deleteSelection(): void {
    const scene = this.scene();
    if (!scene) return;
    const { nodes, edges } = this.view.get();
    const graph = scene.graphId;
    const removed = [...nodes].filter((name) => scene.graph.nodes.has(name));
    const ops: Op[] = [];
    for (const edge of scene.graph.edges.values()) {
      const gone = nodes.has(nodeOf(edge.source)) || nodes.has(nodeOf(edge.target));
      if (!gone && edges.has(edgeId(edge))) ops.push({ op: "disconnect", ...edge, graph });
    }
    for (const name of removed) ops.push({ op: "removeNode", name, graph });
    const label =
      removed.length === 1
        ? `Delete ${removed[0]}`
        : removed.length > 1
          ? `Delete ${removed.length} nodes`
          : "Disconnect";
    if (this.session.edit(ops, label)) this.select([]);
  }

  move(places: ReadonlyMap<string, Point>): void {
    const scene = this.scene();
    if (!scene) return;
    const ops: Op[] = [];
    for (const [name, [x, y]] of places) {
      const before = scene.graph.nodes.get(name)?.position;
      const position: [number, number] = [Math.round(x), Math.round(y)];
      if (scene.graph.nodes.has(name) && (before?.[0] !== position[0] || before?.[1] !== position[1])) {
        ops.push({ op: "moveNode", name, position, graph: scene.graphId });
      }
    }
    const [first] = places.keys();
    this.session.edit(ops, places.size === 1 ? `Move ${first}` : `Move ${places.size} nodes`);
    this.patch({ moving: STILL });
  }

  /** Moves the selection by a step; steps in quick succession become one edit. */
  nudge(dx: number, dy: number): void {
    const scene = this.scene();
    const { nodes, moving } = this.view.get();
    if (!scene || nodes.size === 0) return;
    const places = new Map<string, Point>();
    for (const name of nodes) {
      const [x, y] = centreOf(scene, name, moving);
      places.set(name, [x + dx, y + dy]);
    }
    this.patch({ moving: places });
    if (this.nudging) clearTimeout(this.nudging);
    this.nudging = setTimeout(() => this.move(this.view.get().moving), NUDGE_ENDS_AFTER);
  }

  setProperty(node: string, property: string, value: unknown): void {
    const scene = this.scene();
    if (!scene) return;
    this.session.edit(
      [{ op: "setProperty", node, property, value: value as never, graph: scene.graphId }],
      `Set ${node}.${property}`,
    );
  }

  resetProperty(node: string, property: string): void {
    const scene = this.scene();
    if (!scene) return;
    this.session.edit([{ op: "resetProperty", node, property, graph: scene.graphId }], `Reset ${node}.${property}`);
  }

  rename(name: string, newName: string): void {
    const scene = this.scene();
    if (!scene || name === newName) return;
    if (
      this.session.edit([{ op: "renameNode", name, newName, graph: scene.graphId }], `Rename ${name} to ${newName}`)
    ) {
      this.select([newName]);
    }
  }

  arrange(): void {
    const scene = this.scene();
    if (scene) this.session.arrange(scene.graphId);
  }

  enter(path: readonly string[]): void {
    this.patch({ path, nodes: NOTHING, edges: NOTHING, moving: STILL });
  }

  /** Shows and selects the node of a full path, whichever graph it is in. */
  jumpTo(path: string): void {
    const names = path.split(".");
    const name = names.pop();
    if (name === undefined) return;
    this.patch({ path: names, nodes: new Set([name]), edges: NOTHING, moving: STILL });
    this.viewport?.reveal(name);
  }

  /** Carries out the one-click repair of a diagnostic. */
  applyFix(fix: Fix): void {
    const document = this.session.document;
    const path = fix.node.split(".");
    const node = path.pop();
    const graph = document && graphAt(document, path);
    if (node === undefined || graph == null) return;
    this.session.edit([{ op: "setProperty", node, property: fix.property, value: fix.value, graph }], fix.label);
  }

  group(): void {
    const scene = this.scene();
    const { nodes } = this.view.get();
    if (!scene || nodes.size === 0) return;
    this.session.group([...nodes], scene.graphId);
  }

  /** Puts what the one selected Subgraph node shows in its place. */
  ungroup(): void {
    const scene = this.scene();
    const [name] = this.view.get().nodes;
    if (scene && name !== undefined && scene.graph.nodes.get(name)?.type === "Subgraph") {
      this.session.ungroup(name, scene.graphId);
    }
  }

  async copy(): Promise<boolean> {
    const scene = this.scene();
    const { nodes } = this.view.get();
    if (!scene || nodes.size === 0) return false;
    const text = JSON.stringify(fragmentOf(scene.graph, nodes));
    pageClipboard = text;
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    return true;
  }

  async cut(): Promise<void> {
    if (await this.copy()) this.deleteSelection();
  }

  async paste(): Promise<void> {
    const text = (await navigator.clipboard?.readText().catch(() => null)) ?? pageClipboard;
    const fragment = parseFragment(text) ?? parseFragment(pageClipboard);
    if (fragment) this.insert(fragment, "Paste");
  }

  duplicate(): void {
    const scene = this.scene();
    const { nodes } = this.view.get();
    if (scene && nodes.size > 0) this.insert(fragmentOf(scene.graph, nodes), "Duplicate");
  }

  async copyDocument(): Promise<void> {
    const document = this.session.document;
    if (document && (await this.copyText(JSON.stringify(toState(document), null, 2)))) {
      this.session.notify("The graph is on the clipboard; save it as a .pnne.json file.");
    }
  }

  async copyText(text: string): Promise<boolean> {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      this.session.notify("The browser does not let this page use the clipboard; select the text and copy it.");
      return false;
    }
  }

  dispose(): void {
    if (this.nudging) clearTimeout(this.nudging);
  }

  private insert(fragment: Fragment, verb: string): void {
    const scene = this.scene();
    if (!scene || fragment.nodes.length === 0) return;
    const { ops, names } = pasteOps(fragment, scene.graph, scene.graphId, PASTE_OFFSET);
    const count = names.length === 1 ? String(names[0]) : `${names.length} nodes`;
    if (this.session.edit(ops, `${verb} ${count}`)) this.select(names);
  }

  private placeFor(scene: ShownScene, feeder: string | null): Point {
    if (feeder !== null) {
      const [x, y] = centreOf(scene, feeder, STILL);
      return [x, y + STEP_Y];
    }
    return this.viewport?.centre() ?? [0, 0];
  }

  private centres(scene: ShownScene): Point[] {
    return [...scene.graph.nodes.keys()].map((name) => centreOf(scene, name, STILL));
  }
}
