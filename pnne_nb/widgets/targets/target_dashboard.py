"""`TargetDashboard`: shows the table of `pn.compare_targets` while it is made."""

from __future__ import annotations

import inspect
import threading
from html import escape
from typing import Any, Final, final

import ipywidgets

from pnne_nb.errors import PnneError, TrainingError
from pnne_nb.inference.targets.compare import compare_targets
from pnne_nb.inference.targets.target_table import ORDERS, Order, TargetTable
from pnne_nb.runtime.data.open_data import Array, Data
from pnne_nb.widgets.host.displays import Displays, answer_while_busy, close_parts

_ORDERS: Final[dict[str, Order]] = {
    "fastest first": "latency",
    "smallest first": "size",
    "least memory first": "memory",
    "best metric first": "metric",
    "least error first": "error",
}
assert set(_ORDERS.values()) == set(ORDERS)


@final
class TargetDashboard(ipywidgets.VBox):
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

    Raises:
        TypeError: If `pn.compare_targets` has no such option.
    """

    def __init__(self, graph: object, data: Data | Array | None = None, **options: Any) -> None:
        self._done = threading.Event()
        self._stopped = threading.Event()
        inspect.signature(compare_targets).bind(graph, data, **options, tell=self._tell)
        self._table: TargetTable | None = None
        self._error: BaseException | None = None
        self._said = ipywidgets.HTML(_status("Reading the data …"))
        self._picture = ipywidgets.HTML()
        self._notes = ipywidgets.HTML()
        wide, auto = ipywidgets.Layout(width="220px"), ipywidgets.Layout(width="auto")
        self._order = ipywidgets.Dropdown(options=_ORDERS, value="latency", description="Forms", layout=wide)
        built = "Time the forms that have been built"
        self._stop = ipywidgets.Button(description="Stop building", tooltip=built, layout=auto)
        super().__init__([self._said, ipywidgets.HBox([self._order, self._stop]), self._picture, self._notes])
        self.add_class("pnne-targets")
        self._stop.on_click(lambda _: self.stop())
        self._order.observe(lambda _: self._draw(), "value")
        for each in (self._stop, self._order):
            answer_while_busy(each)
        self._thread = threading.Thread(
            target=self._compare, args=(graph, data, options), name="pnne-targets", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        if self._error is not None:
            return f"TargetDashboard: {self._error}"
        return "TargetDashboard" if self._table is None else f"TargetDashboard: {self._table.recommendation}"

    @property
    def table(self) -> TargetTable | None:
        """The table so far; None before the first form is built."""
        return self._table

    def wait(self, timeout: float | None = None) -> TargetTable:
        """Wait for the table and return it.

        Raises:
            TimeoutError: If it is not there within `timeout` seconds.
            PnneError: What `pn.compare_targets` raises.
        """
        if not self._done.wait(timeout):
            raise TimeoutError(f"The forms were not timed within {timeout:g} seconds; they still are.")
        if self._error is not None:
            raise self._error
        if self._table is None:
            raise TrainingError("The dashboard was closed before there was a table: make another one.")
        return self._table

    def stop(self) -> None:
        """Stop building forms, and time those that have been built."""
        self._stopped.set()
        self._stop.disabled = True

    def close(self) -> None:
        """Stop building forms, and close all its widgets."""
        self._stopped.set()  # a form that has begun is finished behind it, which nobody waits for
        close_parts(self)
        super().close()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        Displays.here().shown(self)
        return super()._repr_mimebundle_(**options)

    # In the thread that compares

    def _compare(self, graph: object, data: Data | Array | None, options: dict[str, Any]) -> None:
        try:
            self._show(compare_targets(graph, data, **options, tell=self._tell))
        except Exception as error:  # noqa: BLE001  # whoever looks is told, and `wait` raises it
            self._error = error
            said = str(error) if isinstance(error, PnneError) else f"{type(error).__name__}: {error}"
            self._said.value = _status(said)
        finally:
            self._stop.disabled = True
            self._done.set()

    def _tell(self, table: TargetTable) -> bool:
        self._show(table)
        return not self._stopped.is_set()

    def _show(self, table: TargetTable) -> None:
        self._table = table
        self._said.value = _status(table.recommendation)
        self._notes.value = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
        self._draw()

    def _draw(self) -> None:
        if self._table is not None:
            self._picture.value = self._table.to_svg(self._order.value)


def _status(text: str) -> str:
    return f'<p role="status" style="line-height:1.4"><b>{escape(text)}</b></p>'
