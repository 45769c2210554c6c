import type { Committed, HistoryState, Op, Snapshot } from "../../protocol";
import { fromState, type GraphDocument, toState } from "../document/document";
import { applyOps, Refusal } from "../document/reduce";

/** An edit that was shown at once and that Python has not answered yet. */
export interface PendingEdit {
  readonly id: number;
  readonly ops: readonly Op[];
  readonly label: string;
  /** Whether it was lost on its way once, and asked for again. */
  readonly repeated: boolean;
}

/** The confirmed document of Python, and the shown one with the pending edits on top. */
export interface SyncState {
  readonly version: number;
  readonly confirmed: GraphDocument;
  readonly pending: readonly PendingEdit[];
  readonly shown: GraphDocument;
  readonly history: HistoryState;
}

/**
 * The state that a snapshot brings. Edits that were asked for before it are settled by it; later ones stay.
 *
 * One without a document is for who has it at this version; null if that is another page.
 */
export function fromSnapshot(
  { version, document, history }: Snapshot,
  earlier: SyncState | null,
  settledBefore: number,
): SyncState | null {
  const known = earlier?.version === version ? earlier.confirmed : null;
  const confirmed = document ? fromState(JSON.parse(document)) : known;
  if (!confirmed) return null;
  const pending = (earlier?.pending ?? []).filter((edit) => edit.id > settledBefore);
  return { version, confirmed, pending, shown: rebase(confirmed, pending), history };
}

/**
 * Shows an edit before Python has answered it.
 *
 * @throws Refusal when the edit does not fit the document as shown.
 */
export function edited(state: SyncState, edit: PendingEdit): SyncState {
  return { ...state, pending: [...state.pending, edit], shown: applyOps(state.shown, edit.ops) };
}

/** Takes over a commit; null when one before it was missed, so that a sync is needed. */
export function committed(state: SyncState, event: Committed, own: boolean): SyncState | null {
  if (event.version <= state.version) return own ? without(state, event.id) : state;
  if (event.version > state.version + 1) return null;
  const first = state.pending[0];
  const asExpected =
    own &&
    state.pending.length === 1 &&
    first?.id === event.id &&
    JSON.stringify(first?.ops) === JSON.stringify(event.ops);
  let confirmed: GraphDocument;
  try {
    confirmed = asExpected ? state.shown : applyOps(state.confirmed, event.ops);
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
  const pending = own ? state.pending.filter((edit) => edit.id !== event.id) : state.pending;
  return {
    version: event.version,
    confirmed,
    pending,
    shown: asExpected ? state.shown : rebase(confirmed, pending),
    history: event.history,
  };
}

/** Takes a refused edit back. */
export function without(state: SyncState, id: number | null | undefined): SyncState {
  const pending = state.pending.filter((edit) => edit.id !== id);
  if (pending.length === state.pending.length) return state;
  return { ...state, pending, shown: rebase(state.confirmed, pending) };
}

/** Puts pending edits on top of a document; one that no longer fits is not shown: Python will refuse it. */
function rebase(confirmed: GraphDocument, pending: readonly PendingEdit[]): GraphDocument {
  let shown = confirmed;
  for (const edit of pending) {
    try {
      shown = applyOps(shown, edit.ops);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }
  return shown;
}

/** Whether an edit fits a document and makes another one of it. */
export function changes(document: GraphDocument, ops: readonly Op[]): boolean {
  try {
    return JSON.stringify(toState(applyOps(document, ops))) !== JSON.stringify(toState(document));
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}
