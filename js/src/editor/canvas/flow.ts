import { type Edge, type Node, type NodeHandle, Position } from "@xyflow/react";
import type { EdgeState, Frame, TensorShape } from "../../protocol";
import { edgeId, nodeOf, splitPort } from "../document/document";
import type { FrameBox } from "../document/frame";
import { boxesOf, endsOfEdges, type Layer, topLeft } from "../scene/boxes";
import { type Card, isOpen } from "../scene/card";
import { type Geometry, HANDLE_SIZE, type HandlePlace } from "../scene/geometry";
import { giverOf, partAt } from "../scene/inlining";
import type { Point } from "../scene/placement";
import { type LabelPlace, labelPlace } from "../scene/routes";
import { cardFor, centreOf, type ShownScene } from "../scene/scene";
import { edgeLabel, exampleLabel } from "../scene/shapes";
import { STILL } from "../scene/view";
import { distanceTo, endsAt, MOST_ROUTED, routesOf } from "../scene/wires";
import type { Region } from "./region";

export type CardNode = Node<{ card: Card }, "card">;
export type FrameNode = Node<{ frame: Frame; box: FrameBox }, "frame">;
export type WireEdge = Edge<WireData, "wire">;

interface WireData extends Record<string, unknown> {
  /** Its ends as full paths. */
  address: string;
  /** What the names in its graph begin with, and the names of its ends there. */
  prefix: string;
  ends: readonly string[];
  /** Its id in the document. */
  own: string;
  label: string;
  /** What the names in the label stand for in the example. */
  example: string;
  /** Where it stands while no end of the edge is on the move. */
  place: LabelPlace;
  /** The node that the label says, which has no card: `getitem` of `x[:, 0]`. */
  part: string;
  /** Whether a shorter edge of the same port says the shape already. */
  again: boolean;
  /** From port to port, and around what stands between. */
  route: readonly Point[];
  across: boolean;
  /** The path of the layer whose gradient comes back along it. */
  flow: string;
}

/** How wide an edge is for the pointer. */
export const WIRE_REACH = 18;

/** Turns one graph that is drawn into React Flow's nodes and edges; objects that would be equal are the same ones as before. */
export class FlowMaker {
  private nodes = new Map<string, CardNode>();
  private edges = new Map<string, WireEdge>();
  private frames = new Map<string, FrameNode>();

  makeNodes(
    { id, scene, at }: Layer,
    { names, ends }: Region,
    selected: ReadonlySet<string>,
    moving: ReadonlyMap<string, Point>,
  ): CardNode[] {
    const made = new Map<string, CardNode>();
    for (const name of names) {
      const hidden = ends.has(name);
      const card = scene.cards.get(name);
      if (!card) continue;
      const [left, top] = topLeft(card, centreOf(scene, name, moving));
      const [x, y] = [at[0] + left, at[1] + top];
      const earlier = this.nodes.get(name);
      const unchanged =
        earlier &&
        earlier.data.card === card &&
        earlier.position.x === x &&
        earlier.position.y === y &&
        earlier.hidden === hidden &&
        earlier.selected === selected.has(name);
      made.set(name, unchanged ? earlier : { ...cardNode(id, card, x, y, selected.has(name), earlier), hidden });
    }
    this.nodes = made;
    return [...made.values()];
  }

  /** Frames stand behind everything, the smaller on the larger. */
  makeFrames(
    { id, at }: Layer,
    frames: Iterable<Frame>,
    selected: ReadonlySet<string>,
    boxes: ReadonlyMap<string, FrameBox>,
  ): FrameNode[] {
    const made = new Map<string, FrameNode>();
    const sorted = [...frames].sort((a, b) => b.box[2] * b.box[3] - a.box[2] * a.box[3]);
    for (const frame of sorted) {
      const box = boxes.get(frame.name) ?? frame.box;
      const earlier = this.frames.get(frame.name);
      made.set(frame.name, unless(earlier, frameNode(id, at, frame, box, selected.has(frame.name))));
    }
    this.frames = made;
    return [...made.values()];
  }

