// The elements that stand for the widgets of a canvas, by id.
import { element, keepKeys } from "../controls/dom";
import { type FrontEnd, OwnModel, type Say, type State, type Tell } from "./own";

type BoxView = { kind: "box"; children: readonly string[] };
type OwnView = { kind: "own"; state: State };
type HtmlView = { kind: "html"; html: string; value?: unknown; readout?: string; points?: readonly number[] };
type GraphView = { kind: "graph"; html: string };

/** What Python says of one widget: `view_of` of pnne_nb/widgets/host/views.py. */
type Shape = BoxView | OwnView | HtmlView | GraphView;
export type View = Shape & { classes: readonly string[]; style: Record<string, string | null> };

type Control = HTMLInputElement & Pick<HTMLSelectElement, "selectedIndex" | "options">;
type Change = (view: never, buffers: DataView[]) => void;

export class Views {
  private readonly views = new Map<string, { view: View; buffers: DataView[] }>();
  private readonly shown = new Map<string, { node: HTMLElement; change: Change; ended: AbortController }>();
  private readonly models = new Map<string, OwnModel>();

  constructor(
    private readonly root: HTMLElement,
    private readonly say: Say,
  ) {}

  take(views: Record<string, View>, buffers: DataView[], root: string): void {
    for (const [id, view] of Object.entries(views)) this.views.set(id, { view, buffers });
    for (const id of Object.keys(views)) this.change(id);
    if (this.views.has(root)) this.root.append(this.at(root));
  }

  said(id: string, content: unknown, buffers: DataView[]): void {
    this.models.get(id)?.emit("msg:custom", content, buffers);
  }

  end(id: string): void {
    const view = this.views.get(id)?.view;
    if (view?.kind === "box") for (const child of view.children) this.end(child);
    this.shown.get(id)?.ended.abort();
    this.shown.get(id)?.node.remove();
    this.shown.delete(id);
  }

  private at(id: string): HTMLElement {
    const known = this.shown.get(id);
    if (known) return known.node;
    const node = element("div", {});
    const ended = new AbortController();
    const tell: Tell = (data, buffers) => this.say(id, data, buffers);
    const changes = {
      box: () => this.box(node),
      own: ({ state }: OwnView) => this.own(id, node, new OwnModel(tell, state), ended.signal),
      html: () => control(node, tell, this.say),
      graph: () => graph(node, tell),
    };
    const view = this.views.get(id)?.view as View;
    this.shown.set(id, { node, change: changes[view.kind](view as never), ended });
    this.change(id);
    return node;
  }

  private change(id: string): void {
    const shown = this.shown.get(id);
    const now = this.views.get(id);
    if (!shown || !now) return;
    shown.node.className = ["widget", ...now.view.classes].join(" ");
    for (const [name, value] of Object.entries(now.view.style)) shown.node.style.setProperty(name, value ?? "");
    shown.change(now.view as never, now.buffers);
  }

  private box(node: HTMLElement): Change {
    let before: readonly string[] = [];
    return ({ children }: BoxView) => {
      for (const id of before) if (!children.includes(id)) this.end(id);
      before = children;
      const wanted = children.filter((id) => this.views.has(id)).map((id) => this.at(id));
      if (wanted.length !== node.childNodes.length || wanted.some((child, at) => node.childNodes[at] !== child))
        node.replaceChildren(...wanted);
    };
  }

  private own(id: string, el: HTMLElement, model: OwnModel, signal: AbortSignal): Change {
    this.models.set(id, model);
    const text = String(model.get("_css") ?? "");
    if (text && ![...this.root.querySelectorAll("style")].some((style) => style.textContent === text))
      this.root.prepend(element("style", {}, text));
    const address = URL.createObjectURL(new Blob([String(model.get("_esm"))], { type: "text/javascript" }));
    const run = async ({ default: given }: { default: FrontEnd | (() => FrontEnd) }) => {
      const frontEnd = typeof given === "function" ? given() : given;
      const ends = [await frontEnd.initialize?.({ model, el }), await frontEnd.render?.({ model, el })];
      const end = () => ends.forEach((each) => void (typeof each === "function" && each()));
      signal.addEventListener("abort", end);
      if (signal.aborted) end();
    };
    void import(address).then(run).finally(() => URL.revokeObjectURL(address));
    return ({ state }: OwnView) => model.take(state);
  }
}

