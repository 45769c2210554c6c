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
}

/** Whether port names are shown: a single port called input or output needs no label. */
function needsLabels(ports: readonly PortView[], plain: string): boolean {
  return ports.length > 1 || (ports.length === 1 && ports[0]?.name !== plain);
}

/** Inputs stand on the upper edge and outputs on the lower one: edges run down. */
export function geometryOf(ports: Ports, hasSummary: boolean, collapsed = false): Geometry {
  const inputLabels = !collapsed && needsLabels(ports.inputs, "input");
  const outputLabels = !collapsed && needsLabels(ports.outputs, "output");
  const most = Math.max(inputLabels ? ports.inputs.length : 0, outputLabels ? ports.outputs.length : 0);
  const width = collapsed
    ? Math.max(COLLAPSED_WIDTH, Math.max(ports.inputs.length, ports.outputs.length) * COLLAPSED_PORT_WIDTH)
    : Math.max(NODE_WIDTH, most * PORT_WIDTH);
  const labels = (inputLabels ? LABELS_HEIGHT : 0) + (outputLabels ? LABELS_HEIGHT : 0);
  const height = collapsed ? COLLAPSED_HEIGHT : HEADER_HEIGHT + (hasSummary ? SUMMARY_HEIGHT : 0) + labels;
  const place = (side: "input" | "output", list: readonly PortView[], labelled: boolean): HandlePlace[] =>
    list.map((port, index) => ({
      port: port.name,
      side,
      x: ((index + 0.5) * width) / list.length,
      y: side === "input" ? 0 : height,
      labelled,
    }));
  return {
    width,
    height,
    handles: [...place("input", ports.inputs, inputLabels), ...place("output", ports.outputs, outputLabels)],
  };
}
