"""The map of the explorer: which layers are open, how they are coloured, where a key leads, and the search for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, final

import ipywidgets

from pnne_nb.diagnosis.finding import Finding
from pnne_nb.inspector.tools.dataflow import Flow
from pnne_nb.protocol.control_messages import Move, PageTheme
from pnne_nb.widgets.explorer.canvas import Canvas, identities, paint, style
from pnne_nb.widgets.explorer.static_graph import graph_svg
from pnne_nb.widgets.explorer.view import MAX_ELEMENTS, Colouring, ExplorerPicture, draw, first_open
from pnne_nb.widgets.host.displays import answer_while_busy

MAX_HITS: Final = 50
"""Most layers that a search lists."""


@final
class LayerMap(ipywidgets.Box):
    """The layers of a module as a graph; its owner holds a lock around all calls.

    Args:
        flow: The layers and links.
        findings: Returns the findings that are marked.
        theme: Returns the theme of the page.
        clicked: Called with the key of the box that was clicked.
        changed: Called when it looks different.
        say: Shows a sentence.

    Attributes:
        flow: The layers and links.
        chosen: Path of the layer that is marked; ``""`` is the model itself.
        opened: Paths of the open layers.
        picture: What is shown.
        colour: Chooses the meaning of the colours.
    """

    def __init__(
        self,
        flow: Flow,
        findings: Callable[[], list[Finding]],
        theme: Callable[[], PageTheme],
        clicked: Callable[[str], None],
        changed: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self.flow, self.chosen, self.opened = flow, "", first_open(flow)
        self.picture = ExplorerPicture((), {})
        self._findings, self._theme, self._clicked, self._changed, self._say = findings, theme, clicked, changed, say
        self._differences: Mapping[str, float] = {}
        self._graph: Canvas | None = None
        self.colour = ipywidgets.ToggleButtons(
            options=_colourings(flow), value="type", description="Colour by",
            style={"description_width": "64px", "button_width": "auto"},
            layout=ipywidgets.Layout(width="auto", margin="0 8px", flex="0 0 auto", flex_flow="row nowrap"),
        )  # fmt: skip
        self.colour.add_class("pnne-colours")
        super().__init__(layout=ipywidgets.Layout(flex="1 1 55%", height="600px", min_width="0"))
        self.add_class("pnne-explorer-graph")
        self.colour.observe(lambda _change: self.rebuild(), "value")
        answer_while_busy(self.colour)

    def __repr__(self) -> str:
        return f"LayerMap({len(self.shown)} layers)"

    def close(self) -> None:
        """Close it with all its elements."""
        if self._graph is not None:
            self._graph.close()
            self._graph = None
        super().close()

    @property
    def shown(self) -> tuple[str, ...]:
        """Paths of the layers in the graph, open ones included."""
        return tuple(box.key for box in self.picture.boxes if box.key in self.flow.layers)

    def use(self, flow: Flow) -> None:
        """Show other layers, in the same colours where that is possible."""
        self.flow, chosen = flow, self.colour.value
        with self.colour.hold_trait_notifications():
            self.colour.options = _colourings(flow)
            self.colour.value = chosen if chosen in dict(_colourings(flow)).values() else "type"
        self.rebuild()

    def differ(self, differences: Mapping[str, float]) -> None:
        """Colour layers by how much they differ."""
        self._differences = dict(differences)
        self.colour.options = [*_colourings(self.flow), ("difference", "difference")]
        self.colour.value = "difference"

    def choose(self, path: str) -> None:
        """Mark a layer, and open those around it; others are closed if the graph becomes too large."""
        parts = path.split(".")
        around = {"", *(".".join(parts[:end]) for end in range(1, len(parts)))}
        before, self.chosen = self.shown, path
        if path and path not in before:
            trial = self.opened | around
            self.opened = trial if len(draw(self.flow, trial, path)) <= MAX_ELEMENTS else around
            self.rebuild()
        self.mark()

    def toggle(self, path: str) -> None:
        """Open a closed layer or close an open one; a leaf layer does not change."""
        if not path or not self.flow.layers[path].children:
            return
        trial = self.opened ^ {path}
        count = len(draw(self.flow, trial, self.chosen))
        if count > MAX_ELEMENTS and path in trial:
            self._say(f"Opening {path} would show {count} elements; the limit is {MAX_ELEMENTS}. Close other layers.")
            return
        self._say("")
        self.opened = trial
        self.rebuild()

    def close_all(self) -> None:
        """Close all layers."""
        self.opened = {""}
        self._say("")
        self.rebuild()

    def rebuild(self) -> None:
        """Draw everything again: changing a graph in place corrupts the browser's picture of it."""
        self.picture = draw(self.flow, self.opened, self.chosen, self.colour.value, self._differences)
        before = self._graph
        self._graph = paint(self.picture, self.marks(), self._style(), lambda node: self._clicked(node["data"]["key"]))
        self._graph.drawn = self._svg
        self.children = (self._graph,)
        self._changed()
        if before is not None:
            before.close()

    def mark(self, _change: object = None) -> None:
        """Show which layer is chosen, in the colours of the page."""
        if self._graph is not None:
            self._graph.cytoscape_style = self._style()
            self._changed()

    def marks(self) -> dict[str, list[str]]:
        """Return the marks of layers: not called, or with a finding."""
        marks: dict[str, list[str]] = {}
        for path, layer in self.flow.layers.items():
            if self.flow.traced and not layer.calls and not layer.children:
                marks.setdefault(path, []).append("uncalled")
        for found in self._findings():
            marks.setdefault(found.layer or "", []).append("alarm")
        return marks

    def step(self, move: Move) -> str | None:
        """Return the layer to which a key goes; None where it opens or closes the chosen one, or leads nowhere."""
        shown, layer = self.shown, self.flow.layers[self.chosen]
        at = shown.index(self.chosen) if self.chosen in shown else -1
        inside = [child for child in layer.children if child in shown] if self.chosen in self.opened else []
        match move:
            case "next" if at + 1 < len(shown):
                return shown[at + 1]
            case "previous" if at > 0:
                return shown[at - 1]
            case "in" if inside and self.chosen:
                return inside[0]
            case "out" if "." in self.chosen and not inside:
                return self.chosen.rpartition(".")[0]
            case "in" | "toggle":
                self.toggle(self.chosen)
            case "out" if inside:
                self.toggle(self.chosen)
            case _:
                pass
        return None

    def told(self) -> str:
        """Return what a screen reader says of the chosen layer."""
        layer, shown = self.flow.layers[self.chosen], self.shown
        where = f", {shown.index(self.chosen) + 1} of {len(shown)}" if self.chosen in shown else ""
        state = "" if not layer.children else ", open" if self.chosen in self.opened else ", closed"
        return f"{self.chosen or 'The model'}, {layer.kind}{state}{where}"

    def _svg(self) -> str:
        return graph_svg(self.picture, self.marks(), self.chosen, [self.flow.layers[""].kind], self._theme())

    def _style(self) -> list[dict[str, Any]]:
        categories = dict.fromkeys(box.category for box in self.picture.boxes if box.category is not None)
        return style(self._theme(), categories, identities(self.picture).get(self.chosen))


