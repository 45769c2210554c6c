import { BaseEdge, type EdgeProps, Position } from "@xyflow/react";
import { memo } from "react";
import { useView } from "../commands/context";
import type { Point } from "../scene/placement";
import { labelPlace, pathThrough } from "../scene/routes";
import type { WireEdge } from "./flow";
import { useFlow } from "./Live";

/** Where a text stands beside the middle of an edge. */
const LEFT = { dx: -7, dy: 3.5, textAnchor: "end" } as const;
const RIGHT = { dx: 7, dy: 3.5, textAnchor: "start" } as const;
const ABOVE = { dx: 0, dy: -6, textAnchor: "middle" } as const;
const BELOW = { dx: 0, dy: 14, style: { textAnchor: "middle" } } as const;

/** An edge, with the shape of what it carries beside its middle, and what comes back along it in a training. */
export const Wire = memo(function Wire(props: EdgeProps<WireEdge>) {
  // While an end is on the move, the way around what stands between is not known yet.
  const { prefix = "", ends = [], own = "", flow: measured = "" } = props.data ?? {};
  const isHere = (path: readonly string[]) => path.map((name) => `${name}.`).join("") === prefix;
  const moving = useView(
    ({ moving, path }) => moving.size > 0 && isHere(path) && ends.some((name) => moving.has(name)),
  );
  const around = moving ? [] : (props.data?.around ?? []);
  const points: Point[] = [[props.sourceX, props.sourceY], ...around, [props.targetX, props.targetY]];
  const {
    at: [x, y],
    side,
  } = labelPlace(points);
  const across = props.sourcePosition === Position.Right;
  const isDropTarget = useView((view) => view.dropEdge === own && isHere(view.path));
  const isCrossed = useView((view) => view.crossed.has(own) && isHere(view.path));
  const flow = useFlow(measured);
  const state = `${isDropTarget ? " pnne-drop" : ""}${isCrossed ? " pnne-crossed" : ""}${flow ? " pnne-live" : ""}${flow?.bad ? " pnne-bad-flow" : ""}`;
  return (
    <g data-edge={own ? props.data?.address : undefined} className={`pnne-wire${state}`} style={flow?.style}>
      <BaseEdge path={pathThrough(points, across)} interactionWidth={18} />
      {props.data?.label && (
        <text
          className={`pnne-wire-label${props.data.again ? " pnne-again" : ""}`}
          x={x}
          y={y}
          {...(across ? ABOVE : side < 0 ? LEFT : RIGHT)}
        >
          {props.data.label}
        </text>
      )}
      {flow && (
        <text className="pnne-wire-flow" x={x} y={y} {...(across ? BELOW : { dx: -7, dy: side < 0 ? 17 : 3.5 })}>
          {flow.text}
        </text>
      )}
    </g>
  );
});