  makeEdges(
    { id: layer, scene, at }: Layer,
    { edges, names }: Region,
    selected: ReadonlySet<string>,
    shapes: ReadonlyMap<string, TensorShape>,
  ): WireEdge[] {
    const made = new Map<string, WireEdge>();
    const boxes = scene.cards.size > MOST_ROUTED ? [] : boxesOf(scene, STILL).filter(({ card }) => !isOpen(card));
    const all = scene.cards.size > MOST_ROUTED ? null : routesOf(scene, boxesOf(scene, STILL));
    const ends = all ? null : endsOfEdges(scene, edges);
    const routes = new Map(edges.map((edge) => [edge, all?.get(edge) ?? (ends && endsAt(scene, edge, ends)) ?? []]));
    const shortest = shortestOf(routes);
    // What runs around cards is drawn first, so that no line strikes through the size at its start.
    for (const [edge, route] of [...routes].sort(([, a], [, b]) => b.length - a.length)) {
      const own = edgeId(edge);
      const id = layer + own;
      const again = shortest.get(edge.source) !== edge;
      const label = edgeLabel(scene, edge.source, shapes);
      const earlier = this.edges.get(id);
      const [source, sourceHandle] = giverOf(scene.inlined, edge.source);
      const shownCard = cardFor(scene, source);
      const across = scene.cards.get(shownCard)?.geometry.across ?? false;
      const placed = route.map(([x, y]): Point => [x + at[0], y + at[1]]);
      const address = `${scene.prefix}${edge.source}->${scene.prefix}${edge.target}`;
      const [target, targetHandle] = splitPort(edge.target);
      const next: WireEdge = {
        id,
        type: "wire",
        source: layer + shownCard,
        sourceHandle,
        target: layer + target,
        targetHandle,
        selected: selected.has(own),
        data: {
          address,
          prefix: scene.prefix,
          ends: [shownCard, target],
          own,
          label,
          place: moved(labelPlace(pointsOf({ route, across }), label, again || across ? [] : boxes), at),
          example: exampleLabel(shapes.get(scene.prefix + edge.source)),
          part: partAt(scene.inlined, edge.source) ? nodeOf(edge.source) : "",
          again,
          route: placed,
          across,
          // What is measured is the first output of a layer.
          flow:
            scene.cards.get(shownCard)?.ports.outputs[0]?.name === sourceHandle
              ? scene.prefix + nodeOf(edge.source)
              : "",
        },
      };
      made.set(id, unless(earlier, next));
    }
    for (const joint of this.joints(layer, scene, names)) made.set(joint.id, joint);
    this.edges = made;
    return [...made.values()];
  }

  /** From the ports of an open block to its Inputs, and from its Outputs to its ports: they are one edge further on. */
  private *joints(layer: string, scene: ShownScene, names: ReadonlySet<string>): Iterable<WireEdge> {
    if (layer === "") return;
    const block = layer.slice(0, -1);
    for (const { name, type } of scene.cards.values()) {
      if ((type !== "Input" && type !== "Output") || !names.has(name)) continue;
      const isInput = type === "Input";
      const id = `${layer}${type}:${name}`;
      const inner = { node: layer + name, handle: JOINT };
      const outer = { node: block, handle: JOINT + name };
      const [from, to] = isInput ? [outer, inner] : [inner, outer];
      const address = `${scene.path.join(".")}.${name}`;
      yield this.edges.get(id) ?? {
        id,
        type: "wire",
        source: from.node,
        sourceHandle: from.handle,
        target: to.node,
        targetHandle: to.handle,
        selectable: false,
        reconnectable: false,
        className: "pnne-joint",
        data: {
          address,
          prefix: "",
          ends: [],
          own: "",
          label: "",
          example: "",
          place: labelPlace([]),
          part: "",
          again: true,
          route: [],
          across: false,
          flow: "",
        },
      };
    }
  }
}

function moved({ at: [x, y], side }: LabelPlace, [dx, dy]: Point): LabelPlace {
  return { at: [x + dx, y + dy], side };
}

/** What was made before, if it is equal to what is made now: React Flow then leaves it. */
function unless<T>(earlier: T | undefined, made: T): T {
  return earlier && JSON.stringify(earlier) === JSON.stringify(made) ? earlier : made;
}

/** The points of an edge as React Flow has them: it begins and ends at the outer sides of ports. */
export function pointsOf({ route, across }: Pick<WireData, "route" | "across">): Point[] {
  const [dx, dy] = across ? [HANDLE_SIZE / 2, 0] : [0, HANDLE_SIZE / 2];
  return route.map(([x, y], place): Point => {
    const side = place === 0 ? 1 : place === route.length - 1 ? -1 : 0;
    return [x + side * dx, y + side * dy];
  });
}

/** The edge that is nearest to a place of the canvas, of those in reach of the pointer. */
export function wireAt(edges: readonly WireEdge[], { x, y }: { x: number; y: number }): WireEdge | undefined {
  let [nearest, found]: [number, WireEdge | undefined] = [WIRE_REACH / 2, undefined];
  for (const edge of edges) {
    if (!edge.data?.own) continue;
    const distance = distanceTo(pointsOf(edge.data), edge.data.across, [x, y], nearest);
    if (distance < nearest) [nearest, found] = [distance, edge];
  }
  return found;
}

