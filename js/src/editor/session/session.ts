import type {
  Arrange,
  Consequence,
  ControlTraining,
  Derived,
  Diagnostic,
  Event,
  ExportCheck,
  ExportFormats,
  ExportState,
  Op,
  Request,
  SeenTensor,
  Snapshot,
  Source,
  StartTraining,
  Steps,
  TrainChoices,
  TrainState,
} from "../../protocol";
import { fromState, type GraphDocument } from "../document/document";
import { Refusal } from "../document/reduce";
import { bytesText } from "../values/amounts";
import { cachedCatalog, type LoadedCatalog, loadCatalog, withType } from "./catalog";
import { applyDerived, type DerivedState, NOTHING_DERIVED } from "./derived";
import { heartbeat, watchKernel } from "./kernel";
import { type Lens, withBlocks } from "./marks";
import type { Model } from "./model";
import type { Notice, Offer } from "./notices";
import { Store } from "./store";
import { changes, committed, edited, fromSnapshot, type PendingEdit, type SyncState, without } from "./sync";
import { type LiveTraining, liveTraining, picturesOf } from "./training";
import { type Command, Timers, type Unaddressed, Waiting } from "./waiting";

/** How long Python may take before the editor says so, in milliseconds. */
const WAITING_AFTER = 3_000;
const OFFLINE_AFTER = 15_000;
/** The same once the host has hinted that the kernel has gone. */
export const GONE_AFTER = 1_200;
/** How long after the kernel has said that it lives it is asked again, while a request is waiting. */
const BEAT_AFTER = 5_000;
/** A timer may fire a little before its time. */
const SLACK = 50;
const NOTICE_LASTS = 7_000;
/** Bytes of one message: at 10 MiB, a Jupyter server closes the connection, and the message is lost. */
export const LARGEST_MESSAGE = 8 << 20;

/** `gone`: the kernel that holds the document has ended, and the cell must be run again. */
export type Connection = "ready" | "waiting" | "offline" | "gone";

export interface SessionState {
  readonly sync: SyncState | null;
  readonly derived: DerivedState;
  readonly catalog: LoadedCatalog | null;
  readonly connection: Connection;
  /** Whether Python has said what the document is now; what the page was opened with may be older. */
  readonly current: boolean;
  /** The blocks that this person has made: the Subgraph nodes of the outermost graph. */
  readonly blocks: GraphDocument;
  readonly readOnly: boolean;
  /** What badges say while an import is being proved; empty once it is. */
  readonly unproved: string;
  /** The id of a widget that is shown beside a selected node, or nothing, and whether it is shown now. */
  readonly look: string;
  readonly asking: boolean;
  readonly training: LiveTraining | null;
  /** What nodes give, as the address of a picture, by path; the set of these paths stays the same while they do. */
  readonly pictures: Readonly<Record<string, string>>;
  readonly pictured: ReadonlySet<string>;
  /** What Python marks nodes with, by path. */
  readonly marks: Lens;
  readonly exporting: ExportState | null;
  readonly exportCheck: ExportCheck | null;
  readonly notices: readonly Notice[];
  /** What Python did last for this page that was no edit of its own: undo, arrange, group …; new with every one. */
  readonly done: { readonly label: string; readonly ops: readonly Op[] } | null;
}

function traitsOf(model: Model): Pick<SessionState, "readOnly" | "unproved" | "look" | "asking"> {
  const [unproved, look] = [String(model.get("unproved") ?? ""), String(model.get("look") ?? "")];
  return {
    readOnly: model.get("read_only") === true,
    unproved,
    look,
    asking: look !== "" && model.get("asking") === true,
  };
}

const NO_BLOCKS: GraphDocument = { name: "blocks", graphs: new Map() };

