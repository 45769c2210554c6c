import type { Arrange, EdgeState } from "../../protocol";
import type { FrameBox } from "../document/frame";
import type { Lens } from "../session/marks";
import type { Point } from "./placement";

export type Direction = NonNullable<Arrange["direction"]>;

/** What belongs to one view in one browser and never to the document. */
export interface ViewState {
  /** Names of the Subgraph nodes that were entered, outermost first. */
  readonly path: readonly string[];
  readonly nodes: ReadonlySet<string>;
  readonly edges: ReadonlySet<string>;
  readonly frames: ReadonlySet<string>;
  /** Whether there is too little width for panels beside the graph: they then cover it, one at a time. */
  readonly narrow: boolean;
  /** Whether the palette has no room when the source is shown beside the graph. */
  readonly snug: boolean;
  /** Whether the wheel zooms: from the first click inside until a click outside or Escape. */
  readonly active: boolean;
  readonly palette: boolean;
  readonly properties: boolean;
  readonly problems: boolean;
  readonly source: boolean;
  /** Whether the dialog for exporting is open. */
  readonly exporting: boolean;
  /** What colours nodes while it is. */
  readonly lens: Lens | null;
  /** Centres of nodes that are being dragged or nudged, before the gesture ends. */
  readonly moving: ReadonlyMap<string, Point>;
  /** Boxes of frames that are being dragged or resized, likewise. */
  readonly boxes: ReadonlyMap<string, FrameBox>;
  readonly connecting: Connecting | null;
  /** The edge whose end is being dragged elsewhere. */
  readonly reconnecting: EdgeState | null;
  /** Id of the edge that a node would go into if it were dropped now. */
  readonly dropEdge: string | null;
  /** The stroke that cuts edges, in the canvas's pixels; empty: the next drag is one. */
  readonly stroke: readonly Point[] | null;
  /** Ids of the edges that it crosses. */
  readonly crossed: ReadonlySet<string>;
  readonly quick: Quick | null;
  readonly snap: boolean;
  /** Whether a drag over the canvas selects what its box touches, instead of moving the view. */
  readonly dragSelects: boolean;
  /** Whether a block opens in place when it is zoomed into, and closes when it is small again. */
  readonly zoomOpens: boolean;
  /** Addresses of properties that are shown as ports although nothing feeds them, as full paths. */
  readonly exposed: ReadonlySet<string>;
  /** Full paths of the first nodes of the runs that are folded into one card each. */
  readonly folded: ReadonlySet<string>;
  /** Ids of the graphs whose rows of equal blocks were folded when they were first seen. */
  readonly foldedOnce: ReadonlySet<string>;
  /** Full paths of values and steps that are drawn although a card has them written on it; or all of them are. */
  readonly outlined: ReadonlySet<string> | "all";
  /** Full paths of the blocks that are open in place, each as a frame around what is inside. */
  readonly opened: ReadonlySet<string>;
  /** The directions in which the user arranged graphs, by their ids. */
  readonly directions: ReadonlyMap<string, Direction>;
  /** The node that the keyboard is at. */
  readonly current: string | null;
  /** The node whose values are edited on its card, and the one to begin with. */
  readonly inline: { readonly node: string; readonly property: string | null } | null;
  readonly renaming: string | null;
  readonly menu: OverCanvas | null;
  /** Whether the list of all gestures is open. */
  readonly sheet: boolean;
  /** Whether the list of what was done is open. */
  readonly history: boolean;
  /** The block whose inside is shown beside it. */
  readonly peek: string | null;
  /** The output that an example is run to, as a full path, and the card beside which it is shown. */
  readonly seen: { readonly card: string; readonly port: string } | null;
  /** Where keys go: to the graph, to the notebook after one more Escape, or to the notebook. */
  readonly keys: "here" | "leaving" | "left";
  /** The text for a screen reader. */
  readonly said: string;
}

export interface OverCanvas {
  /** Pixels from the canvas's corner. */
  readonly left: number;
  readonly top: number;
}

/** A search over the canvas: for a type to add, a node to go to, a port to connect, an edge to select or take elsewhere. */
export type Quick =
  | (OverCanvas & {
      readonly kind: "add";
      readonly at: Point;
      /** The port that the new node is to be connected with, or the edge that it goes into. */
      readonly from: Connecting | null;
      readonly edge: EdgeState | null;
    })
  | (OverCanvas & { readonly kind: "find" })
  | (OverCanvas & { readonly kind: "connect" | "edges" | "type"; readonly node: string })
  | (OverCanvas & { readonly kind: "reconnect"; readonly edge: EdgeState });

/** A connection being drawn. */
export interface Connecting {
  readonly port: string;
  readonly side: "input" | "output";
}

export const NOTHING: ReadonlySet<string> = new Set();
export const STILL: ReadonlyMap<string, Point> = new Map();
export const SETTLED: ReadonlyMap<string, FrameBox> = new Map();

export const FIRST_VIEW: ViewState = {
  path: [],
  nodes: NOTHING,
  edges: NOTHING,
  frames: NOTHING,
  narrow: false,
  snug: false,
  active: false,
  palette: true,
  properties: true,
  problems: false,
  source: false,
  exporting: false,
  lens: null,
  moving: STILL,
  boxes: SETTLED,
  connecting: null,
  reconnecting: null,
  dropEdge: null,
  stroke: null,
  crossed: NOTHING,
  quick: null,
  snap: false,
  dragSelects: false,
  zoomOpens: false,
  exposed: NOTHING,
  folded: NOTHING,
  foldedOnce: NOTHING,
  outlined: NOTHING,
  opened: NOTHING,
  directions: new Map(),
  current: null,
  inline: null,
  renaming: null,
  menu: null,
  sheet: false,
  history: false,
  peek: null,
  seen: null,
  keys: "here",
  said: "",
};

/** The graph that is drawn as a whole: the innermost one of the path that is not open in place in the one around it. */
export function rootOf({ path, opened }: Pick<ViewState, "path" | "opened">): readonly string[] {
  let depth = path.length;
  while (depth > 0 && opened.has(path.slice(0, depth).join("."))) depth -= 1;
  return path.slice(0, depth);
}
