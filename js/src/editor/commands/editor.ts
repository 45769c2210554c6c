import type { EdgeState, NodeState, Op } from "../../protocol";
import { type Fresh, freshBlock, shownType, templateNamed, templateOps } from "../document/blocks";
import { connectOps, matchPorts, refusalsFrom, type Scene, whyNotConnect } from "../document/connection";
import { discardOps, type Located, locatedAt, placesOf } from "../document/definitions";
import { edgeId, nodeOf, splitPort } from "../document/document";
import { type FrameBox, shifted } from "../document/frame";
import { freeName } from "../document/names";
import { type Ports, portsOf } from "../document/ports";
import { bridges, edgeFrom, insertOps } from "../document/splice";
import { rewire } from "../document/wiring";
import { boxesOf, boxOf, type Layer, layersOf } from "../scene/boxes";
import type { Card } from "../scene/card";
import { type Box, HEADER_HEIGHT, NODE_WIDTH, PORT_WIDTH, REROUTE, SUMMARY_HEIGHT } from "../scene/geometry";
import { withOwn } from "../scene/inlining";
import { freePlace, type Point, STEP_RIGHT, STEP_Y } from "../scene/placement";
import { carriedBy, moveOps, roomFor } from "../scene/room";
import { cardFor, centreOf, documentPlace, membersOf, ownerOf, SceneMaker, type ShownScene } from "../scene/scene";
import {
  type Connecting,
  type Direction,
  FIRST_VIEW,
  NOTHING,
  rootOf,
  SETTLED,
  STILL,
  type ViewState,
} from "../scene/view";
import type { Session } from "../session/session";
import { Store } from "../session/store";

/** What the canvas can do for the commands: it alone knows the viewport. */
export interface Viewport {
  /** Width and height in pixels of the visible canvas, without a margin. */
  room(): Point;
  centre(): Point;
  /** Shows all nodes, or those of the names. */
  fit(names?: ReadonlySet<string>): void;
  /** Brings a node into view, at least as large as `zoom`. */
  reveal(name: string, zoom?: number): void;
  /** Shows more or less of the graph: a factor above 1 makes it larger. */
  zoom(factor: number): void;
  /** Shows the graph at a scale: 1 is 100 %. */
  zoomTo(scale: number): void;
  /** Moves the view, in parts of its own size. */
  pan(right: number, down: number): void;
  show(box: FrameBox): void;
  /** The place on the canvas under a point of the page; null outside of it. */
  at(clientX: number, clientY: number): Point | null;
  /** Where a place on the canvas is shown, in pixels from the view's corner. */
  over(point: Point): { left: number; top: number };
}

const NUDGE_ENDS_AFTER = 350;
/** The size of most cards; that of a new one is known when it is drawn. */
const NEW_CARD = { width: NODE_WIDTH, height: HEADER_HEIGHT + SUMMARY_HEIGHT };

/** One view's commands: each reads the scene, builds ops, and sends them as one undoable edit. */
export class Editor {
  readonly view = new Store<ViewState>(FIRST_VIEW);
  viewport: Viewport | null = null;
  root: HTMLElement | null = null;
  /** Where the pointer was last over the canvas, in the page. */
  pointer: Point | null = null;
  /** Whether the canvas got the focus by a click. */
  byPointer = false;
  /** Whether to fit the graph into the view after an arrangement, on the user's request. */
  refits = false;
  /** Whether a block is to be selected once Python has made it of a selection here. */
  groups = false;
  private readonly scenes = new SceneMaker();
  private loose: { scene: ShownScene; edge: EdgeState; without: ShownScene } | null = null;
  private nudging: ReturnType<typeof setTimeout> | null = null;

  constructor(readonly session: Session) {}

  /** The graph that commands act on. */
  scene(): ShownScene | null {
    let scene = this.drawn();
    for (const name of this.view.get().path.slice(scene?.path.length)) scene = scene?.open.get(name) ?? scene;
    return scene;
  }

  /** The graph that is drawn as a whole: that one, or one in which blocks are open that lead to it. */
  drawn(): ShownScene | null {
    const view = this.view.get();
    const { exposed, folded, outlined, opened } = view;
    return this.scenes.make(this.session.store.get(), rootOf(view), exposed, folded, outlined, opened);
  }

