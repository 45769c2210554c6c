"""What values that are traced ask of whoever records them (`tracing`), which knows them in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import fx

from pnne_nb.compiler.importing.drafting import UntranslatableError
from pnne_nb.compiler.importing.surroundings import Surroundings


class Assumed(Protocol):
    """What is taken from the example.

    Attributes:
        ranked: Whether a number of dimensions was asked for.
    """

    ranked: bool

    def counted(self, value: Any) -> None:
        """Note that there are as many parts of a traced value as in the example."""


class Recorder(fx.Tracer, ABC):
    """Records what is done with traced values.

    Attributes:
        assumptions: What Python was told of the example.
        device: Where the tensors of the traced module lie.
        surroundings: The contexts that the code is in.
    """

    assumptions: Assumed
    device: torch.device
    surroundings: Surroundings

    @abstractmethod
    def call_method(self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a method."""

    @abstractmethod
    def watched(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a function or method of torch's, or make it if nothing in it is traced."""

    @abstractmethod
    def decide(self, value: Any) -> bool:
        """Answer a branch on a traced value."""

    @abstractmethod
    def settle(self, value: Any) -> Any:
        """Return a traced value as it is in the example, for Python to work with."""

    @staticmethod
    @abstractmethod
    def unknown(value: Any) -> UntranslatableError:
        """Return the error of a ``forward`` that goes by the data."""
