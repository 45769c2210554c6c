import { BaseEdge, type EdgeProps, getBezierPath } from "@xyflow/react";
import { memo } from "react";
import { useView } from "../context";
import type { WireEdge } from "./flow";

/** An edge, with the shape of what it carries beside its middle. */
export const Wire = memo(function Wire(props: EdgeProps<WireEdge>) {
  const [path, x, y] = getBezierPath(props);
  const isDropTarget = useView((view) => view.dropEdge === props.id);
  return (
    <g data-edge={props.data?.address} className={isDropTarget ? "pnne-wire pnne-drop" : "pnne-wire"}>
      <BaseEdge path={path} interactionWidth={18} />
      {props.data?.label && (
        <text className="pnne-wire-label" x={x} y={y} dx={7} dy={3.5}>
          {props.data.label}
        </text>
      )}
    </g>
  );
});
