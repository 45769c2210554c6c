import { BaseEdge, type EdgeProps, Position, useReactFlow, ViewportPortal } from "@xyflow/react";
import { type MouseEvent, memo, type PointerEvent, useCallback, useMemo, useState } from "react";
import { useEditor, useSession, useView } from "../commands/context";
import { ownName } from "../commands/opened";
import type { Point } from "../scene/placement";
import { LABEL_GAP, labelPlace, pathThrough } from "../scene/routes";
import { pointsOf, WIRE_REACH, type WireEdge, wireAt } from "./flow";
import { useFlow } from "./Live";

/** Where a text stands beside the middle of an edge. */
const LEFT = { dx: -LABEL_GAP, dy: 3.5, textAnchor: "end" } as const;
const RIGHT = { dx: LABEL_GAP, dy: 3.5, textAnchor: "start" } as const;
const ABOVE = { dx: 0, dy: -6, textAnchor: "middle" } as const;
const BELOW = { dx: 0, dy: 14, style: { textAnchor: "middle" } } as const;

function labelAt({ at, side }: ReturnType<typeof labelPlace>, across: boolean) {
  return { x: at[0], y: at[1], ...(across ? ABOVE : side < 0 ? LEFT : RIGHT) };
}

/** An edge, with the shape of what it carries beside its middle, and what comes back along it in a training. */
export const Wire = memo(function Wire(props: EdgeProps<WireEdge>) {
  // While an end is on the move, the way around what stands between is not known yet.
  const { prefix = "", ends = [], own = "", part = "", flow: measured = "" } = props.data ?? {};
  const editor = useEditor();
  const isHere = (path: readonly string[]) => path.map((name) => `${name}.`).join("") === prefix;
  const moving = useView(
    ({ moving, path }) => moving.size > 0 && isHere(path) && ends.some((name) => moving.has(name)),
  );
  const around = moving ? [] : (props.data?.route.slice(1, -1) ?? []);
  const points: Point[] = [[props.sourceX, props.sourceY], ...around, [props.targetX, props.targetY]];
  const place = (moving ? null : props.data?.place) ?? labelPlace(points);
  const [x, y] = place.at;
  const across = props.sourcePosition === Position.Right;
  const isDropTarget = useView((view) => view.dropEdge === own && isHere(view.path));
  const isCrossed = useView((view) => view.crossed.has(own) && isHere(view.path));
  const isChosen = useView((view) => part !== "" && view.nodes.has(part) && isHere(view.path));
  const flow = useFlow(measured);
  // What has no card is selected by its label.
  const choose = (event: MouseEvent) => {
    event.stopPropagation();
    editor.select([part]);
    editor.announceSelection();
  };
  const state = `${isDropTarget ? " pnne-drop" : ""}${isCrossed ? " pnne-crossed" : ""}${isChosen ? " pnne-chosen" : ""}${flow ? " pnne-live" : ""}${flow?.bad ? " pnne-bad-flow" : ""}`;
  return (
    <g data-edge={own ? props.data?.address : undefined} className={`pnne-wire${state}`} style={flow?.style}>
      <BaseEdge path={pathThrough(points, across)} interactionWidth={WIRE_REACH} />
      {props.data?.label && (
        // biome-ignore lint/a11y/noStaticElementInteractions: Find selects the node by keyboard
        <text
          className={`pnne-wire-label${props.data.again ? " pnne-again" : ""}`}
          onClick={part && isHere(editor.view.get().path) ? choose : undefined}
          {...labelAt(place, across)}
        >
          {props.data.example && <title>{props.data.example}</title>}
          {props.data.label}
        </text>
      )}
      {flow && (
        <text className="pnne-wire-flow" x={x} y={y} {...(across ? BELOW : { dx: -7, dy: place.side < 0 ? 17 : 3.5 })}>
          {flow.text}
        </text>
      )}
    </g>
  );
});

/**
 * Which edges of a large graph are React Flow's, and which are drawn on one sheet.
 *
 * React Flow makes a layer of each edge and asks each for its place in every frame, so that hundreds of them cannot move
 * smoothly. It keeps only the edges that are selected, under the pointer, dragged or cut.
 */
export function useSheet(edges: WireEdge[], wanted: boolean) {
  const editor = useEditor();
  const { screenToFlowPosition } = useReactFlow();
  const [hovered, setHovered] = useState<string>();
  const moving = useView((view) => view.moving);
  const dropEdge = useView((view) => view.dropEdge);
  const crossed = useView((view) => view.crossed);
  // In a training, every edge tells what comes back along it.
  const isLive = useSession((state) => state.training !== null);
  const isUsed = wanted && !isLive;
  const [lifted, onSheet] = useMemo(() => {
    if (!isUsed) return [edges, []];
    const isLifted = ({ id, selected, data }: WireEdge) =>
      !data?.own ||
      data.route.length < 2 ||
      selected ||
      id === hovered ||
      data.own === dropEdge ||
      crossed.has(data.own) ||
      (moving.size > 0 && data.ends.some((name) => moving.has(name)));
    return [edges.filter(isLifted), edges.filter((edge) => !isLifted(edge))];
  }, [edges, isUsed, hovered, moving, dropEdge, crossed]);
  const wireUnder = useCallback(
    ({ clientX: x, clientY: y, target }: MouseEvent) => {
      const own = (target as Element).closest("[data-id]")?.getAttribute("data-id");
      return edges.find(({ id }) => id === own) ?? wireAt(edges, screenToFlowPosition({ x, y }));
    },
    [edges, screenToFlowPosition],
  );
  const onPoint = useCallback(
    (event: PointerEvent) => {
      if (event.buttons !== 0 && event.type !== "pointerdown") return;
      const isOverNode = (event.target as Element).closest(".react-flow__node") !== null;
      setHovered(isOverNode ? undefined : wireUnder(event)?.id);
    },
    [wireUnder],
  );
  // A click that is quicker than React Flow, which had to make the edge first.
  const onPaneClick = useCallback(
    (event: MouseEvent) => {
      const wire = wireUnder(event);
      const own = wire ? ownName(editor, wire.id) : null;
      if (own === null) return;
      const { nodes, edges, frames } = editor.view.get();
      if (event.shiftKey) editor.select(nodes, [...edges, own], frames);
      else editor.select([], [own]);
      editor.announceSelection();
    },
    [editor, wireUnder],
  );
  const pointing = isUsed ? { onPointerDownCapture: onPoint, onPointerMove: onPoint, onPaneClick } : {};
  return { lifted, onSheet, pointing };
}

/** Edges on one sheet behind the cards. */
export const WireSheet = memo(function WireSheet({ edges }: { edges: readonly WireEdge[] }) {
  return (
    <ViewportPortal>
      <svg className="pnne-wires" aria-hidden="true">
        {edges.map((edge) => (
          <SheetWire key={edge.id} edge={edge} />
        ))}
      </svg>
    </ViewportPortal>
  );
});

const SheetWire = memo(function SheetWire({ edge: { id, data } }: { edge: WireEdge }) {
  if (!data) return null;
  const { address, label, again, across, place } = data;
  const points = pointsOf(data);
  return (
    <>
      <path className="react-flow__edge-path" data-edge={address} d={pathThrough(points, across)} />
      {label && !again && (
        <text className="pnne-wire-label" data-id={id} {...labelAt(place, across)}>
          {label}
        </text>
      )}
    </>
  );
});
