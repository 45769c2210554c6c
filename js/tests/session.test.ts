import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GONE_AFTER, LARGEST_MESSAGE, Session } from "../src/editor/session/session";
import type { Committed, Event, Op, Request, Snapshot, Sync } from "../src/protocol";
import { FakeModel } from "./fakeModel";
import { documentOf } from "./openEditor";

const add = (name: string): Op => ({ op: "addNode", name, type: "ReLU" });
const snapshot = (
  version: number,
  names: string[],
  id: number | null = null,
  client: string | null = null,
): Snapshot => ({
  message: "snapshot",
  version,
  document: JSON.stringify(documentOf({ "": { nodes: names.map((name) => ({ name, type: "ReLU" })) } })),
  derived: { shapes: {}, resolved: {}, diagnostics: {}, costs: {}, example: {} },
  history: { undo: null, redo: null },
  id,
  client,
});

let model: FakeModel;
let session: Session;

beforeEach(() => {
  vi.useFakeTimers();
  model = new FakeModel();
  model.traits.set("snapshot", snapshot(3, ["a"]));
  session = new Session(model);
  for (const request of model.sent.splice(0)) {
    if (request.message === "sync") model.receive(snapshot(3, ["a"], request.id, request.client));
    if (request.message === "getCatalog") {
      model.receive({
        message: "catalog",
        key: "k",
        categories: [],
        templates: { format: "pnne-graph", formatVersion: 1, name: "templates", graphs: {} },
        properties: [],
        types: [],
        id: request.id,
        client: request.client,
      });
    }
  }
});

afterEach(() => {
  session.dispose();
  vi.useRealTimers();
});

const shown = () => [...(session.document?.graphs.get("")?.nodes.keys() ?? [])];
const version = () => session.store.get().sync?.version;
const commit = (number: number, ops: Op[], from?: Request): Committed => ({
  message: "committed",
  version: number,
  ops,
  label: "",
  history: { undo: "x", redo: null },
  client: from?.client ?? "other",
  id: from?.id ?? 99,
});

test("an edit is shown at once and confirmed by its commit", () => {
  expect(session.edit([add("b")], "Add b")).toBe(true);
  expect(shown()).toEqual(["a", "b"]);
  const [edit] = model.sent;
  expect(edit).toMatchObject({ message: "edit", base: 3, ops: [add("b")], label: "Add b" });
  const before = session.document;
  model.receive(commit(4, [add("b")], edit));
  expect(session.document).toBe(before);
  expect(version()).toBe(4);
  expect(session.store.get().sync?.pending).toEqual([]);
});

test("an edit by somebody else goes below the pending ones", () => {
  session.edit([add("b")], "");
  model.receive(commit(4, [add("c")]));
  expect(shown()).toEqual(["a", "c", "b"]);
  model.receive(commit(5, [add("b")], model.sent[0]));
  expect(shown()).toEqual(["a", "c", "b"]);
});

test("a refused edit is taken back, with the reason", () => {
  session.edit([add("b")], "");
  session.edit([add("c")], "");
  const { id, client } = model.sent[0] as Request;
  model.receive({ message: "rejected", id, client, version: 3, error: "No b here.", diagnostics: [] });
  expect(shown()).toEqual(["a", "c"]);
  expect(session.store.get().notices.map((notice) => notice.text)).toEqual(["No b here."]);
  vi.advanceTimersByTime(8_000);
  expect(session.store.get().notices).toEqual([]);
});

test("an edit that cannot fit is not even sent", () => {
  expect(session.edit([add("a")], "")).toBe(false);
  expect(model.sent).toEqual([]);
  expect(session.store.get().notices[0]?.text).toContain("already a node a");
});

test("a pending edit that no longer fits is hidden until Python answers", () => {
  session.edit([{ op: "moveNode", name: "a", position: [1, 2] }], "");
  model.receive(commit(4, [{ op: "removeNode", name: "a" }]));
  expect(shown()).toEqual([]);
});