  /** Where the graph that commands act on is drawn. */
  layer(): Layer | null {
    const [drawn, scene] = [this.drawn(), this.scene()];
    return (drawn && layersOf(drawn).find((layer) => layer.scene === scene)) ?? null;
  }

  /** The graph that a card is drawn in. */
  sceneOf({ path, name }: Pick<Card, "path" | "name">): ShownScene | null {
    const drawn = this.drawn();
    const prefix = path.slice(0, path.length - name.length);
    return (drawn && layersOf(drawn).find(({ scene }) => scene.prefix === prefix)?.scene) ?? null;
  }

  /** The scene in which a connection is judged: an edge that is being taken elsewhere is not in its own way. */
  connectable(): (Scene & { readonly graphId: string }) | null {
    const scene = this.scene();
    const { reconnecting } = this.view.get();
    if (!scene || !reconnecting) return scene;
    if (this.loose?.scene !== scene || this.loose.edge !== reconnecting) {
      const edges = new Map(scene.graph.edges);
      edges.delete(reconnecting.target);
      rewire(scene.graph.edges, edges, [reconnecting.target]);
      this.loose = { scene, edge: reconnecting, without: { ...scene, graph: { ...scene.graph, edges } } };
    }
    return this.loose.without;
  }

  /** Sends an edit with its label; returns whether it was shown. */
  edit(ops: readonly Op[], label: string): boolean {
    const shown = this.session.edit(ops, label);
    if (shown) this.patch({ said: label });
    return shown;
  }

  /** Selects a node, shows it, and has the keyboard stand on it. */
  goTo(name: string): void {
    this.bringOut(name);
    const scene = this.scene();
    const card = scene?.cards.get(name);
    if (!scene || !card) return;
    const place = [...scene.cards.keys()].indexOf(name) + 1;
    const said = `${card.label}, ${place} of ${scene.cards.size}`;
    this.select([name]);
    this.patch({ current: name, said });
    this.viewport?.reveal(name);
  }

  /** Makes a node visible: unfolds the run that hides it, or draws the expression that a card shows as text. */
  bringOut(name: string): void {
    const scene = this.scene();
    if (!scene || scene.cards.has(name) || !scene.graph.nodes.has(name)) return;
    const { folded, outlined } = this.view.get();
    const hiding = scene.folds.runs.get(cardFor(scene, name))?.flat();
    if (hiding) {
      const stays = (path: string) => !hiding.some((each) => path === scene.prefix + each);
      this.patch({ folded: new Set([...folded].filter(stays)) });
    } else if (outlined !== "all") this.patch({ outlined: new Set([...outlined, scene.prefix + name]) });
  }

  /** Shows or hides a panel; what there is no room for makes way, and the palette comes back after the source. */
  showPanel(panel: "palette" | "properties" | "source" | "exporting", shown: boolean): void {
    const { narrow, snug } = this.view.get();
    const beside = panel === "source" || panel === "exporting";
    this.patch({
      ...(narrow && shown && !beside && { palette: false, properties: false }),
      ...(snug && beside && { palette: !shown }),
      ...(snug && panel === "palette" && { source: false, exporting: false }),
      // They share one place.
      ...(panel === "source" && shown && { exporting: false }),
      ...(panel === "exporting" && shown && { source: false }),
      ...(panel === "exporting" && !narrow && { properties: !shown }),
      [panel]: shown,
    });
  }

  patch(change: Partial<ViewState>): void {
    this.view.set({ ...this.view.get(), ...change });
  }

  /** Closes something that lies over or beside the graph, which gets the keyboard back. */
  leave(change: Partial<ViewState>): void {
    this.root?.querySelector<HTMLElement>(".pnne-canvas")?.focus({ preventScroll: true });
    this.patch(change);
  }

  select(nodes: Iterable<string>, edges: Iterable<string> = NOTHING, frames: Iterable<string> = NOTHING): void {
    const chosen = { nodes: this.whole(nodes), edges: new Set(edges), frames: new Set(frames) };
    this.patch({ ...chosen, elsewhere: NOTHING, current: null });
  }