/** A control as HTML; its value is written into it unless somebody types there. */
function control(node: HTMLElement, tell: Tell, say: Say): Change {
  let shown = "";
  const set = (state: State) => tell({ method: "update", state, buffer_paths: [] });
  const changed = async (event: Event) => {
    const input = event.target as Control;
    if (input.files?.[0]) {
      const [{ name, type, size, lastModified: last_modified }] = input.files as unknown as [File];
      const said = { method: "update", state: { value: [{ name, type, size, last_modified, content: null }] } };
      tell({ ...said, buffer_paths: [["value", 0, "content"]] }, [await input.files[0].arrayBuffer()]);
    } else if (input.dataset.set && event.type === (input.dataset.on ?? "change")) {
      const value = input.type === "text" ? input.value : input.type === "checkbox" ? input.checked : +input.value;
      set({ [input.dataset.set]: input.selectedIndex ?? value });
    }
  };
  for (const event of ["input", "change"]) node.addEventListener(event, changed);
  node.addEventListener("click", ({ target }) => {
    const { index, press } = (target as HTMLElement).closest<HTMLElement>("button")?.dataset ?? {};
    const { dot, model } = (target as HTMLElement).dataset;
    if (dot && model) say(model, { method: "custom", content: { event: "element_clicked", data: { index: +dot } } });
    if (press !== undefined) tell({ method: "custom", content: { event: "click" } });
    if (index !== undefined) set({ index: +index });
  });
  return ({ html, value, readout = "", points = [] }: HtmlView, buffers: DataView[]) => {
    if (html !== shown) {
      const inner = () => [...node.querySelectorAll<HTMLElement>("button, select, input")];
      const held = inner().findIndex((one) => one.matches(":focus"));
      node.innerHTML = html;
      keepKeys(node);
      inner()[held]?.focus();
    }
    shown = html;
    node.querySelectorAll("path[data-path]").forEach((path, at) => {
      path.setAttribute("d", through(buffers[points[at] as number] as DataView));
    });
    const input = node.querySelector<Control>("[data-set]:not([type=file])");
    if (input?.options) input.selectedIndex = (value as number | null) ?? -1;
    else if (input?.type === "checkbox") input.checked = value === true;
    else if (input && !input.matches(":focus")) input.value = String(value);
    node.querySelector("output")?.replaceChildren(readout);
    for (const button of node.querySelectorAll<HTMLElement>("[data-index]"))
      button.setAttribute("aria-pressed", String(button.dataset.index === String(value)));
  };
}

/** A path through points between 0 and 1; one that is not a number is a gap, and one between two gaps a dot. */
function through({ buffer, byteOffset, byteLength }: DataView): string {
  const numbers = new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));
  let path = "";
  let pen = "M";
  for (let i = 0; i < numbers.length; i += 2) {
    const [x = 0, y = 0] = [numbers[i], numbers[i + 1]];
    const there = Number.isFinite(x + y);
    if (there) path += `${pen}${x.toFixed(4)} ${(1 - y).toFixed(4)}${pen === "M" ? "h0" : ""}`;
    pen = there ? "L" : "M";
  }
  return path;
}

/** A graph as SVG, in a tree of its own because of its style sheet. */
function graph(node: HTMLElement, tell: Tell): Change {
  const inside = node.attachShadow({ mode: "open" });
  inside.addEventListener("click", ({ target }) => {
    const key = (target as Element).closest("g")?.querySelector("title")?.textContent;
    if (key) tell({ method: "custom", content: { widget: "node", event: "click", data: { data: { key } } } });
  });
  return ({ html }: GraphView) => {
    inside.innerHTML = `<style>svg{width:100%;height:100%}g{cursor:pointer}</style>${html}`;
  };
}