test("a gap in the versions asks for everything, and keeps what was edited since", () => {
  session.edit([add("early")], "");
  model.receive(commit(6, [add("z")]));
  const sync = model.sent.at(-1) as Request;
  expect(sync.message).toBe("sync");
  session.edit([add("late")], "");
  model.receive(snapshot(7, ["a", "early", "y", "z"], sync.id, sync.client));
  expect(shown()).toEqual(["a", "early", "y", "z", "late"]);
  expect(version()).toBe(7);
});

test("a page says which version it has, and is not sent that once more", () => {
  const before = session.document;
  const derived = { ...snapshot(3, []).derived, costs: { a: { parameters: 7 } as never } };
  session.sync();
  const { id, client, ...sync } = model.sent.at(-1) as Sync;
  expect(sync).toEqual({ message: "sync", version: 3 });
  session.edit([add("late")], "");
  model.receive({ ...snapshot(3, [], id, client), document: null, derived });
  expect(shown()).toEqual(["a", "late"]);
  expect(session.store.get().sync?.confirmed).toBe(before);
  expect(session.store.get().derived.costs.get("a")?.parameters).toBe(7);
  vi.advanceTimersByTime(2_000);
  expect(session.store.get().connection).toBe("ready");
});

test("what another page has and this one lacks is not taken for its own", () => {
  const derived = { ...snapshot(3, []).derived, costs: { a: { parameters: 7 } as never } };
  model.receive({ ...snapshot(5, [], 1, "another"), document: null, derived });
  expect([version(), shown(), session.store.get().derived.costs.size]).toEqual([3, ["a"], 0]);
  const opening = new FakeModel();
  const fresh = new Session(opening);
  expect(opening.sent[0]).toMatchObject({ message: "sync", version: null });
  opening.receive({ ...snapshot(5, [], 1, "another"), document: null });
  expect(fresh.store.get().sync).toBeNull();
  fresh.dispose();
});

test("an edit that was lost before the page was connected again is asked for, of the same version", () => {
  session.edit([add("lost")], "Add lost");
  session.sync();
  const { id, client } = model.sent.at(-1) as Sync;
  model.receive({ ...snapshot(3, [], id, client), document: null });
  expect(model.sent.at(-1)).toMatchObject({ message: "edit", ops: [add("lost")], base: 3 });
});

test("an edit that was lost on its way is asked for again when Python answers a later one", () => {
  session.edit([add("lost")], "Add lost");
  session.edit([{ op: "moveNode", name: "a", position: [1, 2] }], "");
  const [, move] = model.sent as [Request, Request];
  model.receive(commit(4, [{ op: "moveNode", name: "a", position: [1, 2] }], move));
  const sync = model.sent.at(-1) as Request;
  expect(sync.message).toBe("sync");
  model.receive(snapshot(4, ["a"], sync.id, sync.client));
  expect(model.sent.at(-1)).toMatchObject({ message: "edit", ops: [add("lost")], label: "Add lost", base: 4 });
  expect(shown()).toEqual(["a", "lost"]);
  model.receive(commit(5, [add("lost")], model.sent.at(-1)));
  expect(shown()).toEqual(["a", "lost"]);
  vi.advanceTimersByTime(20_000);
  expect(session.store.get().connection).toBe("ready");
});

test("an edit that is lost twice is taken back with a notice", () => {
  session.edit([add("lost")], "Add lost");
  for (const attempt of [1, 2]) {
    session.sync();
    const sync = model.sent.at(-1) as Request;
    model.receive(snapshot(3 + attempt, ["a"], sync.id, sync.client));
  }
  expect(shown()).toEqual(["a"]);
  expect(session.store.get().notices.map((notice) => notice.text)).toEqual([
    "“Add lost” did not reach Python and was taken back.",
  ]);
});

