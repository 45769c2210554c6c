// One small module for all control widgets of the dashboard; `part` says which of them a model is.
import { renderBar } from "./bar";
import { renderChooser } from "./chooser";
import "./controls.css";
import type { Model } from "./host";
import { handOnPictures } from "./picture";
import { renderSwitch } from "./switch";

const parts = { bar: renderBar, chooser: renderChooser, switch: renderSwitch };

export default {
  initialize({ model }: { model: Model }): (() => void) | undefined {
    const manager = model.widget_manager;
    return model.get("part") === "bar" && manager ? handOnPictures(model, manager) : undefined;
  },
  render(context: { model: Model; el: HTMLElement }): () => void {
    return parts[context.model.get("part") as keyof typeof parts](context);
  },
};
