"""Finds how data flows between the layers of a module, by the identity of tensors in one forward pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from pnne_nb.inspector.capture.call_arguments import call_arguments
from pnne_nb.inspector.capture.compiled import uncompiled
from pnne_nb.inspector.capture.error_location import placed
from pnne_nb.inspector.capture.hooks import HookOwner, tensors_in
from pnne_nb.inspector.capture.preserve import preserved
from pnne_nb.inspector.statistics.patterns import own_parameters

Shape = tuple[int, ...]

INPUT = "input:"
"""Where a link begins that brings an argument of the model: this and the argument's name."""

JOIN = "join:"
"""Where branches meet in a function of a layer that contains others: this and the layer's path."""

OUTPUT = "output:"
"""Where a link ends that is a result of the model: this and the result's label."""


_PASSES, _TIMING = 5, 0.3
"""Passes that are timed, at most, and seconds after which no further one begins."""


@final
@dataclass
class FlowLayer:
    """One layer.

    Attributes:
        path: Dotted path; ``""`` is the model itself.
        kind: Name of its class.
        detail: Its settings, as torch prints them.
        children: Paths of the layers directly inside.
        own: Elements of its own parameters; shared ones count at the first layer that has them.
        parameters: Elements of its parameters, those of the layers inside included.
        trainable: How many of them require a gradient.
        inputs: Shapes of the tensors in its first call; empty if it was not called.
        outputs: Shapes of what its first call returned.
        calls: How often it was called.
        seconds: What all its calls took in one pass, the layers inside included; None if it was not called.
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

    @property
    def parent(self) -> str:
        """The path of the layer that it is in."""
        return self.path.rpartition(".")[0]


@final
@dataclass(frozen=True)
class Flow:
    """A module's layers, and the links between those that do the work.

    Attributes:
        layers: By path, in the model's order; ``""`` is the model itself.
        links: (source, target) pairs with the shape of what flows: paths of layers, or names of the model's
            arguments and results behind `INPUT` and `OUTPUT`. What functions do on the way (an addition, a
            concatenation, a reshape) is followed through.
        traced: Whether the links were seen in a forward pass; otherwise they are those of ``nn.Sequential`` only.
    """

    layers: Mapping[str, FlowLayer]
    links: Mapping[tuple[str, str], Shape]
    traced: bool


def follow(net: nn.Module, args: object = None, kwargs: Mapping[str, object] | None = None) -> Flow:
    """Record the structure of `net`, and how data flows if there are arguments to run it on; `net` stays as it was.

    Args:
        net: Any module; a compiled one is run uncompiled.
        args: Its positional arguments as a tuple, or its only argument; a mapping is its keyword arguments.
            None: it is not run.
        kwargs: Further keyword arguments.
    """
    model = uncompiled(net)
    layers = _layers(model)
    if args is None and not kwargs:
        return Flow(layers, dict.fromkeys(_sequential(model), ()), traced=False)
    positional, named = call_arguments(args)
    named |= dict(kwargs or {})
    tracer = _Tracer()
    with _Prepared(model) as hooks:
        for name, module in model.named_modules():
            hooks.on_inputs(module, partial(tracer.enter, name))
            hooks.on_output(module, partial(tracer.leave, name))
        with placed(model, positional, named), tracer:
            tracer.results(model(*positional, **named))
    seconds = _times(model, positional, named)
    for name, layer in layers.items():
        layer.inputs, layer.outputs = tracer.inputs.get(name, ()), tracer.outputs.get(name, ())
        layer.calls, layer.seconds = tracer.calls.get(name, 0), seconds.get(name)
    return Flow(layers, tracer.links, traced=True)


class _Prepared(ExitStack):
    """The model as it was afterwards, no gradients, nothing compiled, hooks that are removed in every case."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model

    def __enter__(self) -> HookOwner:  # type: ignore[override]  # what is entered is the owner of the hooks
        super().__enter__()
        self.enter_context(preserved(self._model))
        self.enter_context(torch.no_grad())
        self.enter_context(torch.compiler.set_stance("force_eager"))
        return self.enter_context(HookOwner())


def _layers(model: nn.Module) -> dict[str, FlowLayer]:
    paths = dict(model.named_modules())
    found = {
        path: FlowLayer(path, type(module).__name__, module.extra_repr().replace("\n", ", "))
        for path, module in paths.items()
    }
    for path in paths:
        if path:
            parent = found[path.rpartition(".")[0]]
            parent.children = (*parent.children, path)
    for path, _, parameter in own_parameters(model):
        found[path].own += parameter.numel()
        for place in _upwards(path):
            found[place].parameters += parameter.numel()
            found[place].trainable += parameter.numel() if parameter.requires_grad else 0
    return found


def _upwards(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(len(parts), -1, -1)]


def _sequential(model: nn.Module) -> list[tuple[str, str]]:
    """Return the dataflow that is known without running: the layers of a Sequential follow each other."""
    links = []
    for path, module in model.named_modules():
        if isinstance(module, nn.Sequential):
            inside = [f"{path}.{name}" if path else name for name, _ in module.named_children()]
            links += list(pairwise(inside))
    return links


@final
class _Tracer(TorchFunctionMode):
    """Remembers which layers each tensor comes from. Holds no tensor: those that the model frees are freed."""

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
        """Let what a function returns come from where its arguments come from."""
        result = func(*args, **(kwargs or {}))
        made = [tensor for _, tensor in tensors_in(result)]
        if made:
            makers = self._made_by((args, dict(kwargs or {})))
            for tensor in made:
                self._makers[tensor] = makers
        return result

    def enter(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Note that a layer is called."""
        tensors = [tensor for _, tensor in tensors_in((args, kwargs))]
        if not self._stack:
            for label, tensor in [*_positional(args), *tensors_in(kwargs)]:
                self._makers[tensor] = {f"{INPUT}{label}": tuple(tensor.shape)}
        else:
            self._stack[-1].is_leaf = False
        self.inputs.setdefault(name, tuple(tuple(tensor.shape) for tensor in tensors))
        self._stack.append(_Call(self._made_by((args, kwargs))))

    def leave(self, name: str, output: object) -> None:
        """Note that it returns: a layer that called no other has made its outputs itself."""
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
        """Let branches that meet (a residual connection) leave as one: otherwise they would add up layer by layer."""
        for tensor in tensors:
            makers = self._makers.get(tensor, {})
            if len(makers) > 1:
                for source, shape in makers.items():
                    self.links.setdefault((source, f"{JOIN}{name}"), shape)
                self._makers[tensor] = {f"{JOIN}{name}": tuple(tensor.shape)}

    def results(self, output: object) -> None:
        """Note what the model has returned."""
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
    """A call under way: where its inputs come from, and whether it has called no other layer so far."""

    makers: dict[str, Shape] = field(default_factory=dict)
    is_leaf: bool = True


def _positional(args: tuple[object, ...]) -> list[tuple[str, Tensor]]:
    """Return the tensors of positional arguments, without a number where there is only one."""
    found = list(tensors_in(args))
    return [("", found[0][1])] if len(found) == 1 else found


def _times(model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, float]:
    """Return the seconds of every layer in the fastest of a few passes in which nothing else is recorded."""
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

    with _Prepared(model) as hooks:
        for name, module in model.named_modules():
            hooks.on_inputs(module, lambda _args, _kwargs: began.append(now()))
            hooks.on_output(module, partial(leave, name))
        model(*args, **kwargs)
    return seconds
