// The offer to interrupt a cell that keeps the kernel from answering.
import { button, element, keepKeys } from "./dom";
import type { Model } from "./host";

const TEXT = "The kernel does not answer: a running cell keeps it busy. Your click is carried out when the cell ends.";

/** Where interrupting is not possible (no access to the kernel), only the explanation is shown. */
export function silencePanel(model: Model): { root: HTMLElement; show(): void; hide(): void } {
  const root = element("div", { class: "pnne-silence", role: "alert", hidden: true }, element("span", {}, TEXT));
  const hide = () => {
    root.hidden = true;
  };
  const kernel = model.widget_manager?.kernel;
  if (kernel?.interrupt) {
    const interrupt = button({}, "Interrupt that cell");
    interrupt.addEventListener("click", () => {
      hide();
      void kernel.interrupt?.();
    });
    root.append(interrupt);
  }
  const wait = button({}, "Keep waiting");
  wait.addEventListener("click", hide);
  root.append(wait);
  keepKeys(root);
  const show = () => {
    root.hidden = false;
  };
  return { root, show, hide };
}
