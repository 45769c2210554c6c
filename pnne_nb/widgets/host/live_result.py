"""`LiveResult`: shows what a function finds while it works in a thread of its own."""

from __future__ import annotations

import inspect
import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any, Generic, TypeVar

import ipywidgets

from pnne_nb.errors import PnneError
from pnne_nb.widgets.host.canvas import Canvas
from pnne_nb.widgets.host.displays import Displays, answer_while_busy, close_parts

Result = TypeVar("Result")


class LiveResult(ipywidgets.VBox, Generic[Result]):
    """What a function finds, shown while it works in a thread of its own; `stop` is the button that ends it, and its tooltip."""

    def __init__(self, said: str, stop: tuple[str, str]) -> None:
        self._done, self._stopped = threading.Event(), threading.Event()
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._said = ipywidgets.HTML()
        self._stop = self._button(*stop, self.stop)
        super().__init__()
        self._say(said)

    def _begin(self, find: Callable[..., Result], *args: Any, **options: Any) -> None:
        """Begin to work, once all widgets are there; where `find` has no such option, they are closed again."""
        try:
            inspect.signature(find).bind(*args, **options)
        except TypeError:
            self.close()
            raise
        threading.Thread(
            target=self._find, args=(partial(find, *args, **options),), name="pnne-result", daemon=True
        ).start()

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self._told}"

    def _display_(self) -> Canvas:
        """Return what marimo shows, which can load widgets of anywidget only."""
        return Canvas(self)

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end of the work, and return what it has found.

        Raises:
            TimeoutError: If it has not ended within `timeout` seconds.
            PnneError: What the function raises.
        """
        if not self._done.wait(timeout):
            raise TimeoutError(f"It has not ended within {timeout:g} seconds, and goes on.")
        if self._error is not None:
            raise self._error
        assert self._result is not None, "shown"
        return self._result

    def stop(self) -> None:
        """End the work early, with what it has found so far."""
        self._stopped.set()
        self._stop.disabled = True

    def close(self) -> None:
        """End the work, and close all its widgets."""
        if not hasattr(self, "_stopped"):
            return  # its arguments were refused, and ipywidgets closes what is left of it
        self._stopped.set()  # the piece that has begun is finished behind it, which nobody waits for
        close_parts(self)
        super().close()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        Displays.here().shown(self)
        return super()._repr_mimebundle_(**options)

    def _button(self, name: str, tooltip: str, press: Callable[[], object]) -> ipywidgets.Button:
        made = ipywidgets.Button(description=name, tooltip=tooltip, layout=ipywidgets.Layout(width="auto"))
        made.on_click(lambda _: press())
        answer_while_busy(made)
        return made

    def _say(self, text: str) -> None:
        self._told = text
        self._said.value = f'<p role="status" style="line-height:1.4"><b>{escape(text)}</b></p>'

    def _fail(self, error: BaseException) -> None:
        self._say(str(error) if isinstance(error, PnneError) else f"{type(error).__name__}: {error}")

    # In the thread that works

    def _find(self, find: Callable[[], Result]) -> None:
        try:
            self._show(find())
        except Exception as error:  # noqa: BLE001  # whoever looks is told, and `wait` raises it
            self._error = error
            self._fail(error)
        finally:
            self._stop.disabled = True
            self._done.set()

    @abstractmethod
    def _show(self, result: Result) -> None:
        """Keep and show what was found, in the end or so far."""
