"""Finds the data flow between the layers of a module by tracking tensors in one forward pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.inspector.capture.call_arguments import call_arguments, placed
from pnne_nb.inspector.capture.hooks import tensors_in
from pnne_nb.inspector.capture.preserve import hooked_run, uncompiled
from pnne_nb.inspector.statistics.patterns import own_parameters

Shape = tuple[int, ...]

INPUT = "input:"
"""Prefix of a link's source that is an argument of the model; its name follows."""

JOIN = "join:"
"""Prefix of a place where branches meet in a function of a container layer; the layer's path follows."""

OUTPUT = "output:"
"""Prefix of a link's target that is a result of the model; its label follows."""


_PASSES, _TIMING = 5, 0.3
"""Most timed passes, and the seconds after which no further pass begins."""


@final
@dataclass
class FlowLayer:
    """One layer.

    Attributes:
        path: Dotted path; ``""`` is the model itself.
        kind: Name of its class.
        detail: Its settings, as torch prints them.
        children: Paths of the layers directly inside.
        own: Number of elements of its own parameters; shared ones count at the first layer that has them.
        parameters: Number of elements of its parameters, inner layers included.
        trainable: Number of these elements that require a gradient.
        inputs: Shapes of the tensors in its first call; empty if it was not called.
        outputs: Shapes of the results of its first call.
        calls: Number of calls.
        seconds: Time of all its calls in one pass, inner layers included; None if it was not called.
    """

    path: str
    kind: str
    detail: str = ""
    children: tuple[str, ...] = ()
    own: int = 0
    parameters: int = 0
    trainable: int = 0
    inputs: tuple[Shape, ...] = ()
    outputs: tuple[Shape, ...] = ()
    calls: int = 0
    seconds: float | None = None

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]


@final
@dataclass(frozen=True)
class Flow:
    """A module's layers and the links between its leaf layers.

    Attributes:
        layers: Layers by path, in the model's order; ``""`` is the model itself.
        links: Shapes of the tensors by (source, target). Both are paths of layers, or names of the model's arguments and
            results after `INPUT` and `OUTPUT`. Functions in between (an addition, a reshape) are skipped.
        traced: Whether the links come from a forward pass; otherwise they are those of ``nn.Sequential`` only.
    """

    layers: Mapping[str, FlowLayer]
    links: Mapping[tuple[str, str], Shape]
    traced: bool


def follow(net: nn.Module, args: object = None) -> Flow:
    """Record the structure of `net`, and its data flow if there are arguments to run it on; `net` is not changed.

    Args:
        net: Any module; a compiled one is run uncompiled.
        args: Its positional arguments as a tuple, or its only argument; a mapping is its keyword arguments.
            With None, it is not run.
    """
    model = uncompiled(net)
    layers = _layers(model)
    if args is None:
        return Flow(layers, dict.fromkeys(_sequential(model), ()), traced=False)
    positional, named = call_arguments(following(args, model), model)
    tracer = _Tracer()
    with hooked_run(model, grad=False) as hooks:
        hooks.on_calls(model, tracer.enter, tracer.leave)
        with placed(model, positional, named), tracer:
            tracer.results(model(*positional, **named))
    seconds = _times(model, positional, named)
    for name, layer in layers.items():
        layer.inputs, layer.outputs = tracer.inputs.get(name, ()), tracer.outputs.get(name, ())
        layer.calls, layer.seconds = tracer.calls.get(name, 0), seconds.get(name)
    return Flow(layers, tracer.links, traced=True)


def _layers(model: nn.Module) -> dict[str, FlowLayer]:
    found = {
        path: FlowLayer(path, type(module).__name__, module.extra_repr().replace("\n", ", "))
        for path, module in model.named_modules()
    }
    for path in found:
        if path:
            parent = found[path.rpartition(".")[0]]
            parent.children = (*parent.children, path)
    for path, _, parameter in own_parameters(model):
        found[path].own += parameter.numel()
        parts = path.split(".") if path else []
        for end in range(len(parts) + 1):
            around = found[".".join(parts[:end])]
            around.parameters += parameter.numel()
            around.trainable += parameter.numel() if parameter.requires_grad else 0
    return found


def _sequential(model: nn.Module) -> list[tuple[str, str]]:
    """Return the links between the layers of Sequentials, which are known without a run."""
    links = []
    for path, module in model.named_modules():
        if isinstance(module, nn.Sequential):
            inside = [f"{path}.{name}" if path else name for name, _ in module.named_children()]
            links += list(pairwise(inside))
    return links


