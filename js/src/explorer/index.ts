// The explorer's part in the page: keys and a screen reader for a graph that is painted on a canvas, the page's theme,
// and a graph that fits its place.
import type { AskMessage, DropMessage, MoveMessage, PageTheme } from "../protocol";
import { listenToDrops } from "./drop";
import { fitGraph } from "./fit";
import { listenToKeys } from "./keys";
import { pageTheme } from "./theme";

/** The part of anywidget's model that is used here. */
interface Model {
  get(name: "theme" | "told"): unknown;
  set(name: "theme", value: PageTheme): void;
  save_changes(): void;
  on(event: "change:told" | "msg:custom", listener: () => void): void;
  off(event: "change:told" | "msg:custom", listener: () => void): void;
  send(message: AskMessage | DropMessage | MoveMessage, callbacks?: undefined, buffers?: ArrayBuffer[]): void;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const ended = new AbortController();
  const said = document.createElement("div");
  said.setAttribute("role", "status");
  said.className = "pnne-unseen";
  el.append(said);
  const say = () => {
    said.textContent = String(model.get("told"));
  };
  const tell = () => {
    const theme = pageTheme();
    if (model.get("theme") === theme) return;
    model.set("theme", theme);
    model.save_changes();
  };
  const themes = new MutationObserver(tell);
  themes.observe(document.body, { attributes: true });
  model.on("change:told", say);
  // An example was opened from a table elsewhere in the page.
  const show = () => el.closest(".pnne-explorer")?.scrollIntoView({ block: "nearest" });
  model.on("msg:custom", show);
  say();
  // This widget is rendered before its parents are in the page.
  const frame = requestAnimationFrame(() => {
    const root = el.closest<HTMLElement>(".pnne-explorer");
    const place = root?.querySelector<HTMLElement>(".pnne-explorer-graph");
    tell();
    if (!root) return;
    root.dataset.testid = place ? "pnne-explorer" : "pnne-look"; // what an editor shows has no map
    // JupyterLab would take the keys of a list or a button for its own: an arrow goes to the next cell, x cuts it.
    const keep = ({ target }: Event) => (target as HTMLElement).setAttribute("data-lm-suppress-shortcuts", "true");
    root.addEventListener("focusin", keep, { signal: ended.signal });
    const strip = root.querySelector<HTMLElement>(".pnne-strip");
    if (strip)
      listenToDrops(strip, (name, content) => model.send({ kind: "drop", name }, undefined, content), ended.signal);
    if (place) fitGraph(place, ended.signal);
    // What ipywidgets cannot name: a panel that scrolls, and the handle of the slider.
    const panel = root.querySelector<HTMLElement>(".pnne-explorer-panel");
    panel?.setAttribute("role", "region");
    panel?.setAttribute("aria-label", "Answer");
    panel?.setAttribute("tabindex", "0");
    root.querySelector(".noUi-handle")?.setAttribute("aria-label", "Weights");
    const search = () => root.querySelector<HTMLElement>("input[type=text]")?.focus();
    // Numbers of the panel, and cells of tables that are outputs of other cells.
    const ask = (event: Event) => {
      // Inside the shadow tree of a host, such as marimo's, where the event's target is the tree as a whole.
      const pressed = (event.composedPath()[0] as HTMLElement).closest<HTMLElement>("[data-pnne-ask]");
      const within = pressed?.closest(".pnne-explorer") ?? root;
      if (pressed?.dataset.pnneAsk && within === root) model.send({ kind: "ask", ask: pressed.dataset.pnneAsk });
    };
    document.addEventListener("click", ask, { signal: ended.signal });
    if (place) listenToKeys(place, (move) => model.send({ kind: "move", move }), search, ended.signal);
  });
  return () => {
    cancelAnimationFrame(frame);
    ended.abort();
    themes.disconnect();
    model.off("change:told", say);
    model.off("msg:custom", show);
  };
}

export default { render };
