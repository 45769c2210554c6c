// The button that turns the axis of a plot logarithmic and back, alone or in another control.
import { button, element, keepKeys, listen, setText } from "./dom";
import type { Model } from "./host";
import { Requests } from "./requests";
import { silencePanel } from "./silence";

export function logButton(model: Model, title: string) {
  const log = button({ class: "pnne-button pnne-log", title }, "log");
  return {
    button: log,
    draw: () => log.setAttribute("aria-pressed", String(model.get("log") === true)),
    asks: (requests: Requests) =>
      log.addEventListener("click", () => requests.send({ kind: "scale", log: model.get("log") !== true })),
  };
}

export function renderSwitch({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const log = logButton(model, "Logarithmic axis");
  const refusal = element("span", { class: "pnne-caption", role: "alert" });
  const silence = silencePanel(model);
  const root = element("div", { class: "pnne-switch" }, log.button, refusal, silence.root);
  keepKeys(root);
  el.append(root);
  const requests = new Requests(model, {
    onError: (message) => setText(refusal, message),
    onSilence: silence.show,
    onAnswer: silence.hide,
  });
  log.asks(requests);
  const end = listen(model, { "change:log": log.draw });
  log.draw();
  return () => {
    end();
    requests.close();
    root.remove();
  };
}
