import type { PortView, Ports } from "../document/ports";

/**
 * The one place that decides how large a node is and where its ports are.
 *
 * React Flow gets these numbers instead of measuring, the style sheet gets them as custom properties, the far view
 * and the minimap draw with them, and `pnne_nb` lays out with the same ones. All in the canvas's pixels.
 */
export const NODE_WIDTH = 176;
export const HEADER_HEIGHT = 46;
export const SUMMARY_HEIGHT = 24;
export const ROW_HEIGHT = 20;
export const ROWS_PADDING = 6;
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
}

/** Ports whose name says nothing new: a single input or output needs no label. */
export function needsRows(ports: readonly PortView[], plain: string): boolean {
  return ports.length > 1 || (ports.length === 1 && ports[0]?.name !== plain);
}

export function geometryOf(ports: Ports, hasSummary: boolean): Geometry {
  const inputRows = needsRows(ports.inputs, "input") ? ports.inputs.length : 0;
  const outputRows = needsRows(ports.outputs, "output") ? ports.outputs.length : 0;
  const rows = Math.max(inputRows, outputRows);
  const top = HEADER_HEIGHT + (hasSummary ? SUMMARY_HEIGHT : 0);
  const height = top + (rows > 0 ? rows * ROW_HEIGHT + ROWS_PADDING : 0);
  const place = (side: "input" | "output", list: readonly PortView[], labelled: boolean): HandlePlace[] =>
    list.map((port, index) => ({
      port: port.name,
      side,
      x: side === "input" ? 0 : NODE_WIDTH,
      y: labelled ? top + index * ROW_HEIGHT + ROW_HEIGHT / 2 : height / 2,
      labelled,
    }));
  return {
    width: NODE_WIDTH,
    height,
    handles: [...place("input", ports.inputs, inputRows > 0), ...place("output", ports.outputs, outputRows > 0)],
  };
}
