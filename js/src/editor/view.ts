import type { Point } from "./canvas/placement";

/** What belongs to one view in one browser and never to the document. */
export interface ViewState {
  /** Names of the Subgraph nodes that were entered, outermost first. */
  readonly path: readonly string[];
  readonly nodes: ReadonlySet<string>;
  readonly edges: ReadonlySet<string>;
  /** Whether the wheel zooms: from the first click inside until a click outside or Escape. */
  readonly active: boolean;
  readonly palette: boolean;
  readonly properties: boolean;
  readonly problems: boolean;
  readonly source: boolean;
  /** Centres of nodes that are being dragged or nudged, before the gesture ends. */
  readonly moving: ReadonlyMap<string, Point>;
  readonly connecting: Connecting | null;
}

/** A connection being drawn. */
export interface Connecting {
  readonly port: string;
  readonly side: "input" | "output";
}

export const NOTHING: ReadonlySet<string> = new Set();
export const STILL: ReadonlyMap<string, Point> = new Map();

export const FIRST_VIEW: ViewState = {
  path: [],
  nodes: NOTHING,
  edges: NOTHING,
  active: false,
  palette: true,
  properties: true,
  problems: false,
  source: false,
  moving: STILL,
  connecting: null,
};
