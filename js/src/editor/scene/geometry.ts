import type { Ports, PortView } from "../document/ports";

/**
 * The one place that decides how large a node is and where its ports are.
 *
 * React Flow gets these numbers instead of measuring, the style sheet gets them as custom properties, the far view
 * and the minimap draw with them, and `pnne_nb` lays out with the same ones. All in the canvas's pixels.
 */
export const NODE_WIDTH = 176;
export const HEADER_HEIGHT = 46;
export const SUMMARY_HEIGHT = 24;
/** Of each line below the first that says something of the node. */
export const LINE_HEIGHT = 16;
export const LABELS_HEIGHT = 18;
export const PORT_WIDTH = 58;
/** A collapsed node shows its name alone; its ports stand close together, without theirs. */
export const COLLAPSED_WIDTH = 148;
export const COLLAPSED_HEIGHT = 30;
export const COLLAPSED_PORT_WIDTH = 18;
export const HANDLE_SIZE = 10;

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
const CLEARLY_RIGHT = NODE_WIDTH;
const CLEARLY_DOWN = 60;

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

/** How high the lines are that say something of a node. */
export function linesHeight(lines: number): number {
  return lines === 0 ? 0 : SUMMARY_HEIGHT + (lines - 1) * LINE_HEIGHT;
}

/** Where edges run down, inputs stand on the upper edge and outputs on the lower one. */
export function geometryOf(ports: Ports, lines: number, collapsed = false, across = false): Geometry {
  const inputLabels = !collapsed && needsLabels(ports.inputs, "input");
  const outputLabels = !collapsed && needsLabels(ports.outputs, "output");
  const words = collapsed ? COLLAPSED_HEIGHT : HEADER_HEIGHT + linesHeight(lines);
  const labels = Math.max(inputLabels ? ports.inputs.length : 0, outputLabels ? ports.outputs.length : 0);
  const crowd = collapsed ? Math.max(ports.inputs.length, ports.outputs.length) * COLLAPSED_PORT_WIDTH : 0;
  const above = inputLabels && !across ? LABELS_HEIGHT : 0;
  const below = across
    ? labels * LABELS_HEIGHT + Math.max(0, crowd - COLLAPSED_HEIGHT)
    : outputLabels
      ? LABELS_HEIGHT
      : 0;
  const widths = across ? 0 : Math.max(crowd, labels * PORT_WIDTH);
  const width = Math.max(collapsed ? COLLAPSED_WIDTH : NODE_WIDTH, widths);
  const height = above + words + below;
  const place = (side: "input" | "output", list: readonly PortView[], labelled: boolean): HandlePlace[] =>
    list.map((port, index) => {
      const along = (side: number) => ((index + 0.5) * side) / list.length;
      const beside = side === "input" ? 0 : 1;
      const y = labelled ? words + (index + 0.5) * LABELS_HEIGHT : along(height);
      const [x, top] = across ? [beside * width, y] : [along(width), beside * height];
      return { port: port.name, side, x, y: top, labelled };
    });
  const handles = [...place("input", ports.inputs, inputLabels), ...place("output", ports.outputs, outputLabels)];
  return { width, height, handles, across, above, below };
}
