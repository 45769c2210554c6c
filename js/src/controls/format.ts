// Numbers as a person reads them at a glance.
import type { Command, Notice, TrainingState, TrainingStatus } from "../protocol";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const DAY = 24 * 3600;

export function formatSeconds(seconds: number): string {
  if (seconds >= 2 * DAY) return `${whole.format(seconds / DAY)} days`;
  const total = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60), total % 60];
  const two = (value: number) => String(value).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export function formatSpeed(stepsPerSecond: number): string {
  return `${stepsPerSecond >= 10 ? whole.format(stepsPerSecond) : stepsPerSecond.toFixed(1)} steps/s`;
}

/** The share of the whole training that is done, 0 to 1; of the epoch, where nobody knows how many there will be. */
export function fraction({ state, epoch, epochs, batch, batches }: TrainingStatus): number {
  if (state === "finished") return 1;
  const within = batches ? batch / batches : 0;
  if (epochs <= 0) return within;
  return Math.min(1, Math.max(0, (Math.max(epoch, 1) - 1 + within) / epochs));
}

/** The facts beside the progress bar, most important first. */
export function progressFacts(status: TrainingStatus): string[] {
  if (status.step === 0) return [];
  const facts = [
    `Epoch ${whole.format(status.epoch)}${status.epochs > 0 ? `/${whole.format(status.epochs)}` : ""}`,
    `step ${whole.format(status.step)}`,
  ];
  if (status.stepsPerSecond > 0) facts.push(formatSpeed(status.stepsPerSecond));
  const moving = status.state === "running" || status.state === "paused";
  if (moving && status.secondsLeft !== null) facts.push(`${formatSeconds(status.secondsLeft)} left`);
  return facts;
}

/** A learning rate as it fits into its field: 0.001, 1.23e-4, 1e6. */
export function rateText(learningRate: number | null): string {
  if (learningRate === null) return "";
  const rounded = Number(learningRate.toPrecision(3));
  const plain = String(rounded);
  return plain.length > 6 ? rounded.toExponential().replace("+", "") : plain;
}

/** The learning rate that was typed, or null if it is none. */
export function typedRate(text: string): number | null {
  const rate = text.trim() === "" ? Number.NaN : Number(text);
  return Number.isFinite(rate) && rate >= 0 ? rate : null;
}

export function rateRefusal(text: string): string {
  return `A learning rate is a number that is not negative, such as 1e-3, not “${text}”.`;
}

/** Where the latest checkpoint is, how gradients are scaled, and what watching costs. */
export function footnote(status: TrainingStatus): string {
  const { cost, costMargin, framesPerSecond, lossScale, skippedSteps, saved, dropped } = status;
  const texts: string[] = [];
  if (saved) texts.push(`saved at step ${whole.format(saved.step)} in ${saved.path}`);
  if (lossScale !== null) {
    const skipped =
      skippedSteps > 0 ? `, ${whole.format(skippedSteps)} step${skippedSteps > 1 ? "s" : ""} skipped` : "";
    texts.push(`loss scale ${lossScale.toLocaleString("en-US")}${skipped}`);
  }
  // The first report comes before anything was measured.
  if (cost || (cost === 0 && costMargin)) {
    const rate = framesPerSecond > 0 ? `, ${framesPerSecond.toFixed(1)} frames/s` : "";
    texts.push(`watching takes ${shareText(cost, costMargin)} of the time (the processor's, hooks included)${rate}`);
  }
  if (dropped > 0) texts.push(`${whole.format(dropped)} frames dropped`);
  return texts.join(" · ");
}

/** A share with its 95 % interval: "1.4 ± 0.3 %". */
function shareText(share: number, margin: number | null): string {
  if (share + (margin ?? 0) < 0.0005) return "less than 0.1 %";
  const percent = (value: number) => (100 * value).toFixed(1);
  if (margin === null) return `about ${percent(share)} %`;
  // An interval that rounds to nothing would look exact.
  return `${percent(share)} ± ${percent(Math.max(margin, 0.001))} %`;
}

/** What was found, without what the failure says anyway. */
export function findings(status: TrainingStatus): Notice[] {
  const { error, notices } = status;
  const telling = explanation(status);
  return notices.filter((notice) => notice !== telling && !error?.includes(notice.message));
}

/** Why the training failed: the finding that quotes the error and says where it was and what to do, or the error alone. */
export function failureText(status: TrainingStatus): string {
  const telling = explanation(status);
  if (!telling) return status.error ?? "";
  return telling.hint ? `${telling.message} ${telling.hint}` : telling.message;
}

function explanation({ error, notices }: TrainingStatus): Notice | undefined {
  const first = error?.split("\n")[0];
  return first ? notices.findLast(({ message }) => message.includes(first)) : undefined;
}

/** What becomes of edits of the graph while it trains; empty if there is nothing to say. */
export function editedText({ state, edited }: TrainingStatus): string {
  if (!edited || (state !== "running" && state !== "paused")) return "";
  return state === "paused"
    ? "The graph was edited: Resume goes on with it as it is now. Layers that still fit keep what they have learned."
    : "The graph was edited, and trains on as it was: Pause, then Resume, takes the edit in.";
}

const stateNames: Record<TrainingState, string> = {
  idle: "Ready",
  running: "Running",
  paused: "Paused",
  finished: "Finished",
  stopped: "Stopped",
  failed: "Failed",
};

/** The state of the training in a word, with what was found once it is over, or what it waits for. */
export function stateText({ state, waiting, notices }: TrainingStatus): string {
  // A pending command, and what it waits for.
  if (waiting && /^(stopping|pausing):/.test(waiting)) return waiting.charAt(0).toUpperCase() + waiting.slice(1);
  if (state === "running" && waiting) return `Waiting for ${waiting}`;
  // Only a finding says how often its kind is wrong.
  const found = notices.filter(({ alarms }) => alarms !== null).length;
  if (state !== "finished" || !found) return stateNames[state];
  return `${stateNames[state]}, with ${found === 1 ? "a finding" : `${found} findings`}`;
}

/** What the first button does in each state. */
export function mainCommand(state: TrainingState): Command {
  if (state === "running") return "pause";
  return state === "paused" ? "resume" : "start";
}

/** When commands make sense that do not always do. */
const SENSIBLE: Partial<Record<Command, (state: TrainingState) => boolean>> = {
  start: (state) => state !== "running" && state !== "paused",
  pause: (state) => state === "running",
  resume: (state) => state === "paused",
  step: (state) => state !== "running",
  stop: (state) => state === "running" || state === "paused",
};

/** Whether `command` makes sense in `state`; Python refuses commands with a reason. */
export function enabled(command: Command, state: TrainingState): boolean {
  return SENSIBLE[command]?.(state) ?? true;
}
