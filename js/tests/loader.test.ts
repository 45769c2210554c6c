import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Context, type FrontEnd, frontEnds } from "../src/editor/host/frontEnds";
import type { Model } from "../src/editor/session/model";
import loader from "../src/loader/index";

const sent: unknown[] = [];
const model = {
  get: () => "key",
  on: () => {},
  off: () => {},
  send: (content: unknown) => sent.push(content),
} as unknown as Model;
const context = { model } as Context;

const calls: string[] = [];
const frontEnd: FrontEnd = () => ({
  initialize: () => {
    calls.push("initialize");
    return () => calls.push("end");
  },
  render: () => {
    calls.push("render");
    return () => {};
  },
});

beforeEach(() => {
  vi.useFakeTimers();
  frontEnds().clear();
  sent.length = 0;
  calls.length = 0;
});
afterEach(() => void vi.useRealTimers());

test("the model is ready at once, and its view waits for the front end", async () => {
  let arrive: (found: FrontEnd) => void = () => {};
  frontEnds().set("key", new Promise((resolve) => (arrive = resolve)));
  const widget = loader();
  const end = widget.initialize(context);
  const view = widget.render(context);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(calls).toEqual([]);
  arrive(frontEnd);
  await view;
  expect(calls).toEqual(["initialize", "render"]);
  end();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(calls).toEqual(["initialize", "render", "end"]);
  expect(sent).toEqual([]);
});

test("a page that has none asks Python, once", async () => {
  loader().initialize(context);
  loader().initialize(context);
  await vi.advanceTimersByTimeAsync(100);
  expect(sent).toEqual([{ message: "getBundle", id: 0, client: "loader" }]);
});

test.each([
  ["never answers", () => new Promise<FrontEnd>(() => {})],
  ["has failed", () => Promise.reject<FrontEnd>(new Error("broken"))],
])("an editor whose request %s keeps no other one from opening", async (_, stuck) => {
  frontEnds().set("key", stuck());
  loader().initialize(context);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(sent).toHaveLength(1);
});
