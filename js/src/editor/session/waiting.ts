import type { Arrange, Group, Redo, Undo, Ungroup } from "../../protocol";

export type Unaddressed<R> = R extends unknown ? Omit<R, "id" | "client"> : never;

/** A change that Python alone can work out, so that it is not shown before it is done. */
export interface Command {
  readonly request: Unaddressed<Undo | Redo | Arrange | Group | Ungroup>;
  readonly label: string;
  /** The version that it was meant for: that of the document with all the edits that were asked for before it. */
  readonly base: number;
  /** Whether it was lost on its way once, and asked for again. */
  readonly repeated: boolean;
}

/** Requests without an answer. Python answers in the order in which it was asked. */
export class Waiting {
  /** When each was sent, by id, the oldest first. */
  private readonly since = new Map<number, number>();

  add(id: number, time: number): void {
    this.since.set(id, time);
  }

  has(id: number): boolean {
    return this.since.has(id);
  }

  /** Takes an answer in; returns whether one that was sent earlier has been passed over: it was lost on its way. */
  answered(id: number): boolean {
    this.since.delete(id);
    const [oldest] = this.since.keys();
    return oldest !== undefined && oldest < id;
  }

  /** Gives up what was sent before `id`; returns the ids. */
  giveUp(id: number): number[] {
    const lost = [...this.since.keys()].filter((other) => other < id);
    for (const other of lost) this.since.delete(other);
    return lost;
  }

  oldest(): number {
    return this.since.values().next().value ?? Number.POSITIVE_INFINITY;
  }
}

/** What is to be done later, unless everything ends before. */
export class Timers {
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();

  later(delay: number, action: () => void): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      action();
    }, delay);
    this.timers.add(timer);
  }

  end(): void {
    for (const timer of this.timers) clearTimeout(timer);
  }
}
