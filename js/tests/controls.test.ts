import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  editedText,
  enabled,
  failureText,
  findings,
  footnote,
  formatSeconds,
  formatSpeed,
  fraction,
  mainCommand,
  progressFacts,
  rateText,
  stateText,
  typedRate,
} from "../src/controls/format";
import { halt, PATIENCE_MS, Requests } from "../src/controls/requests";
import type { Reply, TrainingStatus } from "../src/protocol";

const status: TrainingStatus = {
  state: "running",
  waiting: null,
  edited: false,
  error: null,
  node: null,
  epoch: 2,
  epochs: 4,
  batch: 5,
  batches: 10,
  step: 1234,
  stepsPerSecond: 250.4,
  secondsLeft: 61.2,
  learningRate: 0.001,
  cost: 0.0123,
  costMargin: 0.0031,
  framesPerSecond: 9.8,
  lossScale: null,
  skippedSteps: 0,
  saved: null,
  dropped: 0,
  notices: [],
  dismissed: 0,
  remedies: [],
  batchText: "",
};

test("times are minutes and seconds, hours only when there are any", () => {
  expect(formatSeconds(0)).toBe("0:00");
  expect(formatSeconds(61.2)).toBe("1:01");
  expect(formatSeconds(3725)).toBe("1:02:05");
  expect(formatSeconds(10 * 86400)).toBe("10 days");
});

test("an edit of the graph is told while something can be done about it", () => {
  expect(editedText(status)).toBe("");
  expect(editedText({ ...status, edited: true })).toContain("Pause, then Resume");
  expect(editedText({ ...status, edited: true, state: "paused" })).toContain("Resume goes on with it");
  expect(editedText({ ...status, edited: true, state: "finished" })).toBe("");
});

test("slow training keeps a decimal", () => {
  expect(formatSpeed(0.34)).toBe("0.3 steps/s");
  expect(formatSpeed(1234)).toBe("1,234 steps/s");
});

test("progress counts finished epochs and the batches of the running one", () => {
  expect(fraction(status)).toBe(1.5 / 4);
  expect(fraction({ ...status, batches: null })).toBe(1 / 4);
  expect(fraction({ ...status, epoch: 0, batch: 0 })).toBe(0);
  expect(fraction({ ...status, state: "finished" })).toBe(1);
  expect(fraction({ ...status, epochs: 0 })).toBe(0.5);
});

test("a learning rate is read and written in few digits, and nothing else is taken for one", () => {
  expect([0.001, 1.23456e-5, 0, null].map(rateText)).toEqual(["0.001", "1.23e-5", "0", ""]);
  expect([1e6, 123456, 1e-7, 0.25].map(rateText)).toEqual(["1e6", "123000", "1e-7", "0.25"]);
  expect(["1e-3", " 0.5 ", "0"].map(typedRate)).toEqual([0.001, 0.5, 0]);
  expect(["", " ", "fast", "-1", "Infinity", "1,5"].map(typedRate)).toEqual([null, null, null, null, null, null]);
});

test("a finding that the error tells is not told twice", () => {
  const notices = ["The loss became nan at step 47.", "relu2 is dead."].map((message, number) => ({
    number,
    step: 47,
    message,
    node: null,
    hint: null,
    code: null,
    alarms: null,
    bars: [],
    curves: [],
  }));
  expect(findings({ ...status, notices })).toEqual(notices);
  expect(findings({ ...status, notices, error: "NotFiniteError: The loss became nan at step 47. Try …" })).toEqual([
    notices[1],
  ]);
});

test("the finding that quotes the error and says more stands for it", () => {
  const message = "The data failed while fetching batch 11: OSError: disk is gone. While reading example 333.";
  const notices = [
    { number: 0, step: 11, message, node: null, hint: "Try again.", code: null, alarms: null, bars: [], curves: [] },
  ];
  const failed: TrainingStatus = {
    ...status,
    state: "failed",
    error: "OSError: disk is gone\non the second line",
    notices,
  };
  expect(failureText(failed)).toBe(`${message} Try again.`);
  expect(findings(failed)).toEqual([]);
  expect(failureText({ ...failed, notices: [] })).toBe("OSError: disk is gone\non the second line");
  expect(failureText(status)).toBe("");
});

test("a running training that waits says what for", () => {
  expect(stateText(status)).toBe("Running");
  const finding = {
    number: 0,
    step: 1,
    message: "It is.",
    node: null,
    hint: null,
    code: "dead-relu",
    alarms: "0 in 9.",
    bars: [],
    curves: [],
  };
  const finished: TrainingStatus = { ...status, state: "finished", notices: [{ ...finding, alarms: null }] };
  expect(stateText(finished)).toBe("Finished");
  expect(stateText({ ...finished, notices: [finding] })).toBe("Finished, with a finding");
  expect(stateText({ ...finished, notices: [finding, finding] })).toBe("Finished, with 2 findings");
  expect(stateText({ ...status, waiting: "2 processes to start" })).toBe("Waiting for 2 processes to start");
  expect(stateText({ ...status, state: "paused", waiting: "a cell" })).toBe("Paused");
  const stopping = "stopping: waiting for the data, batch 3 of epoch 1; ends in at most 5 s";
  expect(stateText({ ...status, state: "paused", waiting: stopping })).toBe(`S${stopping.slice(1)}`);
});

