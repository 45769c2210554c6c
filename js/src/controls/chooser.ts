// The heading of the histogram: which layer it shows, and of which step.
import { element, keepKeys, setText } from "./dom";
import { Requests } from "./requests";
import { silencePanel } from "./silence";
import type { Model } from "./types";

export function renderChooser({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const select = element("select", { "aria-label": "Layer of the histogram" });
  const caption = element("span", { class: "pnne-caption" });
  const silence = silencePanel(model);
  const heading = element("div", { class: "pnne-heading" }, element("strong", {}, "Histogram of"), select, caption);
  const root = element("div", { class: "pnne-chooser", "data-testid": "pnne-layer-chooser" }, heading, silence.root);
  keepKeys(root);
  el.append(root);

  const requests = new Requests(model, {
    onError: (message) => setText(caption, message),
    onSilence: silence.show,
    onAnswer: silence.hide,
  });
  select.addEventListener("change", () => requests.send({ kind: "choose", layer: select.value }));

  const drawLayers = () => {
    const layers = model.get("layers") as string[];
    select.replaceChildren(...layers.map((layer) => element("option", { value: layer }, layer)));
    select.hidden = layers.length === 0;
    drawLayer();
  };
  const drawLayer = () => {
    select.value = model.get("layer") as string;
  };
  const drawCaption = () => setText(caption, model.get("caption") as string);
  model.on("change:layers", drawLayers);
  model.on("change:layer", drawLayer);
  model.on("change:caption", drawCaption);
  drawLayers();
  drawCaption();
  return () => {
    model.off("change:layers", drawLayers);
    model.off("change:layer", drawLayer);
    model.off("change:caption", drawCaption);
    requests.close();
    root.remove();
  };
}