/** Handles of React Flow's that no pointer finds: where a port of an open block goes on inside. */
const JOINT = "inside:";

/** The shortest edge of each output, of those that are shown; as in Python, it alone is labelled. */
function shortestOf(routes: ReadonlyMap<EdgeState, readonly Point[]>): ReadonlyMap<string, EdgeState> {
  const found = new Map<string, { edge: EdgeState; length: number }>();
  for (const [edge, route] of routes) {
    const [[x1, y1], [x2, y2]] = [route[0] ?? [0, 0], route.at(-1) ?? [0, 0]];
    const length = Math.abs(x2 - x1) + Math.abs(y2 - y1);
    if (length < (found.get(edge.source)?.length ?? Number.POSITIVE_INFINITY)) found.set(edge.source, { edge, length });
  }
  return new Map([...found].map(([source, { edge }]) => [source, edge]));
}

function cardNode(
  layer: string,
  card: Card,
  x: number,
  y: number,
  selected: boolean,
  earlier: CardNode | undefined,
): CardNode {
  const { width, height } = card.geometry;
  const sameCard = earlier?.data.card === card;
  return {
    id: layer + card.name,
    type: "card",
    position: { x, y },
    style: placed(x, y),
    width,
    height,
    measured: { width, height },
    handles: sameCard && earlier.handles ? earlier.handles : handlesOf(card),
    selected,
    ...(isOpen(card) && { zIndex: behind(selected), className: "pnne-open-node", dragHandle: ".pnne-card-header" }),
    data: sameCard ? earlier.data : { card },
  };
}

/**
 * The place of a card in the page. React Flow would give each a transform, and the browser then sorts thousands of them
 * into layers in every frame that moves the view.
 */
function placed(x: number, y: number) {
  return { left: x, top: y, transform: "none" };
}

/** Behind all cards and edges: React Flow lifts what is selected by 1000. */
function behind(selected: boolean): number {
  return selected ? -1001 : -1;
}

const FRAME = "frame:";

/** What React Flow calls a frame: no node can have such a name. */
export function frameName(id: string): string | null {
  return id.startsWith(FRAME) ? id.slice(FRAME.length) : null;
}

function frameNode(layer: string, at: Point, frame: Frame, box: FrameBox, selected: boolean): FrameNode {
  const [x, y, width, height] = box;
  return {
    id: layer + FRAME + frame.name,
    type: "frame",
    position: { x: at[0] + x, y: at[1] + y },
    width,
    height,
    measured: { width, height },
    handles: [],
    selected,
    zIndex: behind(selected),
    dragHandle: ".pnne-frame-title",
    connectable: false,
    data: { frame, box },
  };
}

/** The side of a node on which its inputs or outputs stand. */
export function sideOf(side: HandlePlace["side"], { across }: Geometry): Position {
  if (side === "input") return across ? Position.Left : Position.Top;
  return across ? Position.Right : Position.Bottom;
}

function handlesOf(card: Card): NodeHandle[] {
  const { geometry, type, path, name } = card;
  const handles = geometry.handles.map((handle) => nodeHandle(handle.port, handle, geometry));
  if (isOpen(card))
    for (const handle of geometry.handles)
      handles.push(nodeHandle(JOINT + handle.port, { ...handle, side: otherSide(handle.side) }, geometry));
  // An Input or Output inside of a block: it is one edge with a port of the block.
  if (path !== name && (type === "Input" || type === "Output")) {
    const side = type === "Input" ? "input" : "output";
    const far = side === "output" ? 1 : 0;
    const [x, y] = geometry.across
      ? [far * geometry.width, geometry.height / 2]
      : [geometry.width / 2, far * geometry.height];
    handles.push(nodeHandle(JOINT, { side, x, y }, geometry));
  }
  return handles;
}

function otherSide(side: HandlePlace["side"]): HandlePlace["side"] {
  return side === "input" ? "output" : "input";
}

function nodeHandle(id: string, { side, x, y }: Pick<HandlePlace, "side" | "x" | "y">, geometry: Geometry): NodeHandle {
  return {
    id,
    type: side === "input" ? "target" : "source",
    position: sideOf(side, geometry),
    x: x - HANDLE_SIZE / 2,
    y: y - HANDLE_SIZE / 2,
    width: HANDLE_SIZE,
    height: HANDLE_SIZE,
  };
}
