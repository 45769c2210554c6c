import { useStore } from "@xyflow/react";
import { useView } from "../commands/context";

/** The stroke that cuts edges, while it is drawn. */
export function Stroke() {
  const stroke = useView((view) => view.stroke);
  const [x, y, zoom] = useStore((flow) => flow.transform);
  if (!stroke) return null;
  const points = stroke.map(([left, top]) => `${x + left * zoom},${y + top * zoom}`).join(" ");
  return (
    <svg className="pnne-stroke" aria-hidden="true">
      <polyline points={points} />
    </svg>
  );
}
