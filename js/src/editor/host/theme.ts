import type { Model } from "../session/model";

const HOST_MARKS = ["class", "style", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind", "theme"];

/** Keeps `data-theme` on the root in step with the host's background, or with the trait `theme` that overrules it. */
export function followTheme(root: HTMLElement, model: Model, signal: AbortSignal): void {
  const apply = () => {
    const wanted = model.get("theme");
    const forced = wanted === "light" || wanted === "dark";
    root.toggleAttribute("data-theme-forced", forced);
    if (forced) root.dataset.theme = wanted;
    else root.dataset.theme = isDark(getComputedStyle(root).backgroundColor) ? "dark" : "light";
  };
  apply();
  const observer = new MutationObserver(apply);
  for (const element of [document.documentElement, document.body]) {
    observer.observe(element, { attributes: true, attributeFilter: HOST_MARKS });
  }
  // A theme's variables arrive with its style sheet, some time after the attribute.
  observer.observe(document.head, { childList: true });
  document.head.addEventListener("load", apply, { signal, capture: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply, { signal });
  model.on("change:theme", apply);
  signal.addEventListener("abort", () => {
    observer.disconnect();
    model.off("change:theme", apply);
  });
}

function isDark(color: string): boolean {
  const numbers = color.match(/[\d.]+/g)?.map(Number) ?? [];
  const [red = 255, green = 255, blue = 255, alpha = 1] = numbers;
  const scale = color.startsWith("color(") ? 1 : 255;
  return alpha > 0 && (0.2126 * red + 0.7152 * green + 0.0722 * blue) / scale < 0.5;
}