  /** Selects nodes by their full paths, in whatever graphs they are. */
  selectPaths(paths: readonly string[]): void {
    const scene = this.scene();
    const here = new Map([...(scene?.graph.nodes.keys() ?? [])].map((name) => [scene?.prefix + name, name]));
    this.select(paths.flatMap((path) => here.get(path) ?? []));
    this.patch({ elsewhere: new Set(paths.filter((path) => !here.has(path))) });
    this.announceSelection();
  }

  /** The selected nodes, with those of other graphs. */
  located(): Located[] {
    const scene = this.scene();
    const { nodes, elsewhere } = this.view.get();
    return scene ? locatedAt(scene.document, [...[...nodes].map((name) => scene.prefix + name), ...elsewhere]) : [];
  }

  /** Nodes with all nodes that their cards represent, because selecting such a card selects all of them. */
  whole(nodes: Iterable<string>): ReadonlySet<string> {
    const scene = this.scene();
    return new Set([...nodes].flatMap((name) => (scene ? membersOf(scene, name) : [name])));
  }

  /** Nodes, with the values that are written for them alone. */
  withOwn(names: ReadonlySet<string>): ReadonlySet<string> {
    const scene = this.scene();
    return scene ? withOwn(scene.inlined, scene.graph, names) : names;
  }

  /** The node whose card alone is selected. */
  only(): string | null {
    const scene = this.scene();
    if (this.view.get().elsewhere.size > 0) return null;
    const [name, more] = new Set([...this.view.get().nodes].map((node) => (scene ? cardFor(scene, node) : node)));
    return more === undefined ? (name ?? null) : null;
  }

  selectAll(): void {
    const graph = this.scene()?.graph;
    this.select(graph?.nodes.keys() ?? [], NOTHING, graph?.frames.keys());
    this.announceSelection();
  }

  /** Selects all nodes of this graph that have the type of a selected one; once they are, those inside blocks too. */
  selectAlike(): void {
    const scene = this.scene();
    const before = this.located();
    const types = new Set(before.map(({ node }) => node.type));
    if (!scene || types.size === 0) {
      this.session.notify("Select a node first: all of its type are then selected too.");
      return;
    }
    const alike = [...scene.graph.nodes.values()].filter(({ type }) => types.has(type));
    const from = { id: scene.graphId, prefix: scene.prefix };
    const inside = alike.length > before.length ? [] : placesOf(scene.document, undefined, from);
    const paths = inside.filter(({ node }) => types.has(node.type)).map(({ path }) => path);
    this.selectPaths(paths.length > 0 ? paths : alike.map(({ name }) => scene.prefix + name));
  }

  /** Tells a screen reader what the pointer has selected; the keyboard's commands say more as they go. */
  announceSelection(): void {
    const scene = this.scene();
    const { nodes, elsewhere, edges, frames } = this.view.get();
    const only = this.only();
    const card = only !== null && frames.size === 0 ? scene?.cards.get(only) : undefined;
    const counted = [
      [nodes.size + elsewhere.size, "node"],
      [edges.size, "edge"],
      [frames.size, "frame"],
    ] as const;
    const counts = counted
      .filter(([count]) => count > 0)
      .map(([count, what]) => `${count} ${what}${count === 1 ? "" : "s"}`);
    const what =
      card?.label ?? (nodes.size + frames.size === 0 && edges.size === 1 ? [...edges][0] : counts.join(", "));
    this.patch({ said: what ? `${what} selected` : "Nothing selected" });
  }