@final
class Search(ipywidgets.Text):
    """A field for a part of a name or type.

    Args:
        flow: Returns the layers.
        choose: Called with the path of the layer that was chosen among the hits.
        say: Shows a sentence.

    Attributes:
        hits: The layers that match, to be shown below.
    """

    def __init__(self, flow: Callable[[], Flow], choose: Callable[[str], None], say: Callable[[str], None]) -> None:
        self._flow, self._say = flow, say
        self.hits = ipywidgets.Select(options=[], rows=6, layout=ipywidgets.Layout(width="auto", display="none"))
        super().__init__(
            placeholder=f"Search {len(flow().layers) - 1} layers by name or type",
            layout=ipywidgets.Layout(width="auto", flex="1 1 auto"),
        )
        self.observe(lambda change: self._list(change["new"]), "value")
        self.hits.observe(lambda change: choose(change["new"]) if change["new"] else None, "value")
        for control in (self, self.hits):
            answer_while_busy(control)

    def _list(self, text: str) -> None:
        word = text.strip().lower()
        found = [
            (f"{path}  ({layer.kind})", path)
            for path, layer in self._flow().layers.items()
            if path and word and (word in path.lower() or word in layer.kind.lower())
        ]
        self.hits.options = ()
        self.hits.options = found[:MAX_HITS]
        self.hits.index = None
        self.hits.layout.display = "" if found else "none"
        more = f"{len(found)} layers match; the first {MAX_HITS} are listed." if len(found) > MAX_HITS else ""
        self._say(more if found or not word else f"No layer's name or type contains “{text.strip()}”.")


def _colourings(flow: Flow) -> list[tuple[str, Colouring]]:
    """Return the available colourings; times exist only after a run."""
    found: list[tuple[str, Colouring]] = [("type", "type"), ("time", "time"), ("parameters", "parameters")]
    return found if flow.traced else [one for one in found if one[1] != "time"]
