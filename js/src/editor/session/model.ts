import type { KernelConnection } from "./kernel";

/** The part of anywidget's model that the editor uses. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown): void;
  // biome-ignore lint/suspicious/noExplicitAny: each event has its own arguments
  on(event: string, listener: (...parts: any[]) => void): void;
  // biome-ignore lint/suspicious/noExplicitAny: each event has its own arguments
  off(event: string, listener: (...parts: any[]) => void): void;
  readonly widget_manager?: { readonly kernel?: KernelConnection | null };
}