  /**
   * Adds a node of `type` at `at`, or below the one before it, where there is room.
   *
   * It is connected with the port `from`, or goes into the edge `into`. Otherwise it goes on from what is selected, or
   * from the node that was added last, as far as ports fit, unless it is `loose`.
   */
  add(
    type: string,
    options: { at?: Point | null; from?: Connecting | null; into?: EdgeState | null; loose?: boolean } = {},
  ): string | null {
    const { at, from, into, loose } = options;
    const scene = this.scene();
    if (!scene) return null;
    const template = templateNamed(type);
    if (template !== null && scene.graph.nodes.size === 0) return this.beginWith(scene, template);
    const name = freeName(template ?? shownType(type), scene.graph.nodes);
    const fresh = this.fresh(scene, type, name);
    const { ports, properties, before } = fresh;
    const node = { name, type: fresh.type, properties };
    const feeders = from || into ? [] : this.feeders();
    const edge = from && edgeFrom(scene, from.port, from.side, name, ports);
    const edges = edge ? [edge] : loose ? [] : this.chain(scene, feeders, node, ports);
    const beside = boxOf(scene, from ? cardFor(scene, nodeOf(from.port)) : (feeders[0] ?? ""));
    const size = { ...NEW_CARD, width: Math.max(NODE_WIDTH, (edges.length + 1) * PORT_WIDTH) };
    const wanted = at ?? (beside && placeAfter(scene, beside)) ?? this.viewport?.centre() ?? [0, 0];
    const room = into && roomFor(scene, into, wanted, NEW_CARD);
    const [x, y] = documentPlace(scene, room?.at ?? freePlace(boxesOf(scene, STILL), wanted, size), size);
    const position = [Math.round(x), Math.round(y)] as const;
    const graph = scene.graphId;
    const ops: Op[] = [...before, { op: "addNode", ...node, position, graph }];
    ops.push(...edges.map((edge): Op => ({ op: "connect", ...edge, graph })));
    if (into) ops.push(...(insertOps(scene, name, ports, into, graph) ?? []));
    if (room) ops.push(...moveOps(scene, room.moves, room.frames));
    if (!this.edit(ops, `Add ${name}`)) return null;
    this.select([name]);
    this.viewport?.reveal(name);
    return name;
  }

  /** The cards that a new node goes on from: those selected, or the one of the node that was added last. */
  feeders(): string[] {
    const scene = this.scene();
    if (!scene) return [];
    const chosen = [...new Set([...this.view.get().nodes].map((name) => cardFor(scene, name)))];
    return (chosen.length > 0 ? chosen : [...scene.cards.keys()].slice(-1)).filter((name) => scene.cards.has(name));
  }

  /** The edges that join cards to a new node, each to the next free port; or the new node to a free input of one. */
  private chain(
    scene: ShownScene,
    feeders: readonly string[],
    node: Pick<NodeState, "name" | "type" | "properties">,
    ports: Ports,
  ): EdgeState[] {
    const into = new Map<string, EdgeState>();
    for (const name of feeders) {
      const outputs = scene.cards.get(name)?.ports.outputs ?? [];
      const wired = ports.inputs.map((port) => ({ ...port, wired: into.has(port.name) }));
      // A port that takes any number of edges has one more now.
      const inputs =
        into.size === 0 ? ports.inputs : portsOf(scene.document, node, scene.types.get(node.type), into).inputs;
      const free = { inputs: inputs.length < wired.length ? wired : inputs, outputs: [] };
      const edge = matchPorts(ownerOf(scene, name, "output"), { inputs: [], outputs }, node.name, free);
      if (edge) into.set(splitPort(edge.target)[1], edge);
    }
    if (into.size > 0) return [...into.values()];
    for (const name of feeders) {
      const inputs = scene.cards.get(name)?.ports.inputs.filter(({ optional }) => !optional) ?? [];
      const edge = matchPorts(node.name, ports, name, { inputs, outputs: [] });
      if (edge) return [edge];
    }
    return [];
  }

  /** Why each other port cannot be connected with a port; null where it can. */
  refusals(port: string, side: Connecting["side"]): (other: string) => string | null {
    const scene = this.connectable();
    return scene ? refusalsFrom(scene, port, side) : () => "There is no graph yet.";
  }

  /** Connects two ports; what fed the target before is replaced. */
  connect(source: string, target: string): void {
    const scene = this.scene();
    if (!scene) return;
    const reason = whyNotConnect(scene, source, target);
    const before = scene.graph.edges.get(target);
    const label = `Connect ${source} → ${target}${before ? ` instead of ${before.source}` : ""}`;
    if (reason) this.session.notify(reason);
    else this.edit(connectOps(scene, source, target, scene.graphId), label);
  }

  /** Connects a port to a compatible port of a node, as dropping a connection on the node does. */
  connectToNode(port: string, side: "input" | "output", other: string): void {
    const scene = this.scene();
    if (!scene || cardFor(scene, nodeOf(port)) === other) return;
    const theirs = scene.cards.get(other)?.ports;
    const there = ownerOf(scene, other, side === "input" ? "output" : "input");
    const edge = theirs && edgeFrom(scene, port, side, there, theirs);
    if (edge) this.connect(edge.source, edge.target);
    else this.session.notify(`No free port of ${there} fits ${port}.`);
  }

