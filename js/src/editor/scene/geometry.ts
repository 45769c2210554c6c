import type { Ports, PortView } from "../document/ports";

/**
 * The one place that decides how large a node is and where its ports are.
 *
 * React Flow gets these numbers instead of measuring, the style sheet gets them as custom properties, the far view
 * and the minimap draw with them, and `pnne_nb` lays out with the same ones. All in the canvas's pixels.
 */
export const NODE_WIDTH = 176;
/** Of a card with a text that is cut on a narrow one; a neighbour that becomes wide still stands clear of the next. */
const WIDE = 224;
export const HEADER_HEIGHT = 46;
export const SUMMARY_HEIGHT = 24;
/** Of each line below the first that says something of the node. */
export const LINE_HEIGHT = 16;
/** Of the small picture of what a node gives. */
export const PICTURE_HEIGHT = 64;
const LABELS_HEIGHT = 18;
export const PORT_WIDTH = 58;
/** How wide a letter of a port's name is, seen from further away, and how many are shown. */
const PORT_LETTER = 7.5;
export const PORT_LETTERS = 20;
/** A collapsed node shows its name alone; its ports stand close together, without theirs. */
const COLLAPSED_WIDTH = 148;
export const COLLAPSED_HEIGHT = 30;
const COLLAPSED_PORT_WIDTH = 18;
export const HANDLE_SIZE = 10;
/** The type of a point that an edge leads through, and how wide and high it is. */
export const REROUTE = "Reroute";
export const DOT = 20;
/** Padding between the frame of an open block and its contents. */
const OPEN_PADDING = 24;

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** A rectangle in the canvas's pixels. */
export interface Box extends Size {
  readonly left: number;
  readonly top: number;
}

export function overlaps(a: Box, b: Box): boolean {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
}

/** Whether all of `b` is in `a`. */
export function contains(a: Box, b: Box): boolean {
  return (
    a.left <= b.left && a.top <= b.top && a.left + a.width >= b.left + b.width && a.top + a.height >= b.top + b.height
  );
}

export function union(boxes: readonly Box[]): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of boxes) {
    left = Math.min(left, box.left);
    top = Math.min(top, box.top);
    right = Math.max(right, box.left + box.width);
    bottom = Math.max(bottom, box.top + box.height);
  }
  return { left, top, width: right - left, height: bottom - top };
}

/** From where to where something reaches on one axis. */
export type Span = readonly [from: number, to: number];

/** Places are rounded to pixels: cards that touch are clear of each other. */
export const TOUCH = 1;

export function touches(a: Span, b: Span): boolean {
  return a[0] < b[1] - TOUCH && b[0] < a[1] - TOUCH;
}

/** What overlaps `seed`, directly or through others: the column of cards that it stands in. */
export function columnOf(spans: readonly Span[], seed: Span): Span {
  let [from, to] = seed;
  for (const span of [...spans].sort((a, b) => a[0] - b[0])) if (touches([from, to], span)) to = Math.max(to, span[1]);
  for (const span of [...spans].sort((a, b) => b[1] - a[1]))
    if (touches([from, to], span)) from = Math.min(from, span[0]);
  return [from, to];
}

export interface HandlePlace {
  readonly port: string;
  readonly side: "input" | "output";
  /** Centre of the handle, from the node's top left corner. */
  readonly x: number;
  readonly y: number;
  /** Whether the port's name stands beside it. */
  readonly labelled: boolean;
}

export interface Geometry {
  readonly width: number;
  readonly height: number;
  readonly handles: readonly HandlePlace[];
  /** Whether edges run right: inputs stand at the left and outputs at the right. */
  readonly across: boolean;
  /** Room for the names of ports above and below what the node says of itself. */
  readonly above: number;
  readonly below: number;
}

/** From the centre of a node to that of the next: closer, they stand side by side. */
export const CLEARLY_RIGHT = NODE_WIDTH;
export const CLEARLY_DOWN = 60;

/** Zooms from each of which on, texts of a size on the canvas have nine pixels on the screen. */
const LEGIBLE = [0.82, 0.7, 0.6, 0.5, 0.42, 0.36, 0.3, 0.25, 0.22];
export const READABLE_ZOOM = 0.82;
/** From here on, all of a card can be read in larger letters; further away, its name alone. */
const ALL_FROM = 0.7;
/** From here on, the shapes beside edges that run down have room between the cards. */
const SHAPES_FROM = 0.5;
/** The least font size on the screen, as in `detail.css`, and the largest on the canvas of what cards say beside their names. */
export const LEAST_LETTERS = 9.2;
export const MOST_LETTERS = LEAST_LETTERS / ALL_FROM;

/** How much of cards is told at a zoom, and how many times larger than nine pixels its letters are. */
export interface Detail {
  readonly told: "all" | "larger" | "names" | "colours";
  /** Whether shapes stand beside edges that run down. */
  readonly shapes: boolean;
  readonly scale: number;
}

/** The first of the zooms in `LEGIBLE` that a zoom has reached; 0 from far away. */
export function legibleFrom(zoom: number): number {
  return LEGIBLE.find((step) => zoom >= step) ?? 0;
}

export function detailFrom(step: number): Detail {
  const told = step >= READABLE_ZOOM ? "all" : step >= ALL_FROM ? "larger" : step > 0 ? "names" : "colours";
  return { told, shapes: step >= SHAPES_FROM, scale: 1 / (step || (LEGIBLE.at(-1) as number)) };
}

