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
  /** Runs code, whose outputs come to `onIOPub`. */
  requestExecute?(
    content: { code: string },
    disposeOnDone: boolean,
    metadata: object,
  ): { onIOPub: (message: Reported) => void };
}

interface Reported {
  readonly header: { readonly msg_type: string };
  readonly content: { transient?: { display_id?: string }; execution_count?: number; data?: Record<string, unknown> };
}

/** What JupyterLab and Notebook tell of the notebook that a widget is in. */
interface NotebookModel {
  readonly sharedModel?: {
    readonly cells: readonly { getSource(): string; getOutputs?(): { data?: Record<string, unknown> }[] }[];
    insertCell(index: number, cell: object): unknown;
  };
  readonly cells: { get(index: number): CellModel };
}

interface CellModel {
  readonly id: string;
  executionCount: number | null;
  readonly outputs: { add(output: object): number; set(index: number, output: object): void; clear(): void };
}

/** A view of ipywidgets. */
interface OtherView {
  readonly el: HTMLElement;
  readonly luminoWidget?: { readonly constructor: { attach(widget: unknown, place: HTMLElement): void } };
  remove(): void;
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
  readonly widget_manager?: {
    readonly kernel?: KernelConnection | null;
    readonly context?: { readonly model: NotebookModel } | null;
    /** Widgets of all kinds, by id; marimo has no views of them. */
    get_model(id: string): Promise<unknown>;
    create_view?(model: unknown): Promise<OtherView>;
  };
}
