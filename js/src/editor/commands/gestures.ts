import type { EdgeState, Fix, Op, Retype } from "../../protocol";
import { connectOps, whyNotConnect } from "../document/connection";
import { definitionOf, type Located, locatedAt } from "../document/definitions";
import { edgeId, graphAt, nodeOf } from "../document/document";
import { flagOf, freezeOps, frozenBlock, headSize, isFrozen, newHeadOps } from "../document/freezing";
import { freeName } from "../document/names";
import { portsOf } from "../document/ports";
import { allRetyped } from "../document/retype";
import { insertOps } from "../document/splice";
import { wiringOf } from "../document/wiring";
import { type Alignment, aligned, distributed } from "../scene/align";
import { boxesOf, boxOf, middleOf, type NodeBox } from "../scene/boxes";
import { DOT, REROUTE } from "../scene/geometry";
import type { Point } from "../scene/placement";
import { roomFor } from "../scene/room";
import { labelPlace } from "../scene/routes";
import { cardFor, centreOf, documentPlace, ownerOf, type ShownScene } from "../scene/scene";
import { type Connecting, STILL } from "../scene/view";
import { edgeAt, routesOf } from "../scene/wires";
import { type Editor, named } from "./editor";
import { editInline } from "./inline";

const DOT_SIZE = { width: DOT, height: DOT };

/** How near to an edge a node must be dropped to go into it, in the canvas's pixels. */
const REACH = 22;

/** Opens the search for a type at a point of the page, or where the next node goes on from the one before. */
export function openPalette(editor: Editor, client: Point | null, from: Connecting | null = null): void {
  const scene = editor.scene();
  const { viewport } = editor;
  if (!scene || !viewport || editor.session.isLocked()) return;
  const at = client && viewport.at(client[0], client[1]);
  const edge = from || !at ? null : edgeAt(scene, boxesOf(scene, STILL), at, REACH / 2);
  const [before] = editor.feeders();
  const place = at ?? (before === undefined ? viewport.centre() : belowNode(editor, before));
  editor.patch({ quick: { kind: "add", at, from, edge, ...viewport.over(place) } });
}

export function openFind(editor: Editor): void {
  const { viewport } = editor;
  if (viewport) editor.patch({ quick: { kind: "find", ...viewport.over(viewport.centre()) } });
}

/** Opens the search for what the selected node can be connected with. */
export function openConnect(editor: Editor): void {
  openBelow(editor, "connect", "connect from");
}

/** Opens the list of the edges at the selected node: how the keyboard gets to an edge. */
export function openEdges(editor: Editor): void {
  const node = editor.only();
  const scene = editor.scene();
  if (!scene) return;
  const { into, outOf } = wiringOf(scene.graph);
  if (node !== null && !into.get(node)?.size && !outOf.get(ownerOf(scene, node, "output"))?.length)
    editor.session.notify(`${node} has no edges.`);
  else openBelow(editor, "edges", "see its edges");
}

/** Opens the search for the type that the selected nodes get in their place. */
export function openTypes(editor: Editor): void {
  const { viewport, view, session } = editor;
  if (!viewport || editor.located().length === 0 || session.isLocked()) return;
  const [first] = view.get().nodes;
  const at = first === undefined ? viewport.centre() : belowNode(editor, first);
  editor.patch({ quick: { kind: "type", ...viewport.over(at) } });
}

/** Opens a search below the one selected node; `purpose` completes "Select one node to …". */
function openBelow(editor: Editor, kind: "connect" | "edges", purpose: string): void {
  const node = editor.only();
  if (!editor.viewport || editor.view.get().nodes.size === 0) return;
  if (kind !== "edges" && editor.session.isLocked()) return;
  if (node === null) editor.session.notify(`Select one node to ${purpose}.`);
  else editor.patch({ quick: { kind, node, ...editor.viewport.over(belowNode(editor, node)) } });
}