@final
class _Tracer(TorchFunctionMode):
    """Records the layers from which each tensor comes. It holds no tensor, so that the model's tensors are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[tuple[str, str], Shape] = {}
        self.inputs: dict[str, tuple[Shape, ...]] = {}
        self.outputs: dict[str, tuple[Shape, ...]] = {}
        self.calls: dict[str, int] = {}
        self._makers: Any = WeakTensorKeyDictionary()
        self._stack: list[_Call] = []

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Record that the results of a function come from the sources of its arguments."""
        result = func(*args, **(kwargs or {}))
        made = [tensor for _, tensor in tensors_in(result)]
        if made:
            makers = self._made_by((args, dict(kwargs or {})))
            for tensor in made:
                self._makers[tensor] = makers
        return result

    def enter(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Record the begin of a layer's call."""
        tensors = [tensor for _, tensor in tensors_in((args, kwargs))]
        if not self._stack:
            for label, tensor in [*_positional(args), *tensors_in(kwargs)]:
                self._makers[tensor] = {f"{INPUT}{label}": tuple(tensor.shape)}
        else:
            self._stack[-1].is_leaf = False
        self.inputs.setdefault(name, tuple(tuple(tensor.shape) for tensor in tensors))
        self._stack.append(_Call(self._made_by((args, kwargs))))

    def leave(self, name: str, output: object) -> None:
        """Record the end of a layer's call: a layer that called no other is the source of its outputs."""
        call = self._stack.pop()
        self.calls[name] = self.calls.get(name, 0) + 1
        tensors = [tensor for _, tensor in tensors_in(output)]
        self.outputs.setdefault(name, tuple(tuple(tensor.shape) for tensor in tensors))
        if call.is_leaf:
            for source, shape in call.makers.items():
                if source != name:
                    self.links.setdefault((source, name), shape)
            for tensor in tensors:
                self._makers[tensor] = {name: tuple(tensor.shape)}
        elif name:
            self._join(name, tensors)

    def _join(self, name: str, tensors: Sequence[Tensor]) -> None:
        """Give branches that meet (a residual connection) one source: otherwise links would multiply from layer to layer."""
        for tensor in tensors:
            makers = self._makers.get(tensor, {})
            if len(makers) > 1:
                for source, shape in makers.items():
                    self.links.setdefault((source, f"{JOIN}{name}"), shape)
                self._makers[tensor] = {f"{JOIN}{name}": tuple(tensor.shape)}

    def results(self, output: object) -> None:
        """Record the model's results."""
        for label, tensor in tensors_in(output):
            for source, shape in self._makers.get(tensor, {}).items():
                self.links.setdefault((source, f"{OUTPUT}{label}"), shape)

    def _made_by(self, value: object) -> dict[str, Shape]:
        makers: dict[str, Shape] = {}
        for _, tensor in tensors_in(value):
            makers.update(self._makers.get(tensor, {}))
        return makers


@dataclass
class _Call:
    """A running call: the sources of its inputs, and whether it has called no other layer so far."""

    makers: dict[str, Shape] = field(default_factory=dict)
    is_leaf: bool = True


def _positional(args: tuple[object, ...]) -> list[tuple[str, Tensor]]:
    """Return the tensors of positional arguments, without a number where there is only one."""
    found = list(tensors_in(args))
    return [("", found[0][1])] if len(found) == 1 else found


def _times(model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, float]:
    """Return the seconds of every layer in the fastest of a few passes that record nothing else."""
    found: list[dict[str, float]] = []
    until = time.perf_counter() + _TIMING
    while len(found) < _PASSES and (not found or time.perf_counter() < until):
        found.append(_timed(model, args, kwargs))
    return min(found, key=lambda seconds: seconds.get("", 0.0))


def _timed(model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    began: list[float] = []
    devices = {parameter.device for parameter in model.parameters() if parameter.device.type not in ("cpu", "meta")}

    def now() -> float:
        for device in devices:
            torch.accelerator.synchronize(device)
        return time.perf_counter()

    def leave(name: str, _output: object) -> None:
        seconds[name] = seconds.get(name, 0.0) + now() - began.pop()

    with hooked_run(model, grad=False) as hooks:
        hooks.on_calls(model, lambda _name, _args, _kwargs: began.append(now()), leave)
        model(*args, **kwargs)
    return seconds
