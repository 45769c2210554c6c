import type { Arrange, EdgeState } from "../../protocol";
import type { FrameBox } from "../document/frame";
import type { Lens } from "../session/marks";
import type { Point } from "./placement";

export type Direction = NonNullable<Arrange["direction"]>;

export interface OverCanvas {
  /** Pixels from the canvas's corner. */
  readonly left: number;
  readonly top: number;
}

/** A search over the canvas: for a type to add, a node to go to, a port to connect, an edge to select or take elsewhere. */
export type Quick =
  | (OverCanvas & {
      readonly kind: "add";
      /** Where the new node is to be; null: after the one that it goes on from. */
      readonly at: Point | null;
      /** The port that the new node is to be connected with, or the edge that it goes into. */
      readonly from: Connecting | null;
      readonly edge: EdgeState | null;
    })
  | (OverCanvas & { readonly kind: "find" | "type" })
  | (OverCanvas & { readonly kind: "connect" | "edges"; readonly node: string })
  | (OverCanvas & { readonly kind: "reconnect"; readonly edge: EdgeState });

/** A connection being drawn. */
export interface Connecting {
  readonly port: string;
  readonly side: "input" | "output";
}

export const NOTHING: ReadonlySet<string> = new Set();
export const STILL: ReadonlyMap<string, Point> = new Map();
export const SETTLED: ReadonlyMap<string, FrameBox> = new Map();

/** What belongs to one view in one browser and never to the document, as it is at first. */
export const FIRST_VIEW = {
  /** Names of the Subgraph nodes that were entered, outermost first. */
  path: [] as readonly string[],
  nodes: NOTHING,
  /** Full paths of selected nodes of other graphs, which a search has found. */
  elsewhere: NOTHING,
  edges: NOTHING,
  frames: NOTHING,
  /** Whether there is too little width for panels beside the graph: they then cover it, one at a time. */
  narrow: false,
  /** Whether the palette has no room when the source is shown beside the graph. */
  snug: false,
  /** Whether the wheel zooms: from the first click inside until a click outside or Escape. */
  active: false,
  palette: true,
  properties: true,
  problems: false,
  source: false,
  /** Whether the dialog for exporting is open. */
  exporting: false,
  /** What colours nodes while it is. */
  lens: null as Lens | null,
  /** Centres of nodes that are being dragged or nudged, before the gesture ends. */
  moving: STILL,
  /** Boxes of frames that are being dragged or resized, likewise. */
  boxes: SETTLED,
  connecting: null as Connecting | null,
  /** The edge whose end is being dragged elsewhere. */
  reconnecting: null as EdgeState | null,
  /** Id of the edge that a node would go into if it were dropped now. */
  dropEdge: null as string | null,
  /** The stroke that cuts edges, in the canvas's pixels; empty: the next drag is one. */
  stroke: null as readonly Point[] | null,
  /** Ids of the edges that it crosses. */
  crossed: NOTHING,
  quick: null as Quick | null,
  snap: false,
  /** Whether a drag over the canvas selects what its box touches, instead of moving the view. */
  dragSelects: false,
  /** Whether a block opens in place when it is zoomed into, and closes when it is small again. */
  zoomOpens: false,
  /** Addresses of properties that are shown as ports although nothing feeds them, as full paths. */
  exposed: NOTHING,
  /** Full paths of a node of each run that is folded into one card. */
  folded: NOTHING,
  /** Ids of the graphs whose rows of equal blocks were folded when they were first seen. */
  foldedOnce: NOTHING,
  /** Full paths of values and steps that are drawn although a card has them written on it; or all of them are. */
  outlined: NOTHING as ReadonlySet<string> | "all",
  /** Full paths of the blocks that are open in place, each as a frame around what is inside. */
  opened: NOTHING,
  /** The directions in which the user arranged graphs, by their ids. */
  directions: new Map() as ReadonlyMap<string, Direction>,
  /** The node that the keyboard is at. */
  current: null as string | null,
  /** The node whose values are edited on its card, and the one to begin with. */
  inline: null as { readonly node: string; readonly property: string | null } | null,
  renaming: null as string | null,
  menu: null as OverCanvas | null,
  /** Whether the list of all gestures is open. */
  sheet: false,
  /** Whether the list of what was done is open. */
  history: false,
  /** The block whose inside is shown beside it. */
  peek: null as string | null,
  /** The output that an example is run to, as a full path, and the card beside which it is shown. */
  seen: null as { readonly card: string; readonly port: string } | null,
  /** Where keys go: to the graph, to the notebook after one more Escape, or to the notebook. */
  keys: "here" as "here" | "leaving" | "left",
  /** The text for a screen reader. */
  said: "",
};

export type ViewState = Readonly<typeof FIRST_VIEW>;

/** The graph that is drawn as a whole: the innermost one of the path that is not open in place in the one around it. */
export function rootOf({ path, opened }: Pick<ViewState, "path" | "opened">): readonly string[] {
  let depth = path.length;
  while (depth > 0 && opened.has(path.slice(0, depth).join("."))) depth -= 1;
  return path.slice(0, depth);
}
