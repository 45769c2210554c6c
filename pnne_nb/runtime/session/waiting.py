"""What waiting for a training is made of: `Started`, which can be waited for, and the interrupt that ends the waiting."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Protocol, final

SAID: Final = "Interrupted; the training goes on. engine.stop() ends it."


class Waitable(Protocol):
    """A training that can be waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end."""

    def __await__(self) -> Generator[Any, None, None]: ...


@final
class Started:
    """Makes ``engine.start().wait()`` and ``await engine.start()`` work; as the last line of a cell, shows nothing.

    Everything else is that of the engine, which is its attribute `engine`.
    """

    def __init__(self, engine: Waitable) -> None:
        self.engine = engine

    def __repr__(self) -> str:
        return f"Started({self.engine!r})"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the training; see `TrainingEngine.wait`."""
        return self.engine.wait(timeout)

    def __await__(self) -> Generator[Any, None, None]:
        return self.engine.__await__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.engine, name)

    def _ipython_display_(self) -> None:
        """Show nothing."""


@final
class WaitInterrupted(KeyboardInterrupt):
    """Ends a cell as any interrupt does, and shows one line in a notebook instead of a traceback."""

    def __init__(self) -> None:
        super().__init__(SAID)

    def _render_traceback_(self) -> list[str]:
        return [SAID]
