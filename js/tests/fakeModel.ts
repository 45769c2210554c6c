import type { Model } from "../src/editor/session/model";
import type { Event, Request } from "../src/protocol";

/** A model whose kernel is the test. */
export class FakeModel implements Model {
  readonly sent: Request[] = [];
  readonly traits = new Map<string, unknown>();
  private readonly listeners = new Map<string, Set<(...parts: unknown[]) => void>>();

  get(name: string): unknown {
    return this.traits.get(name);
  }
  set(name: string, value: unknown): void {
    this.traits.set(name, value);
  }
  save_changes(): void {}
  send(content: unknown): void {
    this.sent.push(content as Request);
  }
  on(event: string, listener: (...parts: unknown[]) => void): void {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
  }
  off(event: string, listener: (...parts: unknown[]) => void): void {
    this.listeners.get(event)?.delete(listener);
  }
  receive(event: Event): void {
    for (const listener of this.listeners.get("msg:custom") ?? []) listener(event);
  }
  emit(event: string): void {
    for (const listener of this.listeners.get(event) ?? []) listener();
  }
  get listening(): number {
    return [...this.listeners.values()].reduce((sum, set) => sum + set.size, 0);
  }
}
