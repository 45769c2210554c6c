// Requests with a number, answered by Python with the same number; silence is noticed.
import type { Model, Reply, Request } from "./types";

type Unnumbered<T> = T extends { id: number } ? Omit<T, "id"> : never;

export interface Outcome {
  onError(message: string): void;
  /** No answer for `PATIENCE_MS`: a cell keeps the kernel busy. */
  onSilence(): void;
  /** An answer came, perhaps after a silence. */
  onAnswer(): void;
}

export const PATIENCE_MS = 3000;

export class Requests {
  private next = 1;
  private readonly waiting = new Map<number, ReturnType<typeof setTimeout>>();

  constructor(
    private readonly model: Pick<Model, "send" | "on" | "off">,
    private readonly outcome: Outcome,
  ) {
    model.on("msg:custom", this.onMessage);
  }

  send(request: Unnumbered<Request>): void {
    const id = this.next++;
    this.waiting.set(id, setTimeout(this.outcome.onSilence, PATIENCE_MS));
    this.model.send({ ...request, id });
  }

  close(): void {
    this.model.off("msg:custom", this.onMessage);
    for (const timer of this.waiting.values()) clearTimeout(timer);
    this.waiting.clear();
  }

  private readonly onMessage = (reply: Reply): void => {
    const timer = reply.kind === "reply" ? this.waiting.get(reply.id) : undefined;
    if (timer === undefined) return;
    clearTimeout(timer);
    this.waiting.delete(reply.id);
    this.outcome.onAnswer();
    if (reply.error !== null) this.outcome.onError(reply.error);
  };
}
