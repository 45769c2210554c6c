// The model of an anywidget inside a canvas: what anywidget promises to a front end, and nothing else.
export type State = Record<string, unknown>;
export type Say = (id: string, data: object, buffers?: ArrayBuffer[]) => void;
export type Tell = (data: object, buffers?: ArrayBuffer[]) => void;
type Listener = (...parts: never[]) => void;

type Part = (context: { model: OwnModel; el: HTMLElement }) => unknown;
export type FrontEnd = { initialize?: Part; render?: Part };

export class OwnModel {
  private readonly listeners = new Map<string, Set<Listener>>();
  private readonly changed = new Set<string>();

  constructor(
    private readonly tell: Tell,
    private state: State,
  ) {}

  get = (name: string): unknown => this.state[name];

  set(name: string, value: unknown): void {
    this.changed.add(name);
    this.take({ [name]: value });
  }

  save_changes(): void {
    const state = Object.fromEntries([...this.changed].map((name) => [name, this.state[name]]));
    this.changed.clear();
    this.tell({ method: "update", state, buffer_paths: [] });
  }

  send(content: unknown, _callbacks?: unknown, buffers: ArrayBuffer[] = []): void {
    this.tell({ method: "custom", content }, buffers);
  }

  on(event: string, listener: Listener): void {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
  }

  off(event: string, listener: Listener): void {
    this.listeners.get(event)?.delete(listener);
  }

  emit(event: string, ...parts: unknown[]): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) listener(...(parts as never[]));
  }

  /** Takes a new state; what is the same as before is no change. */
  take(state: State): void {
    const before = this.state;
    this.state = { ...before, ...state };
    const changes = Object.keys(state).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(state[name]));
    for (const name of changes) this.emit(`change:${name}`);
  }
}