/** One editor model's conversation with its `NodeGraph`; all views of the model in this page share it. */
export class Session {
  readonly store: Store<SessionState>;
  readonly client = crypto.getRandomValues(new Uint32Array(2)).join("-");
  private lastId = 0;
  private noticeId = 0;
  private readonly waiting = new Waiting();
  private lastSync = 0;
  private readonly commands = new Map<number, Command>();
  private readonly questions = new Map<number, { resolve: (answer: Event) => void; reject: (error: Error) => void }>();
  private readonly previews = new Map<number, (found: Consequence) => void>();
  private readonly timers = new Timers();
  private readonly closing = new AbortController();
  private gone = false;
  private heard = 0;
  /** When the kernel said that it lives. */
  private beat = 0;
  private listening = false;
  /** What Python has worked out of a change so far, while more of it is to come. */
  private readonly pieces: Derived[] = [];

  constructor(readonly model: Model) {
    const catalog = cachedCatalog(model.get("catalog_key"));
    this.store = new Store<SessionState>({
      sync: null,
      derived: NOTHING_DERIVED,
      catalog,
      connection: "ready",
      current: false,
      blocks: NO_BLOCKS,
      ...traitsOf(model),
      training: null,
      pictures: {},
      pictured: new Set(),
      marks: new Map(),
      exporting: null,
      exportCheck: null,
      notices: [],
      done: null,
    });
    const receive = (content: unknown) => this.receive(content as Event);
    const reopen = () => this.open(model.get("snapshot") as Snapshot | null);
    const tell = () => this.patch(traitsOf(model));
    const listeners = {
      "msg:custom": receive,
      "change:snapshot": reopen,
      "change:read_only": tell,
      "change:unproved": tell,
      "change:look": tell,
      "change:asking": tell,
    };
    for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
    const unwatch = watchKernel(
      model,
      () => this.doubt(),
      () => this.sync(),
    );
    this.closing.signal.addEventListener("abort", () => {
      for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
      unwatch();
    });
    reopen();
    // The trait is as old as the model's state in this page, and messages sent while this module was loading are
    // lost: what happened since is asked for.
    this.sync();
    if (!catalog) this.request({ message: "getCatalog" });
  }

  dispose(): void {
    this.closing.abort();
    this.timers.end();
    for (const waiting of this.questions.values()) waiting.reject(new Error("The editor was closed."));
  }

  get document(): GraphDocument | null {
    return this.store.get().sync?.shown ?? null;
  }

  /** Applies a change at once and asks Python for it; returns whether it was shown. */
  edit(ops: readonly Op[], label: string, repeated = false): boolean {
    const { sync } = this.store.get();
    if (!sync || ops.length === 0 || this.isLocked()) return false;
    this.withdrawOffers();
    const id = this.lastId + 1;
    if (!this.canSend(ops, "This change")) return false;
    try {
      this.patch({ sync: edited(sync, { id, ops, label, repeated }) });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.notify(error.message);
      return false;
    }
    this.request({ message: "edit", base: sync.version, ops: [...ops], label });
    return true;
  }

  undo(): void {
    this.command({ message: "undo" }, `Undo ${this.store.get().sync?.history.undo ?? ""}`.trim());
  }

  redo(): void {
    this.command({ message: "redo" }, `Redo ${this.store.get().sync?.history.redo ?? ""}`.trim());
  }

  arrange(how: Omit<Arrange, "message" | "id" | "client">): void {
    this.command({ message: "arrange", ...how }, "Arrange");
  }

  group(nodes: readonly string[], graph: string): void {
    const what = nodes.length === 1 ? nodes[0] : `${nodes.length} nodes`;
    this.command({ message: "group", nodes, graph }, `Group ${what}`);
  }

  ungroup(node: string, graph: string): void {
    this.command({ message: "ungroup", node, graph }, `Ungroup ${node}`);
  }

  /** What an edge between two ports, given by their full paths, would do; there may never be an answer. */
  preview(source: string, target: string): Promise<Consequence> {
    return new Promise((resolve) => {
      // Answers to earlier questions are out of date.
      this.previews.clear();
      this.previews.set(this.tell({ message: "getPreview", source, target }), resolve);
    });
  }

