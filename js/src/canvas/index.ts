// Shows widgets of any kind as one anywidget, where a page can load no others. Python says what each of them shows.
import { element } from "../controls/dom";
import { pageTheme } from "../explorer/theme";
import "./canvas.css";
import { type View, Views } from "./views";

type Heard = { kind: "views"; views: Record<string, View> } | { kind: "said"; model: string; content: unknown };

interface Host {
  get(name: "root"): string;
  send(content: object, callbacks?: undefined, buffers?: ArrayBuffer[]): void;
  on(event: "msg:custom", listener: (content: Heard, buffers: DataView[]) => void): void;
  off(event: "msg:custom", listener: (content: Heard, buffers: DataView[]) => void): void;
}

function render({ model, el }: { model: Host; el: HTMLElement }): () => void {
  const root = element("div", { class: "pnne-canvas" });
  if (document.body.dataset.jpThemeLight === undefined) root.dataset.jpThemeLight = String(pageTheme() === "light");
  el.append(root);
  const views = new Views(root, (id, data, buffers) =>
    model.send({ kind: "say", model: id, data }, undefined, buffers),
  );
  const hear = (content: Heard, buffers: DataView[]) => {
    if (content.kind === "views") views.take(content.views, buffers, model.get("root"));
    else views.said(content.model, content.content, buffers);
  };
  model.on("msg:custom", hear);
  model.send({ kind: "hello" });
  return () => {
    model.off("msg:custom", hear);
    views.end(model.get("root"));
    root.remove();
  };
}

export default { render };