const answerSync = (number: number, names: string[]) => {
  session.sync();
  const sync = model.sent.at(-1) as Request;
  model.sent.length = 0;
  model.receive(snapshot(number, names, sync.id, sync.client));
};
const notices = () => session.store.get().notices.map((notice) => notice.text);

test("commands that were lost on their way are asked for again, in their place among the lost edits", () => {
  session.undo();
  session.edit([add("b")], "Add b");
  session.group(["a"], "");
  session.redo();
  answerSync(3, ["a"]);
  expect(model.sent.map(({ message }) => message)).toEqual(["undo", "edit", "group", "redo"]);
  expect(model.sent[2]).toMatchObject({ nodes: ["a"], graph: "" });
  expect(notices()).toEqual([]);
});

test("a command that was answered is not asked for again", () => {
  session.undo();
  model.receive(commit(4, [{ op: "removeNode", name: "a" }], model.sent[0]));
  session.arrange({ graph: "", direction: "down" });
  const { id, client } = model.sent[1] as Request;
  model.receive({ message: "rejected", id, client, version: 4, error: "No.", diagnostics: [] });
  answerSync(4, []);
  expect(model.sent).toEqual([]);
});

test("a command that is lost twice is given up with a notice", () => {
  session.ungroup("a", "");
  answerSync(3, ["a"]);
  answerSync(3, ["a"]);
  expect(model.sent).toEqual([]);
  expect(notices()).toEqual(["“Ungroup a” did not reach Python."]);
});

test("a lost command is not asked of a document that has changed since: it may have been carried out", () => {
  session.undo();
  answerSync(4, []);
  expect(model.sent).toEqual([]);
  expect(notices()).toEqual([
    "“Undo” may not have reached Python, and the graph has changed since: ask again if it has not.",
  ]);
});

test("after a long silence Python is asked what has become of the document, once", () => {
  session.edit([add("b")], "");
  vi.advanceTimersByTime(60_000);
  expect(model.sent.map(({ message }) => message)).toEqual(["edit", "sync"]);
});

test("a source that was asked for and lost is refused", async () => {
  const source = session.source();
  session.sync();
  const sync = model.sent.at(-1) as Request;
  model.receive(snapshot(3, ["a"], sync.id, sync.client));
  await expect(source).rejects.toThrow("ask again");
});

test("what is too large for the connection is refused with its size, and nothing is sent", () => {
  const large = "ä".repeat(LARGEST_MESSAGE / 2);
  expect(session.edit([{ op: "renameGraph", name: large } as never], "")).toBe(false);
  session.loadBlocks(large);
  expect(model.sent).toEqual([]);
  expect(session.store.get().notices.map((notice) => notice.text)).toEqual([
    "This change is too large: 8 MiB, and at most 8 MiB can be sent. Make it in smaller steps, or from Python.",
    "This file is too large: 8 MiB, and at most 8 MiB can be sent. Make it in smaller steps, or from Python.",
  ]);
  expect(shown()).toEqual(["a"]);
});

test("a commit that is older than the snapshot changes nothing", () => {
  model.receive(commit(2, [add("old")]));
  expect(shown()).toEqual(["a"]);
});

test("a silent kernel is reported after three and fifteen seconds", () => {
  session.edit([add("b")], "");
  expect(session.store.get().connection).toBe("ready");
  vi.advanceTimersByTime(3_000);
  expect(session.store.get().connection).toBe("waiting");
  vi.advanceTimersByTime(12_000);
  expect(session.store.get().connection).toBe("offline");
  model.receive(commit(4, [add("b")], model.sent[0]));
  expect(session.store.get().connection).toBe("ready");
});

test("a kernel that is only busy is waited for, as long as it says that it lives", async () => {
  let alive = true;
  const requestListSubshell = () => ({ done: alive ? Promise.resolve({}) : new Promise(() => {}) });
  model = new FakeModel();
  Object.assign(model, { widget_manager: { kernel: { supportsSubshells: true, requestListSubshell } } });
  const other = new Session(model);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(other.store.get().connection).toBe("waiting");
  alive = false;
  await vi.advanceTimersByTimeAsync(21_000);
  expect(other.store.get().connection).toBe("offline");
  other.dispose();
});

