import { BaseEdge, type EdgeProps, getBezierPath } from "@xyflow/react";
import { memo } from "react";
import { useEditor, useView } from "../context";
import type { WireEdge } from "./flow";
import { useFlow } from "./Live";

/** An edge, with the shape of what it carries beside its middle, and what comes back along it in a training. */
export const Wire = memo(function Wire(props: EdgeProps<WireEdge>) {
  const [path, x, y] = getBezierPath(props);
  const isDropTarget = useView((view) => view.dropEdge === props.id);
  const source = useEditor().scene()?.cards.get(props.source);
  const [address = ""] = props.data?.address.split("->") ?? [];
  // What is measured is the first output of a layer.
  const flow = useFlow(
    source?.ports.outputs[0]?.name === props.sourceHandleId ? address.slice(0, address.lastIndexOf(".")) : "",
  );
  const state = `${isDropTarget ? " pnne-drop" : ""}${flow ? " pnne-live" : ""}${flow?.bad ? " pnne-bad-flow" : ""}`;
  return (
    <g data-edge={props.data?.address} className={`pnne-wire${state}`} style={flow?.style}>
      <BaseEdge path={path} interactionWidth={18} />
      {props.data?.label && (
        <text className="pnne-wire-label" x={x} y={y} dx={7} dy={3.5}>
          {props.data.label}
        </text>
      )}
      {flow && (
        <text className="pnne-wire-flow" x={x} y={y} dx={-7} dy={3.5}>
          {flow.text}
        </text>
      )}
    </g>
  );
});
