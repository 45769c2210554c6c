import type { TensorShape } from "../../protocol";

/** The label of an edge: `N×6×24×24`; a dtype is named only when it is not the usual one. */
export function shapeLabel(tensor: TensorShape | undefined): string {
  if (!tensor) return "";
  const sizes = tensor.shape.length === 0 ? "scalar" : tensor.shape.map(size).join("×");
  return tensor.dtype === "float32" ? sizes : `${sizes} ${tensor.dtype}`;
}

function size(value: number | string): string {
  const text = String(value);
  return /^[\w.]+$/.test(text) ? text : `(${text})`;
}