/** Gives nodes another type in their place, as one edit; says why if the edges of one do not fit. */
export function changeType(editor: Editor, places: readonly Located[], type: string): void {
  const scene = editor.scene();
  const found = scene?.types.get(type);
  if (!scene || !found) return;
  const outcome = allRetyped(scene, places, found);
  if ("refusal" in outcome) editor.session.notify(outcome.refusal);
  else editor.edit(outcome.ops, `Change ${named(places)} to ${type}`);
}

export function applyFix(editor: Editor, fix: Fix | Retype): void {
  const path = fix.node.split(".");
  const node = path.pop() ?? "";
  const { document } = editor.session;
  if (fix.kind === "retype") {
    editor.jumpTo(fix.node);
    changeType(editor, document ? locatedAt(document, [fix.node]) : [], fix.type);
    return;
  }
  const graph = document && graphAt(document, path);
  if (graph == null) return;
  editor.edit([{ op: "setProperty", node, property: fix.property, value: fix.value, graph }], fix.label);
}

/** Has the selected nodes give their first input, or zeros, instead of running; or run again. One edit. */
export function ablate(editor: Editor, how: "bypass" | "zeros"): void {
  const scene = editor.scene();
  const may = ({ node }: Located) => scene?.types.get(node.type)?.properties?.some(({ name }) => name === "ablate");
  const places = editor.located().filter(may);
  if (places.length === 0) {
    editor.session.notify("Select nodes that run: an Input, an Output or a constant cannot be left out.");
    return;
  }
  const isOff = places.every(({ node }) => node.properties?.ablate === how);
  if (isOff) editor.resetProperty(places, "ablate");
  else editor.setProperty(places, "ablate", how);
}

/** The selected nodes that have weights. */
function weighted(editor: Editor) {
  const scene = editor.scene();
  return editor.located().filter(({ node }) => flagOf(node, scene?.types.get(node.type)) !== null);
}

export function areFrozen(editor: Editor): boolean {
  const places = weighted(editor);
  return places.length > 0 && places.every(({ node }) => isFrozen(node));
}

/** Freezes the selected nodes, or has them trained again if all are frozen. One edit. */
export function freeze(editor: Editor): void {
  const places = weighted(editor);
  if (isInCold(editor)) return;
  if (places.length === 0) {
    editor.session.notify("Select nodes that have weights: layers, blocks or Parameters.");
    return;
  }
  const frozen = !areFrozen(editor);
  const changed = frozen ? places.filter(({ node }) => !isFrozen(node)) : places;
  const ops = changed.flatMap(({ graph, node }) => freezeOps(node, frozen, graph));
  editor.edit(ops, `${frozen ? "Freeze" : "Unfreeze"} ${named(places)}`);
}

/** Puts a new layer in the place of the selected one, and opens its size. One edit. */
export function replaceHead(editor: Editor): void {
  const scene = editor.scene();
  const name = editor.only();
  const node = name === null ? undefined : scene?.graph.nodes.get(name);
  const size = node && headSize(node);
  if (!scene || isInCold(editor)) return;
  if (!node || !size) editor.session.notify("Select the layer that makes the result: a Linear, or a Conv.");
  else if (editor.edit(newHeadOps(scene.graph, node, scene.graphId), `Replace the head ${node.name}`)) {
    editInline(editor, node.name, size);
  }
}

function isInCold(editor: Editor): boolean {
  const scene = editor.scene();
  const block = scene && frozenBlock(scene.document, scene.path);
  if (block) editor.session.notify(`The block ${block} around it is frozen: train that again first (L).`);
  return Boolean(block);
}

/** Opens the search for where else an end of the selected edge can go. */
export function openReconnect(editor: Editor): void {
  const edge = selectedEdge(editor);
  if (!edge || !editor.viewport || editor.session.isLocked()) return;
  editor.patch({
    reconnecting: edge,
    quick: { kind: "reconnect", edge, ...editor.viewport.over(belowNode(editor, nodeOf(edge.source))) },
  });
}