  /** What a port, given by its full path, gives for one example; rejects with Python's reason. A run may take long. */
  runToHere(port: string): Promise<SeenTensor> {
    return this.answer(this.tell({ message: "runToHere", port })) as Promise<SeenTensor>;
  }

  /** What can be taken back and brought back, in the order in which it was done; rejects with Python's reason. */
  steps(): Promise<Steps> {
    return this.ask({ message: "getSteps" }) as Promise<Steps>;
  }

  /** Says that a picture of a training is on the screen, so that the next may come. */
  painted(tick: number): void {
    this.tell({ message: "painted", tick });
  }

  hideTraining(): void {
    this.tell({ message: "hideTraining" });
  }

  /** Offers what a Subgraph node shows, named by its full path, in every palette. */
  publish(node: string, name: string): void {
    this.request({ message: "publish", node, name });
  }

  unpublish(name: string): void {
    this.request({ message: "unpublish", name });
  }

  loadBlocks(text: string): void {
    if (this.canSend(text, "This file")) this.request({ message: "loadBlocks", text });
  }

  sync(): void {
    this.lastSync = this.request({ message: "sync", version: this.store.get().sync?.version ?? null });
  }

  /** The generated source; rejects with Python's reason. */
  source(): Promise<Source> {
    return this.ask({ message: "getSource" }) as Promise<Source>;
  }

  /** What the graph can be trained on; rejects with Python's reason. */
  trainChoices(): Promise<TrainChoices> {
    return this.ask({ message: "getTrainChoices" }) as Promise<TrainChoices>;
  }

  /** Starts a training, pauses or stops it, or looks how far it is; rejects with Python's reason. */
  train(request: Unaddressed<StartTraining | ControlTraining>): Promise<TrainState> {
    return this.ask(request) as Promise<TrainState>;
  }

  /** What can be exported to; rejects with Python's reason. */
  exportFormats(): Promise<ExportFormats> {
    return this.ask({ message: "getExportFormats" }) as Promise<ExportFormats>;
  }

  /** Begins an export, which `exporting` then follows; rejects with Python's reason. */
  startExport(format: string, path: string, overwrite: boolean): Promise<Event> {
    return this.ask({ message: "startExport", format, path, overwrite });
  }

  cancelExport(): void {
    this.request({ message: "cancelExport" });
  }

  /** Has every version of the graph checked for a format; none of them any more if it is empty. */
  watchExport(format: string): void {
    this.request({ message: "watchExport", format });
  }

  notify(text: string, diagnostics: readonly Diagnostic[] = [], offer: Offer | null = null): void {
    this.noticeId += 1;
    const notice = { id: this.noticeId, text, diagnostics, offer };
    // The same words again take the place of the first: a pile of them only covers the canvas.
    const others = this.store.get().notices.filter((other) => other.text !== text);
    this.patch({ notices: [...others.slice(-2), notice] });
    this.timers.later(NOTICE_LASTS, () => this.dismiss(notice.id));
  }

  dismiss(id: number): void {
    this.patch({ notices: this.store.get().notices.filter((notice) => notice.id !== id) });
  }

  private ask(request: Unaddressed<Request>): Promise<Event> {
    return this.answer(this.request(request));
  }

  private answer(id: number): Promise<Event> {
    return new Promise((resolve, reject) => this.questions.set(id, { resolve, reject }));
  }

  /** Withdraws offers for an earlier graph: after Undo, a repair would change a graph without the fault. */
  private withdrawOffers(): void {
    const { notices } = this.store.get();
    if (notices.some(({ offer }) => offer)) this.patch({ notices: notices.filter(({ offer }) => !offer) });
  }

  private command(request: Command["request"], label: string, repeated = false): void {
    if (this.isLocked()) return;
    this.withdrawOffers();
    const { sync } = this.store.get();
    const base = sync ? sync.version + sync.pending.length : 0;
    this.commands.set(this.request(request), { request, label, base, repeated });
  }

