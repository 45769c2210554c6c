import type { Derived, Diagnostic, NodeCost, TensorShape } from "../../protocol";

/** What Python has worked out, by full path. */
export interface DerivedState {
  readonly shapes: ReadonlyMap<string, TensorShape>;
  readonly resolved: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
  readonly diagnostics: ReadonlyMap<string, readonly Diagnostic[]>;
  readonly costs: ReadonlyMap<string, NodeCost>;
  /** The symbolic sizes that the costs are for. */
  readonly example: Readonly<Record<string, number>>;
}

export const NOTHING_DERIVED: DerivedState = {
  shapes: new Map(),
  resolved: new Map(),
  diagnostics: new Map(),
  costs: new Map(),
  example: {},
};

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
