import type { TensorShape } from "../../protocol";
import { partAt } from "./inlining";
import type { ShownScene } from "./scene";
import { BETWEEN_PARTS } from "./summary";

/** The label of an edge: the shape of what it carries, and before that which part of a result this is. */
export function edgeLabel(
  { inlined, prefix }: ShownScene,
  source: string,
  shapes: ReadonlyMap<string, TensorShape>,
): string {
  return [partAt(inlined, source), shapeLabel(shapes.get(prefix + source))].filter(Boolean).join(BETWEEN_PARTS);
}

/** A shape as `N×6×24×24`; a dtype is named only when it is not the usual one. */
export function shapeLabel(tensor: TensorShape | undefined): string {
  if (!tensor) return "";
  const sizes = (tensor.named ?? tensor.shape).map(size).join("×") || "scalar";
  return tensor.dtype === "float32" ? sizes : `${sizes} ${tensor.dtype}`;
}

/** What the names in it stand for in the example: `2×6×24×24 in the example`; empty if it has none. */
export function exampleLabel(tensor: TensorShape | undefined): string {
  return tensor?.named ? `${shapeLabel({ ...tensor, named: null })} in the example` : "";
}

function size(value: number | string): string {
  const text = String(value);
  return /^([~\w.]+|[⌈⌊].*[⌉⌋]|(\d+\*)?\w+\/\d+)$/.test(text) ? text : `(${text})`;
}