  private request(request: Unaddressed<Request>): number {
    const id = this.tell(request);
    this.waiting.add(id, Date.now());
    for (const delay of [WAITING_AFTER, OFFLINE_AFTER]) this.timers.later(delay, () => this.watch());
    return id;
  }

  /** Sends what has no answer, or none that is waited for; returns its id. */
  private tell(request: Unaddressed<Request>): number {
    this.lastId += 1;
    this.model.send({ ...request, id: this.lastId, client: this.client });
    return this.lastId;
  }

  /** Handles a message of Python; an unreadable one changes nothing and is requested again. */
  receive(event: Event): void {
    this.heard += 1;
    this.gone = false;
    try {
      this.take(event);
    } catch (error) {
      console.debug("The editor could not read a message.", error);
      this.notify(`A message from Python could not be read: ${error instanceof Error ? error.message : String(error)}`);
      if (event?.message !== "snapshot") this.sync();
    }
    this.watch();
  }

  private take(event: Event): void {
    const own = "client" in event && event.client === this.client;
    if (own && typeof event.id === "number") this.answered(event.id);
    const state = this.store.get();
    switch (event.message) {
      case "committed": {
        if (!state.sync) break;
        if (!own) this.withdrawOffers();
        const sync = committed(state.sync, event, own);
        if (sync) this.patch({ sync });
        else this.sync();
        if (own && !state.sync.pending.some((edit) => edit.id === event.id))
          this.patch({ done: { label: event.label, ops: event.ops } });
        break;
      }
      case "rejected":
        if (own) this.refused(event.id, event.error, event.diagnostics ?? []);
        break;
      case "derivedChanged":
        this.pieces.push(event.derived);
        // The graph is drawn once for all pieces of a change.
        if (!event.more) this.patch({ derived: this.pieces.splice(0).reduce(applyDerived, state.derived) });
        break;
      case "snapshot":
        this.open(event);
        break;
      case "catalog":
        this.patch({ catalog: loadCatalog(event) });
        break;
      case "nodeTypeAdded":
        this.patch({ catalog: withType(state.catalog, event.type) });
        break;
      case "training":
        this.patch({ training: liveTraining(event, state.training), ...picturesOf(event, state.pictured) });
        break;
      case "marks":
        this.patch({ marks: withBlocks(new Map(Object.entries(event.marks ?? {}))) });
        break;
      case "blocks":
        this.patch({ blocks: fromState(event.document) });
        break;
      case "preview":
        if (own) this.previews.get(event.id)?.(event.consequence);
        break;
      case "exportState":
        this.patch({ exporting: event });
        break;
      case "exportCheck":
        this.patch({ exportCheck: event });
        break;
    }
    if (own && typeof event.id === "number") {
      this.questions.get(event.id)?.resolve(event);
      this.questions.delete(event.id);
    }
  }

  private open(snapshot: Snapshot | null): void {
    const { sync } = this.store.get();
    if (!snapshot || (sync && snapshot.version < sync.version && snapshot.id == null)) return;
    const settled = snapshot.client === this.client && snapshot.id != null ? snapshot.id : -1;
    const opened = fromSnapshot(snapshot, sync, settled);
    if (!opened) return;
    this.pieces.length = 0; // the snapshot has them
    const lost: { id: number; repeat: () => void }[] = (sync?.pending ?? [])
      .filter((edit) => edit.id < settled)
      .map((edit) => ({ id: edit.id, repeat: () => this.repeat(edit) }));
    for (const id of this.waiting.giveUp(settled)) {
      this.questions.get(id)?.reject(new Error("The question was lost on its way to Python; ask again."));
      this.questions.delete(id);
      const command = this.commands.get(id);
      this.commands.delete(id);
      if (command) lost.push({ id, repeat: () => this.repeatCommand(command, snapshot.version) });
    }
    this.patch({
      current: this.store.get().current || settled >= 0,
      sync: opened,
      derived: applyDerived(NOTHING_DERIVED, snapshot.derived),
    });
    for (const { repeat } of lost.sort((a, b) => a.id - b.id)) repeat();
  }