test("a kernel that the host says was restarted is reported as soon as it does not answer", () => {
  model.emit("comm_live_update");
  expect(session.store.get().connection).toBe("ready");
  vi.advanceTimersByTime(GONE_AFTER);
  expect(session.store.get().connection).toBe("gone");
  model.receive(snapshot(5, ["a"], 2, session.client));
  expect(session.store.get().connection).toBe("ready");
});

test("a connection that comes back is used to ask what was missed", () => {
  type Slot = (sender: unknown, status: string) => void;
  const slots = new Set<Slot>();
  const tell = (status: string) => {
    for (const slot of slots) slot(null, status);
  };
  const signal = { connect: (slot: Slot) => slots.add(slot), disconnect: (slot: Slot) => slots.delete(slot) };
  model = new FakeModel();
  Object.assign(model, { widget_manager: { kernel: { connectionStatusChanged: signal } } });
  const other = new Session(model);
  model.sent.length = 0;
  tell("connecting");
  expect(model.sent).toEqual([]);
  tell("connected");
  expect(model.sent.map(({ message }) => message)).toEqual(["sync"]);
  other.dispose();
  expect(slots.size).toBe(0);
});

test("a kernel that answers after such a hint is not reported", () => {
  model.emit("comm_live_update");
  model.receive(snapshot(5, ["a"], 2, session.client));
  vi.advanceTimersByTime(GONE_AFTER);
  expect(session.store.get().connection).toBe("ready");
});

test.each([null, 7, "text", [], {}, { message: "nonsense" }, { message: "committed" }, { message: "derivedChanged" }])(
  "a message that makes no sense (%j) changes nothing",
  (nonsense) => {
    model.receive(nonsense as unknown as Event);
    expect(shown()).toEqual(["a"]);
    model.receive(commit(4, [add("b")]));
    expect(shown()).toEqual(["a", "b"]);
  },
);

test("the source is promised, or refused with Python's reason", async () => {
  const source = session.source();
  const asked = model.sent[0] as Request;
  const answer = {
    message: "source",
    id: asked.id,
    client: asked.client,
    text: "class Net",
    classes: {},
    error: "",
  } as const;
  model.receive(answer);
  await expect(source).resolves.toEqual(answer);
  const refused = session.source();
  const again = model.sent[1] as Request;
  model.receive({
    message: "rejected",
    id: again.id,
    client: again.client,
    version: 3,
    error: "Errors.",
    diagnostics: [],
  });
  await expect(refused).rejects.toThrow("Errors.");
});

test("a read-only session refuses to edit", () => {
  model.traits.set("read_only", true);
  session.dispose();
  session = new Session(model);
  model.sent.length = 0;
  expect(session.edit([add("b")], "")).toBe(false);
  session.undo();
  expect(model.sent).toEqual([]);
  expect(session.store.get().notices[0]?.text).toContain("read-only");
});

test("a closed session listens to nothing", () => {
  session.dispose();
  expect(model.listening).toBe(0);
});

test("what is worked out in pieces is shown once, when all of it is there", () => {
  const states: number[] = [];
  model.receive(snapshot(1, ["a", "b"]));
  session.store.subscribe(() => states.push(session.store.get().derived.shapes.size));
  const rest = { resolved: {}, diagnostics: {}, costs: {}, example: null };
  const piece = (port: string, more: boolean): Event => ({
    message: "derivedChanged",
    version: 1,
    derived: { ...rest, shapes: { [port]: { shape: [1], dtype: "float32" } } },
    more,
  });
  model.receive(piece("a.output", true));
  expect(states).toEqual([]);
  model.receive(piece("b.output", false));
  expect(states).toEqual([2]);
});
