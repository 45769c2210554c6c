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

  /** When the oldest was sent. */
  oldest(): number {
    return this.since.values().next().value ?? Number.POSITIVE_INFINITY;
  }
}