/** Whether more edges lead clearly to the right than clearly down, by the centres that they join. */
export function runsRight(ends: Iterable<readonly [x1: number, y1: number, x2: number, y2: number]>): boolean {
  let [right, down] = [0, 0];
  for (const [x1, y1, x2, y2] of ends) {
    if (x2 - x1 >= CLEARLY_RIGHT) right += 1;
    if (y2 - y1 >= CLEARLY_DOWN) down += 1;
  }
  return right > down;
}

/** Whether port names are shown: a single port called input or output needs no label. */
function needsLabels(ports: readonly PortView[], plain: string): boolean {
  return ports.length > 1 || (ports.length === 1 && ports[0]?.name !== plain);
}

export function linesHeight(lines: number): number {
  return lines === 0 ? 0 : SUMMARY_HEIGHT + (lines - 1) * LINE_HEIGHT;
}

/** How wide a port is with its name. */
function slotOf({ name }: PortView): number {
  return Math.max(PORT_WIDTH, 4 + PORT_LETTER * Math.min(name.length, PORT_LETTERS));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Edges that run down arrive above and leave below. `wide`: a text needs the wide card; port names may widen any. */
export function geometryOf(ports: Ports, lines: number, wide = false, collapsed = false, across = false): Geometry {
  const { inputs, outputs } = ports;
  const inputLabels = !collapsed && needsLabels(inputs, "input");
  const outputLabels = !collapsed && needsLabels(outputs, "output");
  const words = collapsed ? COLLAPSED_HEIGHT : HEADER_HEIGHT + linesHeight(lines);
  const named = [inputLabels ? inputs.map(slotOf) : [], outputLabels ? outputs.map(slotOf) : []];
  const crowd = collapsed ? Math.max(inputs.length, outputs.length) * COLLAPSED_PORT_WIDTH : 0;
  const [above, under] = across ? [0, 0] : [inputLabels ? LABELS_HEIGHT : 0, outputLabels ? LABELS_HEIGHT : 0];
  const rows = Math.max(...named.map(({ length }) => length)) * LABELS_HEIGHT;
  const below = across ? rows + Math.max(0, crowd - COLLAPSED_HEIGHT) : under;
  const names = across ? sum(named.map((slots) => Math.max(0, ...slots))) : Math.max(...named.map(sum));
  const open = wide || names > NODE_WIDTH ? Math.max(WIDE, names) : NODE_WIDTH;
  const width = collapsed ? Math.max(COLLAPSED_WIDTH, across ? 0 : crowd) : open;
  const height = above + words + below;
  const place = (side: "input" | "output", list: readonly PortView[], labelled: boolean): HandlePlace[] => {
    const slots = list.map((port) => (labelled ? slotOf(port) : 1));
    return list.map((port, index) => {
      const before = sum(slots.slice(0, index)) + (slots[index] as number) / 2;
      const along = (side: number) => before * (side / sum(slots));
      const beside = side === "input" ? 0 : 1;
      const y = labelled ? words + (index + 0.5) * LABELS_HEIGHT : along(height);
      const [x, top] = across ? [beside * width, y] : [along(width), beside * height];
      return { port: port.name, side, x, y: top, labelled };
    });
  };
  const handles = [...place("input", ports.inputs, inputLabels), ...place("output", ports.outputs, outputLabels)];
  return { width, height, handles, across, above, below };
}

export function dotGeometry(across: boolean): Geometry {
  const handle = (port: "input" | "output", along: number): HandlePlace => {
    const [x, y] = across ? [along, DOT / 2] : [DOT / 2, along];
    return { port, side: port, x, y, labelled: false };
  };
  return { width: DOT, height: DOT, handles: [handle("input", 0), handle("output", DOT)], across, above: 0, below: 0 };
}

/** The card with a small picture under what it says. */
export function picturedGeometry(closed: Geometry): Geometry {
  const lower = closed.across ? 0 : PICTURE_HEIGHT;
  const handles = closed.handles.map((each) => (each.side === "output" ? { ...each, y: each.y + lower } : each));
  return { ...closed, height: closed.height + PICTURE_HEIGHT, handles };
}

/** The card as a frame around its contents; its ports keep their order at the sides. */
export function openedGeometry(closed: Geometry, inside: Size, collapsed: boolean): Geometry {
  // At the sides, the names of ports stand beside what is inside.
  const beside = closed.across && closed.below > 0 ? PORT_WIDTH : OPEN_PADDING;
  const under = closed.across ? 0 : closed.below;
  const width = Math.max(closed.width, inside.width + 2 * beside);
  const height = Math.max(closed.height, headHeight(closed, collapsed) + inside.height + 2 * OPEN_PADDING + under);
  const handles = closed.handles.map((handle) => ({
    ...handle,
    x: (handle.x / closed.width) * width,
    y: (handle.y / closed.height) * height,
  }));
  return { ...closed, width, height, handles };
}

/** The origin of the contents in such a frame, from its upper left corner. */
export function insideAt(frame: Geometry, inside: Size, collapsed: boolean): readonly [x: number, y: number] {
  return [(frame.width - inside.width) / 2, headHeight(frame, collapsed) + OPEN_PADDING];
}

function headHeight({ above }: Geometry, collapsed: boolean): number {
  return above + (collapsed ? COLLAPSED_HEIGHT : HEADER_HEIGHT);
}