/** Opens the search for a type that goes into the selected edge. */
export function addIntoEdge(editor: Editor): void {
  const edge = selectedEdge(editor);
  const scene = editor.scene();
  if (!edge || !scene || !editor.viewport || editor.session.isLocked()) return;
  const at = middleOfEdge(scene, edge);
  if (at) editor.patch({ quick: { kind: "add", at, from: null, edge, ...editor.viewport.over(at) } });
}

function middleOfEdge(scene: ShownScene, edge: EdgeState): Point | null {
  const route = routesOf(scene, boxesOf(scene, STILL)).get(edge);
  return route ? labelPlace(route).at : null;
}

/** Has the selected edge lead through a point that can be moved: at a place of the page, or at its middle. One edit. */
export function addReroute(editor: Editor, client: Point | null = null): void {
  const edge = selectedEdge(editor);
  const scene = editor.scene();
  const type = scene?.types.get(REROUTE);
  if (!edge || !scene || !type || editor.session.isLocked()) return;
  const wanted = (client && editor.viewport?.at(...client)) ?? middleOfEdge(scene, edge) ?? [0, 0];
  const [x, y] = documentPlace(scene, wanted, DOT_SIZE);
  const name = freeName(REROUTE, scene.graph.nodes);
  const ports = portsOf(scene.document, { name, type: REROUTE }, type);
  const into = insertOps(scene, name, ports, edge, scene.graphId);
  if (!into) {
    editor.session.notify(`No point can be put into ${edge.source} → ${edge.target}.`);
    return;
  }
  const position = [Math.round(x), Math.round(y)] as const;
  const add: Op = { op: "addNode", name, type: REROUTE, properties: {}, position, graph: scene.graphId };
  if (editor.edit([add, ...into], `Reroute ${edge.source} → ${edge.target}`)) editor.select([name]);
}

/** Selects an edge and says which it is; the keys for it follow. */
export function goToEdge(editor: Editor, edge: EdgeState): void {
  editor.select([], [edgeId(edge)]);
  editor.patch({
    said: `Edge ${edge.source} → ${edge.target}. Delete removes it, R reconnects it, Space adds into it.`,
  });
}

/** Shows or hides the contents of the selected block beside it. */
export function togglePeek(editor: Editor, name: string | undefined = [...editor.view.get().nodes][0]): void {
  const scene = editor.scene();
  if (name === undefined || !scene) return;
  const isOpen = editor.view.get().peek === name;
  const node = scene.graph.nodes.get(name);
  if (!node || definitionOf(node) === null) editor.session.notify("Only a block has an inside to show.");
  else editor.patch({ peek: isOpen ? null : name, said: isOpen ? "" : `Inside of ${name}` });
}

export function selectedEdge(editor: Editor): EdgeState | null {
  const [id, more] = editor.view.get().edges;
  const edges = editor.scene()?.graph.edges.values() ?? [];
  const found = more === undefined ? [...edges].find((edge) => edgeId(edge) === id) : undefined;
  if (!found) editor.session.notify("Select one edge first: E lists those of the selected node.");
  return found ?? null;
}

function belowNode(editor: Editor, name: string): Point {
  const scene = editor.scene();
  const box = scene && boxOf(scene, cardFor(scene, name));
  return box ? [box.left, box.top + box.height] : (editor.viewport?.centre() ?? [0, 0]);
}

/** The edge that a dragged node would go into: it has none yet, and stands over one. */
function edgeUnder(editor: Editor, name: string): EdgeState | null {
  const scene = editor.scene();
  const card = scene?.cards.get(name);
  if (!scene || !card || editor.view.get().moving.size > 1 || editor.view.get().boxes.size > 0) return null;
  const { into, outOf } = wiringOf(scene.graph);
  if (into.has(name) || outOf.has(name)) return null;
  const boxes = boxesOf(scene, editor.view.get().moving);
  const box = boxes.find((candidate) => candidate.name === name);
  const edge = box && edgeAt(scene, boxes, middleOf(box), REACH, name);
  return edge && insertOps(scene, name, card.ports, edge, scene.graphId) ? edge : null;
}

