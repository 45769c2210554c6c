"""The explorer's ear in the page: tells which theme there is, and fits the graph when its place changes size.

ipycytoscape fits a graph once, when it is made, and never again: one made in a hidden tab stays empty.
"""

from __future__ import annotations

from typing import Final, final

import anywidget
import traitlets

_SCRIPT: Final = """
function isDark() {
  const body = document.body;
  if (body.dataset.jpThemeLight !== undefined) return body.dataset.jpThemeLight === "false";
  if (body.dataset.vscodeThemeKind !== undefined) return !body.dataset.vscodeThemeKind.includes("light");
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
function render({ model, el }) {
  el.style.display = "none";
  const tell = () => {
    const theme = isDark() ? "dark" : "light";
    if (model.get("theme") !== theme) { model.set("theme", theme); model.save_changes(); }
  };
  const observer = new MutationObserver(tell);
  observer.observe(document.body, { attributes: true });
  let place, timer;
  const fit = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const holder of place.querySelectorAll("*")) {
        const cy = holder._cyreg?.cy;
        if (cy) { cy.resize(); cy.fit(undefined, 18); }
      }
    }, 50);
  };
  const resized = new ResizeObserver(fit), rebuilt = new MutationObserver(fit);
  const frame = requestAnimationFrame(() => {
    const root = el.closest(".pnne-explorer");
    place = root?.querySelector(".pnne-explorer-graph");
    if (place) { resized.observe(place); rebuilt.observe(place, { childList: true, subtree: true }); }
    root?.setAttribute("data-testid", "pnne-explorer");
    tell();
  });
  return () => {
    observer.disconnect(); resized.disconnect(); rebuilt.disconnect();
    cancelAnimationFrame(frame); clearTimeout(timer);
  };
}
export default { render };
"""


@final
class ThemeWatch(anywidget.AnyWidget):
    """Shows nothing; `theme` follows the page of whoever looked last."""

    _esm = _SCRIPT
    theme = traitlets.Enum(("light", "dark"), default_value="light").tag(sync=True)

    def __repr__(self) -> str:
        return f"ThemeWatch({self.theme})"
