"""Deterministic algorithms for one training, although torch has only one switch for the whole process."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from typing import TypeVar, final

import torch

from pnne_nb.runtime.turn import turn

E = TypeVar("E")
R = TypeVar("R")


@final
class Determinism:
    """Entered around each step; outside of it, torch's switches are as others have set them.

    An operation that has no deterministic version then raises, and the training fails there by name.

    Args:
        wanted: Whether anything is done at all.
        device: Where the training runs.
    """

    def __init__(self, device: torch.device, *, wanted: bool) -> None:
        self._wanted = wanted
        self._before = (False, False, False)
        if wanted and device.type == "cuda":
            # Read when cuBLAS is first used; without it, its operations raise.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    def __enter__(self) -> None:
        if self._wanted:
            self._before = (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
                torch.backends.cudnn.benchmark,
            )
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            enabled, warn_only, benchmark = self._before
            torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
            torch.backends.cudnn.benchmark = benchmark

    def over(self, events: Generator[E, None, R]) -> Generator[E, None, R]:
        """The same events, each made under the switches, and in a turn: meanwhile no other training sets them."""
        # What is not wanted costs nothing.
        return self._each(events) if self._wanted else events

    def _each(self, events: Generator[E, None, R]) -> Generator[E, None, R]:
        with closing(events):
            while True:
                try:
                    with turn, self:
                        event = next(events)
                except StopIteration as end:
                    result: R = end.value
                    return result
                yield event