test("facts are left out where they are not known", () => {
  expect(progressFacts(status)).toEqual(["Epoch 2/4", "step 1,234", "250 steps/s", "1:01 left"]);
  const finished: TrainingStatus = { ...status, state: "finished", stepsPerSecond: 0, epoch: 1500, epochs: 1500 };
  expect(progressFacts(finished)).toEqual(["Epoch 1,500/1,500", "step 1,234"]);
  expect(progressFacts({ ...status, step: 0 })).toEqual([]);
});

test("the cost of watching and lost frames are said", () => {
  const rest = "% of the time (the processor's, hooks included), 9.8 frames/s";
  expect(footnote(status)).toBe(`watching takes 1.2 ± 0.3 ${rest}`);
  expect(footnote({ ...status, costMargin: 0.0002 })).toBe(`watching takes 1.2 ± 0.1 ${rest}`);
  expect(footnote({ ...status, costMargin: null })).toBe(`watching takes about 1.2 ${rest}`);
  expect(footnote({ ...status, cost: 0.0003, costMargin: 0.0001 })).toBe(`watching takes less than 0.1 ${rest}`);
  expect(footnote({ ...status, cost: 0 })).toBe(`watching takes 0.0 ± 0.3 ${rest}`);
  expect(footnote({ ...status, cost: 0, costMargin: null })).toBe("");
  expect(footnote({ ...status, cost: null, dropped: 3 })).toBe("3 frames dropped");
  const scaled = { ...status, cost: null, lossScale: 65536 };
  expect(footnote(scaled)).toBe("loss scale 65,536");
  expect(footnote({ ...scaled, skippedSteps: 1 })).toBe("loss scale 65,536, 1 step skipped");
  expect(footnote({ ...scaled, skippedSteps: 2 })).toBe("loss scale 65,536, 2 steps skipped");
  const saved = { step: 3001, path: "run/000002-step-3001.ckpt" };
  expect(footnote({ ...status, cost: null, saved })).toBe("saved at step 3,001 in run/000002-step-3001.ckpt");
});

test("the first button starts, pauses and resumes", () => {
  expect(mainCommand("idle")).toBe("start");
  expect(mainCommand("running")).toBe("pause");
  expect(mainCommand("paused")).toBe("resume");
  expect(enabled("stop", "idle")).toBe(false);
  expect(enabled("step", "paused")).toBe(true);
  expect(enabled("validate", "running")).toBe(true);
  expect(enabled("save", "finished")).toBe(true);
});

function connection() {
  const sent: unknown[] = [];
  let listener: ((reply: Reply) => void) | undefined;
  const model = {
    send: (content: unknown) => sent.push(content),
    on: (_event: string, fn: (...args: never[]) => void) => {
      listener = fn as (reply: Reply) => void;
    },
    off: () => {
      listener = undefined;
    },
  };
  return { sent, model, reply: (reply: Reply) => listener?.(reply), isConnected: () => listener !== undefined };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("an answer in time is quiet, a late one is announced first and then taken back", () => {
  const { sent, model, reply } = connection();
  const heard: string[] = [];
  const requests = new Requests(model, {
    onError: (message) => heard.push(message),
    onSilence: () => heard.push("silence"),
    onAnswer: () => heard.push("answer"),
  });
  requests.send({ kind: "command", command: "start" });
  requests.send({ kind: "command", command: "pause" });
  expect(sent).toEqual([
    { kind: "command", command: "start", id: 1 },
    { kind: "command", command: "pause", id: 2 },
  ]);
  reply({ kind: "reply", id: 1, error: null });
  vi.advanceTimersByTime(PATIENCE_MS);
  reply({ kind: "reply", id: 2, error: "no" });
  expect(heard).toEqual(["answer", "silence", "answer", "no"]);
});

test("closing removes the listener and the timers", () => {
  const { model, isConnected } = connection();
  const onSilence = vi.fn();
  const requests = new Requests(model, { onError: vi.fn(), onSilence, onAnswer: vi.fn() });
  requests.send({ kind: "command", command: "stop" });
  requests.close();
  vi.advanceTimersByTime(2 * PATIENCE_MS);
  expect(isConnected()).toBe(false);
  expect(onSilence).not.toHaveBeenCalled();
});

test("pause and stop reach a training also where the kernel is held up", () => {
  const fetched = vi.fn(() => Promise.reject(new Error("another machine")));
  vi.stubGlobal("fetch", fetched);
  vi.stubGlobal("location", new URL("http://localhost:8888/lab"));
  for (const command of ["pause", "stop"] as const) halt(command, "http://127.0.0.1:1/secret");
  halt("resume", "http://127.0.0.1:1/secret");
  halt("pause", "");
  halt("pause", undefined);
  expect(fetched.mock.calls.map(([address]: unknown[]) => address)).toEqual([
    "http://127.0.0.1:1/secret/pause",
    "http://127.0.0.1:1/secret/stop",
  ]);
  vi.unstubAllGlobals();
});

test.each([
  ["http://127.0.0.1:8888/lab", true],
  ["http://[::1]:8888/lab", true],
  ["vscode-webview://a1b2/index.html", true],
  ["https://hub.example.org/user/me/lab", false],
  ["https://localhost.example.org/lab", false],
])("a page at %s asks its own machine: %s", (page, asks) => {
  const fetched = vi.fn(() => Promise.resolve());
  vi.stubGlobal("fetch", fetched);
  vi.stubGlobal("location", new URL(page));
  halt("pause", "http://127.0.0.1:1/secret");
  expect(fetched).toHaveBeenCalledTimes(asks ? 1 : 0);
  vi.unstubAllGlobals();
});

test("an epoch stands alone where nobody knows how many there will be", () => {
  expect(progressFacts({ ...status, epochs: 0 })[0]).toBe("Epoch 2");
});
