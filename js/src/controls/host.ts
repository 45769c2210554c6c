// What the control widgets use of the notebook around them.

/** The part of any widget's model that pictures are handed on to. */
export interface Receiver {
  _handle_comm_msg(message: object): Promise<void>;
}

/** What knows every widget of the notebook. */
export interface Manager {
  get_model(id: string): Promise<Receiver>;
  kernel?: { interrupt?: () => Promise<void> };
}

/** The part of anywidget's model that is used here. */
export interface Model {
  get(name: string): unknown;
  on(event: string, listener: (...args: never[]) => void): void;
  off(event: string, listener: (...args: never[]) => void): void;
  send(content: unknown): void;
  widget_manager?: Manager;
}
