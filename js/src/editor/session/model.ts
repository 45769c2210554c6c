/** A signal of JupyterLab's kernel connection. */
interface Signal<T> {
  connect(slot: (sender: unknown, value: T) => void): unknown;
  disconnect(slot: (sender: unknown, value: T) => void): unknown;
}

/** What JupyterLab and Notebook tell about a kernel; other hosts may have less of it, or nothing. */
interface KernelConnection {
  readonly statusChanged?: Signal<string>;
  readonly connectionStatusChanged?: Signal<string>;
  readonly disposed?: Signal<unknown>;
  readonly supportsSubshells?: boolean;
  /** Asks on the control channel, which a kernel answers also while a cell keeps it busy. */
  requestListSubshell?(content: object): { readonly done: Promise<unknown> };
}

/** A map that all editors of the page share: each is a module instance of its own. */
export function onPage<T>(name: string): Map<string, T> {
  const page = globalThis as { [key: symbol]: Map<string, T> | undefined };
  const key = Symbol.for(name);
  const map = page[key] ?? new Map();
  page[key] = map;
  return map;
}

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
