import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Manager, Receiver } from "../src/controls/host";
import { handOnPictures } from "../src/controls/picture";

interface Received {
  id: string;
  state: unknown;
  paths: unknown;
  buffers: unknown[];
}

/** A page whose widgets are made one after the other; what they receive is kept. */
function page(...made: string[]) {
  const received: Received[] = [];
  let listener: ((content: unknown, buffers: unknown[]) => void) | undefined;
  const models = new Map<string, Receiver>();
  const make = (id: string) =>
    models.set(id, {
      // biome-ignore lint/suspicious/noExplicitAny: the shape of Jupyter's messages
      _handle_comm_msg: async ({ content, buffers }: any) => {
        const { state, buffer_paths: paths, method } = content.data;
        expect(method).toBe("update");
        received.push({ id, state, paths, buffers });
      },
    });
  made.forEach(make);
  const asked: string[] = [];
  const manager: Manager = {
    get_model: async (id) => {
      asked.push(id);
      const there = models.get(id);
      if (!there) throw new Error("widget model not found");
      return there;
    },
  };
  const model = {
    on: (_event: string, fn: (...args: never[]) => void) => {
      listener = fn as never;
    },
    off: () => {
      listener = undefined;
    },
  };
  const end = handOnPictures(model, manager);
  const send = (updates: object[], buffers: unknown[] = []) => listener?.({ kind: "picture", updates }, buffers);
  return { received, asked, make, send, end, say: (content: object) => listener?.(content, []) };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("each widget receives its part, with its own buffers, in the order that it was sent", async () => {
  const { received, asked, send } = page("a", "b");
  const first = { model: "a", state: { x: {} }, paths: [["x", "value"], ["y"]] };
  send(
    [first, { model: "b", state: { value: 1 }, paths: [] }, { model: "a", state: { z: {} }, paths: [["z"]] }],
    [1, 2, 3],
  );
  send([{ model: "b", state: { value: 2 }, paths: [] }]);
  await vi.runAllTimersAsync();
  expect(received.filter(({ id }) => id === "a")).toEqual([
    { id: "a", state: { x: {} }, paths: first.paths, buffers: [1, 2] },
    { id: "a", state: { z: {} }, paths: [["z"]], buffers: [3] },
  ]);
  expect(received.filter(({ id }) => id === "b").map(({ state }) => state)).toEqual([{ value: 1 }, { value: 2 }]);
  expect(asked).toEqual(["a", "b"]);
});

test("a widget that the page has not made yet is waited for, and nobody waits with it", async () => {
  const { received, send, make } = page("bar");
  for (const tick of [1, 2]) {
    send([
      { model: "late", state: { tick }, paths: [] },
      { model: "bar", state: { tick }, paths: [] },
    ]);
  }
  await vi.advanceTimersByTimeAsync(10);
  expect(received.map(({ id }) => id)).toEqual(["bar", "bar"]);
  make("late");
  await vi.advanceTimersByTimeAsync(200);
  expect(received.slice(2).map(({ state }) => state)).toEqual([{ tick: 1 }, { tick: 2 }]);
});

test("one that never comes is given up, and asked for again by the next picture", async () => {
  const { received, send, make } = page();
  send([{ model: "gone", state: {}, paths: [] }]);
  await vi.runAllTimersAsync();
  expect(received).toEqual([]);
  make("gone");
  send([{ model: "gone", state: { x: 1 }, paths: [] }]);
  await vi.runAllTimersAsync();
  expect(received.map(({ state }) => state)).toEqual([{ x: 1 }]);
});

test("other messages are none of its business, and after the end there is nothing to hear", async () => {
  const { received, say, send, end } = page("a");
  say({ kind: "reply", id: 1, error: null });
  end();
  send([{ model: "a", state: {}, paths: [] }]);
  await vi.runAllTimersAsync();
  expect(received).toEqual([]);
});
