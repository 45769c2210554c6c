"""The explorer's keys: its graph is painted on a canvas, which knows no keyboard and no screen reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, final, get_args

import anywidget
import traitlets

from pnne_nb.widgets.comms import answer_while_busy

Move: TypeAlias = Literal["next", "previous", "in", "out", "toggle"]
"""To the next or the previous layer in sight, into a layer or out of it, open or close it."""

_MOVES: Final[tuple[Move, ...]] = get_args(Move)

_SCRIPT: Final = """
const moves = {
  ArrowDown: "next", ArrowUp: "previous", ArrowRight: "in", ArrowLeft: "out", Enter: "toggle", " ": "toggle",
};
function render({ model, el }) {
  const ended = new AbortController();
  const said = document.createElement("div");
  said.setAttribute("role", "status");
  said.className = "pnne-unseen";
  el.append(said);
  const say = () => { said.textContent = model.get("told"); };
  say();
  model.on("change:told", say);
  const frame = requestAnimationFrame(() => {
    const place = el.closest(".pnne-explorer")?.querySelector(".pnne-explorer-graph");
    if (!place) return;
    place.tabIndex = 0;
    place.setAttribute("role", "application");
    place.setAttribute("aria-roledescription", "graph of layers");
    place.setAttribute("aria-label", "Layers: arrow keys move, Enter opens and closes, slash searches");
    // JupyterLab would take the keys for its own: x cuts the cell.
    place.setAttribute("data-lm-suppress-shortcuts", "true");
    place.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "/") {
        event.preventDefault();
        place.closest(".pnne-explorer").querySelector("input[type=text]").focus();
      }
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      event.stopPropagation();
      model.send({ move });
    }, { signal: ended.signal });
  });
  return () => { ended.abort(); cancelAnimationFrame(frame); model.off("change:told", say); };
}
export default { render };
"""


@final
class KeyWatch(anywidget.AnyWidget):
    """Shows nothing; listens to the keys in the explorer's graph, and tells a screen reader where it is.

    Args:
        move: Carries out a move; called on any thread.

    Attributes:
        told: What is said now.
    """

    _esm = _SCRIPT
    told = traitlets.Unicode("").tag(sync=True)

    def __init__(self, move: Callable[[Move], None]) -> None:
        super().__init__()
        self._move = move
        self.on_msg(self._pressed)
        answer_while_busy(self)

    def __repr__(self) -> str:
        return "KeyWatch()"

    def close(self) -> None:
        """Close the widget here and in the browser."""
        self._move = _nothing
        super().close()

    def _pressed(self, _widget: object, content: object, _buffers: object) -> None:
        asked = content.get("move") if isinstance(content, dict) else None
        for move in _MOVES:
            if move == asked:
                self._move(move)


def _nothing(_move: Move) -> None:
    """A closed widget moves nothing."""