  /** Deletes the selection and offers to close the gap; with `bridge`, closes it in the same edit. */
  deleteSelection(bridge = false): void {
    const scene = this.scene();
    if (!scene) return;
    const { edges, frames, elsewhere } = this.view.get();
    if (elsewhere.size > 0) {
      this.session.notify("Nodes inside blocks are selected too: open a block, and delete what is in it there.");
      return;
    }
    const nodes = this.withOwn(this.view.get().nodes);
    const graph = scene.graphId;
    const removed = [...nodes].filter((name) => scene.graph.nodes.has(name));
    const ops: Op[] = [];
    for (const edge of scene.graph.edges.values()) {
      const gone = nodes.has(nodeOf(edge.source)) || nodes.has(nodeOf(edge.target));
      if (!gone && edges.has(edgeId(edge))) ops.push({ op: "disconnect", ...edge, graph });
    }
    for (const name of removed) ops.push({ op: "removeNode", name, graph });
    const lost = removed.flatMap((name) => scene.graph.nodes.get(name) ?? []);
    ops.push(...discardOps(scene.document, lost));
    for (const name of frames) if (scene.graph.frames.has(name)) ops.push({ op: "removeFrame", name, graph });
    const label =
      removed.length === 1 || (removed.length > 1 && this.only() !== null)
        ? `Delete ${removed[0]}`
        : removed.length > 1
          ? `Delete ${removed.length} nodes`
          : frames.size > 0
            ? "Remove frame"
            : "Disconnect";
    const gaps: Op[] = bridges(scene, new Set(removed)).map((edge) => ({ op: "connect", ...edge, graph }));
    // A point that is taken away leaves the edge.
    const closes = bridge || removed.every((name) => scene.graph.nodes.get(name)?.type === REROUTE);
    if (closes) ops.push(...gaps);
    if (!this.edit(ops, label)) return;
    this.select([]);
    const [gap] = gaps;
    if (closes || gap?.op !== "connect") return;
    const bridged = gaps.length === 1 ? `Connect ${gap.source} → ${gap.target}` : `Connect ${gaps.length} edges`;
    const run = () => void this.edit(gaps, bridged);
    this.session.notify(`${label.replace("Delete", "Deleted")}.`, [], { label: bridged, run });
  }

  /** Moves nodes to new centres, and frames that are on the move with them; with `more` in the same edit. */
  move(
    places: ReadonlyMap<string, Point>,
    more: readonly Op[] = [],
    called?: string,
    boxes: ReadonlyMap<string, FrameBox> = this.view.get().boxes,
  ): void {
    const scene = this.scene();
    if (!scene) return;
    const ops = moveOps(scene, places, boxes);
    const [first] = places.keys();
    const [frame] = boxes.keys();
    ops.push(...more);
    const what = frame !== undefined ? `frame ${frame}` : places.size === 1 ? first : `${places.size} nodes`;
    this.edit(ops, called ?? `Move ${what}`);
    this.patch({ moving: STILL, boxes: SETTLED });
  }

  /** Moves the selection by a step; steps in quick succession become one edit. */
  nudge(dx: number, dy: number): void {
    const scene = this.scene();
    const { nodes, frames, moving, boxes } = this.view.get();
    if (!scene || nodes.size + frames.size === 0 || this.session.isLocked()) return;
    const carried = carriedBy(scene, frames);
    const places = new Map<string, Point>();
    for (const name of new Set([...nodes, ...carried.nodes])) {
      if (!scene.cards.has(name)) continue;
      const [x, y] = centreOf(scene, name, moving);
      places.set(name, [x + dx, y + dy]);
    }
    const moved = new Map<string, FrameBox>();
    for (const name of carried.frames) {
      const box = boxes.get(name) ?? scene.frames.get(name)?.box;
      if (box) moved.set(name, shifted(box, dx, dy));
    }
    this.patch({ moving: places, boxes: moved });
    if (this.nudging) clearTimeout(this.nudging);
    this.nudging = setTimeout(() => this.move(this.view.get().moving), NUDGE_ENDS_AFTER);
  }

