"""The interface of the tracer for the proxies, which the tracer imports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, final

import torch
from torch import fx
from torch.overrides import TorchFunctionMode

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.context_managers import ActiveContexts


class Assumed(Protocol):
    """The assumptions of a recording on its example: the part of `Guards` that proxies need."""

    ranked: bool

    def counted(self, value: Any) -> None: ...

    def looked(self, node: fx.Node, what: str, expected: Any, *keys: Any, exactly: bool = False) -> bool: ...

    def settled(self, node: fx.Node, value: Any) -> fx.Node | None: ...


class TraceRecorder(fx.Tracer, ABC):
    """Records operations on proxies.

    Attributes:
        assumptions: The values that Python has taken from the example.
        device: The device of the traced module's tensors.
        surroundings: The active contexts of the code.
    """

    assumptions: Assumed
    device: torch.device
    surroundings: ActiveContexts

    @abstractmethod
    def call_method(self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a method."""

    @abstractmethod
    def proxied(self, node: fx.Node, value: Any, made: dict[int, Any]) -> Any:
        """Return the proxy of a value; `made` are those of the containers and objects around it, by identity."""

    @abstractmethod
    def name(self, value: Any, part: object) -> None:
        """Note the variable in which the code keeps a value that it reads."""

    @abstractmethod
    def watched(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a torch call, or run it if no argument is a proxy."""

    @abstractmethod
    def decide(self, value: Any) -> bool:
        """Return the answer of a branch on a proxy."""

    @abstractmethod
    def settle(self, value: Any) -> Any:
        """Return the value of a proxy in the example, for Python."""

    @abstractmethod
    def kind_of(self, tensor: Any) -> str:
        """Return the type of the device on which the tensor of a node lies."""

    @abstractmethod
    def outlined(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the module without data, in the element type of the recording."""

    @staticmethod
    @abstractmethod
    def unknown(value: Any) -> UntranslatableError:
        """Return the error for a ``forward`` that depends on data."""


@final
class FunctionWatch(TorchFunctionMode):
    """Passes every torch function that the code calls to a recorder."""

    def __init__(self, recorder: TraceRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._recorder.watched(func, args, kwargs or {})
