// The heading of the histogram: which layer it shows, and of which step.
import { element, keepKeys, listen, setText } from "./dom";
import type { Model } from "./host";
import { Requests } from "./requests";
import { silencePanel } from "./silence";
import { logButton } from "./switch";

export function renderChooser({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const select = element("select", { "aria-label": "Layer of the histogram" });
  const caption = element("span", { class: "pnne-caption" });
  const log = logButton(model, "Logarithmic counts");
  const silence = silencePanel(model);
  const heading = element(
    "div",
    { class: "pnne-heading" },
    element("strong", {}, "Histogram of"),
    select,
    log.button,
    caption,
  );
  const root = element("div", { class: "pnne-chooser", "data-testid": "pnne-layer-chooser" }, heading, silence.root);
  keepKeys(root);
  el.append(root);

  const requests = new Requests(model, {
    onError: (message) => setText(caption, message),
    onSilence: silence.show,
    onAnswer: silence.hide,
  });
  log.asks(requests);
  select.addEventListener("change", () => requests.send({ kind: "choose", layer: select.value }));

  const drawLayers = () => {
    const layers = model.get("layers") as string[];
    select.replaceChildren(...groups(layers));
    select.hidden = layers.length === 0;
    drawLayer();
  };
  const drawLayer = () => {
    select.value = model.get("layer") as string;
  };
  const drawCaption = () => setText(caption, model.get("caption") as string);
  const end = listen(model, {
    "change:layers": drawLayers,
    "change:layer": drawLayer,
    "change:caption": drawCaption,
    "change:log": log.draw,
  });
  drawLayers();
  drawCaption();
  log.draw();
  return () => {
    end();
    requests.close();
    root.remove();
  };
}

/** The choices by quantity: `conv1` means its activations; other quantities are named, as in `conv1 (gradients)`. */
function groups(layers: readonly string[]): HTMLOptGroupElement[] {
  const found = new Map<string, HTMLOptionElement[]>();
  for (const layer of layers) {
    const quantity = /\(([^)]*)\)$/.exec(layer)?.[1] ?? "activations";
    found.set(quantity, [...(found.get(quantity) ?? []), element("option", { value: layer }, layer)]);
  }
  return [...found].map(([quantity, options]) => element("optgroup", { label: quantity }, ...options));
}
