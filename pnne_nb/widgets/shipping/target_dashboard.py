"""`TargetDashboard`: shows the table of `pn.compare_targets` while it is made."""

from __future__ import annotations

from html import escape
from typing import Any, Final, final

import ipywidgets

from pnne_nb.inference.targets.compare import compare_targets
from pnne_nb.inference.targets.target_table import ORDERS, Order, TargetTable
from pnne_nb.runtime.data.open_data import Array, Data
from pnne_nb.widgets.host.displays import answer_while_busy
from pnne_nb.widgets.host.live_result import LiveResult

_ORDERS: Final[dict[str, Order]] = {
    "fastest first": "latency",
    "smallest first": "size",
    "least memory first": "memory",
    "best metric first": "metric",
    "least error first": "error",
}
assert set(_ORDERS.values()) == set(ORDERS)


@final
class TargetDashboard(LiveResult[TargetTable]):
    """The table of `pn.compare_targets` while it is made: a row for each form, with its figures as bars.

    The forms are built and timed in a thread of their own, so other cells can run; they are then timed beside those cells.
    *Stop building* leaves out the forms that have not been built, and times the others.

    ::

        dashboard = pn.TargetDashboard(engine, budget=("val_accuracy", 0.5))
        dashboard.wait().recommendation

    Args:
        graph: As in `pn.compare_targets`.
        data: As in `pn.compare_targets`.
        **options: As in `pn.compare_targets`.
    """

    def __init__(self, graph: object, data: Data | Array | None = None, **options: Any) -> None:
        super().__init__("Reading the data …", ("Stop building", "Time the forms that have been built"))
        self._picture = ipywidgets.HTML()
        self._notes = ipywidgets.HTML()
        wide = ipywidgets.Layout(width="220px")
        self._order = ipywidgets.Dropdown(options=_ORDERS, value="latency", description="Forms", layout=wide)
        self.children = [self._said, ipywidgets.HBox([self._order, self._stop]), self._picture, self._notes]
        self.add_class("pnne-targets")
        self._order.observe(lambda _: self._draw(), "value")
        answer_while_busy(self._order)
        self._begin(compare_targets, graph, data, **options, tell=self._tell)

    @property
    def table(self) -> TargetTable | None:
        """The table so far; None before the first form is built."""
        return self._result

    def _tell(self, table: TargetTable) -> bool:
        self._show(table)
        return not self._stopped.is_set()

    def _show(self, result: TargetTable) -> None:
        self._result = result
        self._say(result.recommendation)
        self._notes.value = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
        self._draw()

    def _draw(self) -> None:
        if self._result is not None:
            self._picture.value = self._result.to_svg(self._order.value)
