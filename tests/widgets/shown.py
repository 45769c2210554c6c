"""What cells show, caught."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.display import DisplayHandle

from pnne_nb.widgets.host import static_picture


class Shown:
    """What cells show, caught, and the timer that is waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bundles: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.waiting: list[Callable[[], None]] = []
        monkeypatch.setattr(static_picture, "display", lambda bundle, **_: self.bundles.append(bundle))
        monkeypatch.setattr(DisplayHandle, "update", lambda _, data, **__: self.updates.append(data))
        monkeypatch.setattr("pnne_nb.widgets.host.static_picture.threading.Timer", self._timer)

    def run_waiting(self) -> None:
        """Let the time pass for which each timer waits."""
        waiting, self.waiting = self.waiting, []
        for action in waiting:
            action()

    def _timer(self, _seconds: float, action: Callable[[], None]) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: self.waiting.append(action), cancel=self.waiting.clear)
