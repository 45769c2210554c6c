"""Tells Python which theme the page has, and marks the explorer's root for tests and assistive tools."""

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
  const frame = requestAnimationFrame(() => {
    el.closest(".pnne-explorer")?.setAttribute("data-testid", "pnne-explorer");
    tell();
  });
  return () => { observer.disconnect(); cancelAnimationFrame(frame); };
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