  /** Python has answered a request: those that were sent earlier and have no answer will get none. */
  private answered(id: number): void {
    const lost = this.waiting.answered(id);
    this.commands.delete(id);
    const asked = this.lastSync > id && this.waiting.has(this.lastSync);
    if (lost && id !== this.lastSync && !asked) this.sync();
  }

  /** Asks once more for an edit that was lost on its way, as far as the document lacks it. */
  private repeat({ ops, label, repeated }: PendingEdit): void {
    const { sync } = this.store.get();
    if (!sync || !changes(sync.shown, ops)) return;
    if (repeated) this.notify(`“${label}” did not reach Python and was taken back.`);
    else this.edit(ops, label, true);
  }

  /** The same for a command, unless the document is not the one any more that it was meant for. */
  private repeatCommand({ request, label, base, repeated }: Command, version: number): void {
    if (repeated) this.notify(`“${label}” did not reach Python.`);
    else if (version <= base) this.command(request, label, true);
    else
      this.notify(`“${label}” may not have reached Python, and the graph has changed since: ask again if it has not.`);
  }

  /** Whether a message can hold this; says so if not. */
  private canSend(content: unknown, what: string): boolean {
    const size = new TextEncoder().encode(JSON.stringify(content)).length;
    if (size <= LARGEST_MESSAGE) return true;
    const sizes = `${bytesText(size)}, and at most ${bytesText(LARGEST_MESSAGE)} can be sent`;
    this.notify(`${what} is too large: ${sizes}. Make it in smaller steps, or from Python.`);
    return false;
  }

  private refused(id: number | null, error: string, diagnostics: readonly Diagnostic[]): void {
    const waiting = this.questions.get(id ?? -1);
    if (waiting) {
      waiting.reject(new Error(error));
      this.questions.delete(id ?? -1);
      return;
    }
    const { sync } = this.store.get();
    if (sync) this.patch({ sync: without(sync, id) });
    this.notify(error, diagnostics);
  }

  /** Whether edits are refused; says so if they are. */
  isLocked(): boolean {
    if (this.store.get().readOnly) this.notify("This editor is read-only.");
    return this.store.get().readOnly;
  }

  /** The kernel may have gone: unless it answers soon, it has. */
  private doubt(): void {
    const heard = this.heard;
    this.sync();
    this.timers.later(GONE_AFTER, () => {
      this.gone = this.heard === heard;
      this.watch();
    });
  }

  /** Says how long the oldest request has been waiting; a kernel that only is busy says so of itself. */
  private watch(): void {
    const now = Date.now();
    const waited = now - this.waiting.oldest();
    const unheard = Math.min(waited, now - this.beat);
    const silence = waited < WAITING_AFTER - SLACK ? "ready" : unheard < OFFLINE_AFTER - SLACK ? "waiting" : "offline";
    this.patch({ connection: this.gone ? "gone" : silence });
    if (silence !== "ready" && now - this.beat >= BEAT_AFTER - SLACK) this.listen();
    // The answer to another request shows whether this one was lost or is only waiting.
    if (waited >= OFFLINE_AFTER - SLACK && !this.waiting.has(this.lastSync)) this.sync();
  }

  private listen(): void {
    if (this.listening) return;
    this.listening = true;
    void heartbeat(this.model).then((alive) => {
      this.listening = false;
      if (!alive || this.closing.signal.aborted) return;
      this.beat = Date.now();
      for (const delay of [BEAT_AFTER, OFFLINE_AFTER]) this.timers.later(delay, () => this.watch());
      this.watch();
    });
  }

  private patch(change: Partial<SessionState>): void {
    const state = this.store.get();
    const changed = Object.entries(change).some(([key, value]) => state[key as keyof SessionState] !== value);
    if (changed) this.store.set({ ...state, ...change });
  }
}
