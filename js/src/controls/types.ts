// What Python says to the control widgets (pnne_nb/widgets/controls.py) and what they answer.

export type TrainingState = "idle" | "running" | "paused" | "finished" | "stopped" | "failed";

export interface Notice {
  step: number;
  message: string;
  node: string | null;
  hint: string | null;
}

export interface Saved {
  step: number;
  path: string;
}

/** Mirrors `Status` in pnne_nb/widgets/controls.py, field by field. */
export interface Status {
  state: TrainingState;
  waiting: string | null;
  edited: boolean;
  error: string | null;
  node: string | null;
  epoch: number;
  epochs: number;
  batch: number;
  batches: number | null;
  step: number;
  stepsPerSecond: number;
  secondsLeft: number | null;
  learningRate: number | null;
  cost: number | null;
  framesPerSecond: number;
  lossScale: number | null;
  skippedSteps: number;
  saved: Saved | null;
  dropped: number;
  notices: Notice[];
}

export type Command = "start" | "pause" | "resume" | "step" | "stop" | "validate" | "save";

export type Request =
  | { kind: "command"; id: number; command: Command }
  | { kind: "choose"; id: number; layer: string }
  | { kind: "scale"; id: number; log: boolean }
  | { kind: "rate"; id: number; rate: number }
  | { kind: "show"; id: number; on: boolean };

export interface Reply {
  kind: "reply";
  id: number;
  error: string | null;
}

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