  /** The selected nodes, and those that stand in selected frames. */
  chosen(): ReadonlySet<string> {
    const scene = this.scene();
    const { nodes, frames } = this.view.get();
    return scene && frames.size > 0 ? new Set([...nodes, ...carriedBy(scene, frames).nodes]) : nodes;
  }

  setProperty(places: readonly Located[], property: string, value: unknown): void {
    this.edit(
      places.map(({ graph, node }) => ({ op: "setProperty", node: node.name, property, value: value as never, graph })),
      `Set ${named(places)}.${property}`,
    );
  }

  resetProperty(places: readonly Located[], property: string): void {
    this.edit(
      places.map(({ graph, node }) => ({ op: "resetProperty", node: node.name, property, graph })),
      `Reset ${named(places)}.${property}`,
    );
  }

  /** Shows or hides a property as a port of its node, in this view. */
  expose(path: string): void {
    const exposed = new Set(this.view.get().exposed);
    if (!exposed.delete(path)) exposed.add(path);
    this.patch({ exposed });
  }

  rename(name: string, newName: string): void {
    const scene = this.scene();
    if (!scene || name === newName) return;
    if (this.edit([{ op: "renameNode", name, newName, graph: scene.graphId }], `Rename ${name} to ${newName}`)) {
      this.select([newName]);
    }
  }

  /**
   * Arranges the selected nodes or the graph, as it was last arranged or in another direction; or the one that is
   * `first` seen, without places, and not because somebody asked.
   */
  arrange(direction?: Direction, first: ShownScene | null = null): void {
    const scene = first ?? this.scene();
    if (!scene) return;
    const { outlined, directions, nodes } = this.view.get();
    const some = first || nodes.size < 2 ? [] : [...this.withOwn(nodes)];
    const chosen = direction ?? directions.get(scene.graphId) ?? (scene.across ? "right" : "auto");
    if (direction && !first) this.patch({ directions: new Map([...directions, [scene.graphId, direction]]) });
    this.refits = !first && some.length === 0;
    this.session.arrange({
      graph: scene.graphId,
      direction: chosen,
      values: outlined === "all",
      first: first !== null,
      cell: this.viewport?.room() ?? null,
      nodes: some,
      folded: [...scene.folds.runs.values()].map((run) => run.flat()),
    });
  }

  enter(path: readonly string[]): void {
    const away = { nodes: NOTHING, elsewhere: NOTHING, edges: NOTHING, frames: NOTHING, moving: STILL, boxes: SETTLED };
    this.patch({ path, ...away, current: null, quick: null, peek: null, seen: null, renaming: null, menu: null });
  }

  /** Shows and selects the node of a full path, whichever graph it is in. */
  jumpTo(path: string): void {
    const names = path.split(".");
    const name = names.pop();
    if (name === undefined) return;
    this.enter(names);
    this.goTo(name);
  }

  dispose(): void {
    if (this.nudging) clearTimeout(this.nudging);
  }

  /** Draws a template node by node in an empty graph, as one edit; returns its first node. */
  private beginWith(scene: ShownScene, template: string): string | null {
    const library = this.session.store.get().catalog?.templates;
    const drawn = library && templateOps(template, library, scene.document, scene.graphId);
    if (!drawn || !this.edit(drawn.ops, `Add ${template}`)) return null;
    requestAnimationFrame(() => this.viewport?.fit());
    // In columns that fill the cell.
    this.arrange("auto", this.scene());
    this.refits = true;
    return drawn.names[0] ?? null;
  }

  private fresh(scene: ShownScene, type: string, name: string): Fresh {
    const { blocks, catalog } = this.session.store.get();
    const library = templateNamed(type) === null ? blocks : (catalog?.templates ?? blocks);
    const block = freshBlock(type, library, scene.document, scene.graphId);
    if (block) return block;
    const ports = portsOf(scene.document, { name, type }, scene.types.get(type));
    return { type, properties: {}, ports, before: [] };
  }
}

/** The centre of a new card after another one. */
function placeAfter({ across }: ShownScene, { left, top, width, height }: Box): Point {
  if (across) return [left + width / 2 + STEP_RIGHT, top + height / 2];
  return [left + width / 2, top + height + STEP_Y - NEW_CARD.height / 2];
}

export function named(places: readonly Located[]): string {
  return places.length === 1 ? String(places[0]?.node.name) : `${places.length} nodes`;
}
