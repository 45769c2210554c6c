import { type Edge, type Node, type NodeHandle, Position } from "@xyflow/react";
import type { EdgeState, Frame, TensorShape } from "../../protocol";
import { edgeId, splitPort } from "../document/document";
import type { FrameBox } from "../document/frame";
import { boxesOf, endsOf, topLeft } from "../scene/boxes";
import type { Card } from "../scene/card";
import { type Geometry, HANDLE_SIZE, type HandlePlace } from "../scene/geometry";
import { giverOf } from "../scene/inlining";
import type { Point } from "../scene/placement";
import { cardFor, centreOf, type ShownScene } from "../scene/scene";
import { shapeLabel } from "../scene/shapes";
import { STILL } from "../scene/view";
import { routeOf } from "../scene/wires";

export type CardNode = Node<{ card: Card }, "card">;
export type FrameNode = Node<{ frame: Frame; box: FrameBox }, "frame">;
/** `again`: a shorter edge of the same port says the shape already. */
export type WireEdge = Edge<{ address: string; label: string; again: boolean; around: readonly Point[] }, "wire">;

/** Turns a scene into React Flow's nodes and edges; objects that would be equal are the same ones as before. */
export class FlowMaker {
  private nodes = new Map<string, CardNode>();
  private edges = new Map<string, WireEdge>();
  private frames = new Map<string, FrameNode>();

  makeNodes(
    scene: ShownScene,
    names: ReadonlySet<string>,
    selected: ReadonlySet<string>,
    moving: ReadonlyMap<string, Point>,
  ): CardNode[] {
    const made = new Map<string, CardNode>();
    for (const name of names) {
      const card = scene.cards.get(name);
      if (!card) continue;
      const [x, y] = topLeft(card, centreOf(scene, name, moving));
      const earlier = this.nodes.get(name);
      const unchanged =
        earlier &&
        earlier.data.card === card &&
        earlier.position.x === x &&
        earlier.position.y === y &&
        earlier.selected === selected.has(name);
      made.set(name, unchanged ? earlier : cardNode(name, card, x, y, selected.has(name), earlier));
    }
    this.nodes = made;
    return [...made.values()];
  }

  /** Frames stand behind everything, the smaller on the larger. */
  makeFrames(
    frames: Iterable<Frame>,
    selected: ReadonlySet<string>,
    boxes: ReadonlyMap<string, FrameBox>,
  ): FrameNode[] {
    const made = new Map<string, FrameNode>();
    const sorted = [...frames].sort((a, b) => b.box[2] * b.box[3] - a.box[2] * a.box[3]);
    for (const frame of sorted) {
      const box = boxes.get(frame.name) ?? frame.box;
      const earlier = this.frames.get(frame.name);
      const same =
        earlier?.data.frame === frame && earlier.data.box === box && earlier.selected === selected.has(frame.name);
      made.set(frame.name, same ? earlier : frameNode(frame, box, selected.has(frame.name)));
    }
    this.frames = made;
    return [...made.values()];
  }

  makeEdges(
    scene: ShownScene,
    edges: readonly EdgeState[],
    selected: ReadonlySet<string>,
    shapes: ReadonlyMap<string, TensorShape>,
  ): WireEdge[] {
    const made = new Map<string, WireEdge>();
    const boxes = boxesOf(scene, STILL);
    const ends = endsOf(scene, boxes);
    const routes = new Map(edges.map((edge) => [edge, routeOf(edge, ends, boxes) ?? []]));
    const shortest = shortestOf(routes);
    for (const [edge, route] of routes) {
      const id = edgeId(edge);
      const again = shortest.get(edge.source) !== edge;
      const label = shapeLabel(shapes.get(scene.prefix + edge.source));
      const earlier = this.edges.get(id);
      const [source, sourceHandle] = giverOf(scene.inlined, edge.source);
      const shownSource = cardFor(scene, source);
      const around = route.slice(1, -1);
      const address = `${scene.prefix}${edge.source}->${scene.prefix}${edge.target}`;
      if (
        earlier &&
        earlier.data?.label === label &&
        earlier.data.again === again &&
        earlier.data.address === address &&
        earlier.source === shownSource &&
        earlier.sourceHandle === sourceHandle &&
        String(earlier.data.around) === String(around) &&
        earlier.selected === selected.has(id)
      ) {
        made.set(id, earlier);
        continue;
      }
      const [target, targetHandle] = splitPort(edge.target);
      made.set(id, {
        id,
        type: "wire",
        source: shownSource,
        sourceHandle,
        target,
        targetHandle,
        selected: selected.has(id),
        data: { address, label, again, around },
      });
    }
    this.edges = made;
    return [...made.values()];
  }
}

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
  name: string,
  card: Card,
  x: number,
  y: number,
  selected: boolean,
  earlier: CardNode | undefined,
): CardNode {
  const { width, height } = card.geometry;
  const sameCard = earlier?.data.card === card;
  return {
    id: name,
    type: "card",
    position: { x, y },
    width,
    height,
    measured: { width, height },
    handles: sameCard && earlier.handles ? earlier.handles : handlesOf(card),
    selected,
    data: sameCard ? earlier.data : { card },
  };
}

const FRAME = "frame:";

/** What React Flow calls a frame: no node can have such a name. */
export function frameName(id: string): string | null {
  return id.startsWith(FRAME) ? id.slice(FRAME.length) : null;
}

function frameNode(frame: Frame, box: FrameBox, selected: boolean): FrameNode {
  const [x, y, width, height] = box;
  return {
    id: FRAME + frame.name,
    type: "frame",
    position: { x, y },
    width,
    height,
    measured: { width, height },
    handles: [],
    selected,
    // React Flow lifts what is selected by 1000.
    zIndex: selected ? -1001 : -1,
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
  return card.geometry.handles.map((handle) => ({
    id: handle.port,
    type: handle.side === "input" ? "target" : "source",
    position: sideOf(handle.side, card.geometry),
    x: handle.x - HANDLE_SIZE / 2,
    y: handle.y - HANDLE_SIZE / 2,
    width: HANDLE_SIZE,
    height: HANDLE_SIZE,
  }));
}