/** Ends the drag of a node: it moves, and goes into the edge that it was dropped on. Null: it was removed meanwhile. */
export function dropNode(editor: Editor, name: string | null): void {
  const edge = name === null ? null : edgeUnder(editor, name);
  const scene = editor.scene();
  const card = name === null ? undefined : scene?.cards.get(name);
  const ops = edge && scene && card && insertOps(scene, card.name, card.ports, edge, scene.graphId);
  const { moving } = editor.view.get();
  editor.patch({ dropEdge: null });
  if (!ops || !edge || !scene || !card) {
    editor.move(moving);
    return;
  }
  const { at, moves, frames } = roomFor(scene, edge, centreOf(scene, card.name, moving), card.geometry, card.name);
  editor.move(new Map([...moves, [card.name, at]]), ops, `Insert ${card.name}`, frames);
}

/** Marks the edge that the node would go into. */
export function overEdge(editor: Editor, name: string): void {
  const edge = edgeUnder(editor, name);
  const dropEdge = edge && edgeId(edge);
  if (dropEdge !== editor.view.get().dropEdge) editor.patch({ dropEdge });
}

/** Takes an edge to other ports, as one edit; refused as any connection would be. */
export function reconnect(editor: Editor, before: EdgeState, source: string, target: string): void {
  editor.patch({ reconnecting: before });
  const scene = editor.connectable();
  editor.patch({ reconnecting: null });
  if (!scene || (before.source === source && before.target === target)) return;
  const reason = whyNotConnect(scene, source, target);
  if (reason) {
    editor.session.notify(reason);
    return;
  }
  const ops: Op[] = [
    { op: "disconnect", ...before, graph: scene.graphId },
    ...connectOps(scene, source, target, scene.graphId),
  ];
  editor.edit(ops, `Reconnect ${source} → ${target}`);
}

export function align(editor: Editor, how: Alignment): void {
  const places = aligned(selectedBoxes(editor), how);
  if (places.size > 1) editor.move(places, [], `Align ${places.size} nodes`);
}

export function distribute(editor: Editor, axis: "x" | "y"): void {
  const places = distributed(selectedBoxes(editor), axis);
  if (places.size > 2) editor.move(places, [], `Distribute ${places.size} nodes`);
}

function selectedBoxes(editor: Editor): NodeBox[] {
  const scene = editor.scene();
  const { nodes } = editor.view.get();
  return scene ? boxesOf(scene, STILL).filter((box) => nodes.has(box.name)) : [];
}

/** Selects the next node in a direction, measured from the current one, or adds it to the selection: how keys walk. */
export function walk(editor: Editor, dx: number, dy: number, adding = false): void {
  const scene = editor.scene();
  if (!scene || scene.cards.size === 0) return;
  const boxes = boxesOf(scene, STILL);
  const { current, nodes } = editor.view.get();
  const from = boxes.find((box) => box.name === current) ?? boxes.find((box) => nodes.has(box.name));
  if (!from) {
    editor.goTo(boxes.reduce((best, box) => (box.top < best.top ? box : best)).name);
    return;
  }
  const [x, y] = middleOf(from);
  let best: NodeBox | null = null;
  let nearest = Number.POSITIVE_INFINITY;
  for (const box of boxes) {
    const [bx, by] = middleOf(box);
    const along = (bx - x) * dx + (by - y) * dy;
    const aside = Math.abs((bx - x) * dy) + Math.abs((by - y) * dx);
    if (box === from || along <= 0 || aside > 2 * along) continue;
    if (along + 2 * aside < nearest) [best, nearest] = [box, along + 2 * aside];
  }
  if (!best) return;
  editor.goTo(best.name);
  if (adding)
    editor.patch({
      nodes: editor.whole([...nodes, best.name]),
      said: `${best.name} added, ${nodes.size + 1} selected`,
    });
}
