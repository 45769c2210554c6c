// Requests with a number, answered by Python with the same number; silence is noticed.
import type { Command, ControlEvent, ControlRequest } from "../protocol";
import type { Model } from "./host";

type Unnumbered<T> = T extends { id: number } ? Omit<T, "id"> : never;

export interface Outcome {
  onError(message: string): void;
  /** No answer for `PATIENCE_MS`: a cell keeps the kernel busy. */
  onSilence(): void;
  /** An answer came, perhaps after a silence. */
  onAnswer(): void;
}

export const PATIENCE_MS = 3000;

const LOCAL = /^(localhost|127\.[\d.]+|\[::1\]|.+\.localhost)$/;

/** Halts a training at once, also while a cell blocks the kernel, and sends the request to the kernel too. */
export function halt(command: Command, direct: string | undefined): void {
  if (!direct || (command !== "pause" && command !== "stop")) return;
  // A page of another machine cannot reach it, and a browser may ask people whether it shall try.
  if (/^https?:/.test(location.protocol) && !LOCAL.test(location.hostname)) return;
  fetch(`${direct}/${command}`, { method: "POST", mode: "no-cors" }).catch(() => undefined);
}

export class Requests {
  private next = 1;
  private readonly waiting = new Map<number, ReturnType<typeof setTimeout>>();

  constructor(
    private readonly model: Pick<Model, "send" | "on" | "off">,
    private readonly outcome: Outcome,
  ) {
    model.on("msg:custom", this.onMessage);
  }

  send(request: Unnumbered<ControlRequest>): void {
    const id = this.next++;
    this.waiting.set(id, setTimeout(this.outcome.onSilence, PATIENCE_MS));
    this.model.send({ ...request, id });
  }

  close(): void {
    this.model.off("msg:custom", this.onMessage);
    for (const timer of this.waiting.values()) clearTimeout(timer);
    this.waiting.clear();
  }

  private readonly onMessage = (reply: ControlEvent): void => {
    if (reply.kind !== "reply") return;
    const timer = this.waiting.get(reply.id);
    if (timer === undefined) return;
    clearTimeout(timer);
    this.waiting.delete(reply.id);
    this.outcome.onAnswer();
    if (reply.error !== null) this.outcome.onError(reply.error);
  };
}
