import type { Derived, Diagnostic, NodeCost, TensorShape } from "../../protocol";

export const NOTHING_DERIVED = {
  shapes: new Map() as ReadonlyMap<string, TensorShape>,
  resolved: new Map() as ReadonlyMap<string, Readonly<Record<string, unknown>>>,
  diagnostics: new Map() as ReadonlyMap<string, readonly Diagnostic[]>,
  costs: new Map() as ReadonlyMap<string, NodeCost>,
  /** The symbolic sizes that the costs are for. */
  example: {} as Readonly<Record<string, number>>,
};

/** What Python has worked out, by full path. */
export type DerivedState = Readonly<typeof NOTHING_DERIVED>;

/** Takes over a delta; maps without changes keep their identity. */
export function applyDerived(state: DerivedState, delta: Derived): DerivedState {
  return {
    shapes: merge(state.shapes, delta.shapes),
    resolved: merge(state.resolved, delta.resolved),
    diagnostics: merge(state.diagnostics, delta.diagnostics, (list) => list.length === 0),
    costs: merge(state.costs, delta.costs),
    example: delta.example ?? state.example,
  };
}

function merge<V>(
  state: ReadonlyMap<string, V>,
  delta: Record<string, V | null> | undefined,
  isEmpty: (value: V) => boolean = () => false,
): ReadonlyMap<string, V> {
  let next: Map<string, V> | null = null;
  for (const key in delta) {
    next ??= new Map(state);
    const value = delta[key] as V | null;
    if (value === null || isEmpty(value)) next.delete(key);
    else next.set(key, value);
  }
  return next ?? state;
}
