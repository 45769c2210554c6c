/** Keeps `data-theme` on the root in step with the host's background; returns what ends that. */
export function followTheme(root: HTMLElement, signal: AbortSignal): void {
  const apply = () => {
    root.dataset.theme = isDark(getComputedStyle(root).backgroundColor) ? "dark" : "light";
  };
  apply();
  const observer = new MutationObserver(apply);
  for (const element of [document.documentElement, document.body]) {
    observer.observe(element, {
      attributes: true,
      attributeFilter: ["class", "style", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind", "theme"],
    });
  }
  // A theme's variables arrive with its style sheet, some time after the attribute.
  observer.observe(document.head, { childList: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply, { signal });
  root.addEventListener("transitionend", (event) => event.target === root && apply(), { signal });
  signal.addEventListener("abort", () => observer.disconnect());
}

/** Whether a computed colour is darker than middle grey. */
export function isDark(color: string): boolean {
  const numbers = color.match(/[\d.]+/g)?.map(Number) ?? [];
  const [red = 255, green = 255, blue = 255, alpha = 1] = numbers;
  const scale = color.startsWith("color(") ? 1 : 255;
  return alpha > 0 && (0.2126 * red + 0.7152 * green + 0.0722 * blue) / scale < 0.5;
}
