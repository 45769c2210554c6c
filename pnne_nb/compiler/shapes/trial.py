"""Runs one node on the meta device: torch's own code, without data or memory.

There are no shape formulas here. Outcomes are cached by type, properties and inputs, so that equal nodes run once.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, final

import msgspec
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from pnne_nb.catalog.operators import CHECK
from pnne_nb.compiler.ir.bind import BoundCall, bind, construct, variadic_items
from pnne_nb.compiler.ir.literals import TensorLiteral
from pnne_nb.compiler.ir.program import Argument, Constant, Construction, Inside, Mode, Ref, Sequence
from pnne_nb.compiler.ir.python_operators import function_of
from pnne_nb.compiler.shapes import mismatch
from pnne_nb.compiler.shapes.autocast import casting, casts, on_cpu
from pnne_nb.compiler.shapes.cost import FREE, Cost, MultiplyAdds, returned, weights
from pnne_nb.compiler.shapes.symbolic import Abstract, Meta, Seen, Trials, explain
from pnne_nb.graph.schema.property_types import check
from pnne_nb.graph.schema.spec import NodeSpec, Returns
from pnne_nb.graph.schema.values import TorchConstant, Value
from pnne_nb.process.background_import import wait_for_import
from pnne_nb.process.fork import fork_safe

_SHORT = 2
"""Steps of a sequence in a trial."""

CACHED = 20_000
"""Outcomes that are kept, least recently used first to go."""


@final
class Outcome(msgspec.Struct, frozen=True, eq=False):
    """What a trial of a node found.

    Attributes:
        outputs: By port; a port that is missing here is unknown.
        resolved: Values of the properties that were ``"auto"``.
        findings: What does not fit.
        cost: What it costs, as far as it could be run.
    """

    outputs: Mapping[str, Abstract]
    resolved: Mapping[str, Value] = {}
    findings: tuple[mismatch.NodeFinding, ...] = ()
    cost: Cost = FREE


NOTHING = Outcome({})

# One trial at a time: warnings are silenced meanwhile, and their filters belong to the whole process.
_lock = fork_safe(threading.RLock())
_outcomes: OrderedDict[object, Outcome] = OrderedDict()


@contextmanager
def trials() -> Iterator[None]:
    """Have torch's warnings silenced while nodes are tried; to be entered once for many nodes."""
    wait_for_import()  # two threads that import parts of torch which need each other may see one half made
    with _lock, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


def attempt(
    spec: NodeSpec, properties: Mapping[str, Value], inputs: Mapping[str, Abstract | None], inside: Inside = ()
) -> Outcome:
    """Return what a node gives for these inputs.

    Args:
        spec: Its type; of kind module, function or method.
        properties: The values that were set explicitly.
        inputs: What arrives at each wired port; None where it is unknown.
        inside: The contexts that it runs in.
    """
    inside = inside if inside and casts(inside) else ()  # the others change no shape and no element type
    key = (id(spec), tuple((name, repr(value)) for name, value in properties.items()), tuple(inputs.items()), inside)
    found = _outcomes.get(key)
    if found is not None:
        _outcomes.move_to_end(key)
        return found
    with casting(inside) if inside else nullcontext():
        outcome = _Trial(spec, properties, inputs, casts=bool(inside)).run()
    _outcomes[key] = outcome
    if len(_outcomes) > CACHED:
        _outcomes.popitem(last=False)
    return outcome


def forget() -> None:
    """Drop every cached outcome: a type was registered again."""
    with _lock:
        _outcomes.clear()


class _Trial:
    def __init__(
        self, spec: NodeSpec, properties: Mapping[str, Value], inputs: Mapping[str, Abstract | None], *, casts: bool
    ) -> None:
        self._spec = spec
        self._casts = casts
        self._properties = properties
        self._inputs = {name: value for name, value in inputs.items() if value is not None}
        self._complete = len(self._inputs) == len(inputs)
        self._module: Any = None
        self._unrolled = 1.0  # how many times longer the sequence is than the part of it that is tried

    def run(self) -> Outcome:
        ports = [self._inputs.get(port.name) for port in self._spec.inputs]
        resolved, open_sizes = mismatch.inferred_sizes(self._spec, self._properties, ports, self._count())
        unfit = [] if self._casts else mismatch.dtype_findings(self._spec, self._inputs)
        findings = [*unfit, *open_sizes]
        missing = [
            prop.name
            for prop in self._spec.properties
            if prop.required and prop.name not in self._properties and prop.name not in self._inputs
        ]
        # A file may hold any value: what its property does not take is not tried, and lint says so.
        if missing or self._refused() or open_sizes:
            return Outcome({}, resolved, tuple(findings))
        wires: dict[str, Argument] = {name: Ref(name, "") for name in self._inputs}
        bound = bind(self._spec, self._properties, wires, resolved)
        parameters = memory = 0
        if self._spec.kind == "module":
            try:
                self._module = build(construct(self._spec, {**self._properties, **resolved}), self._spec)
            except Exception as error:  # noqa: BLE001  # whatever a constructor raises is news for the person
                return Outcome(
                    {}, resolved, (*findings, mismatch.failure_finding(self._spec, self._inputs, error, building=True))
                )
            parameters, memory = weights(self._module)
        findings += mismatch.size_findings(self._spec, {**self._properties, **resolved}, ports)
        if findings or not self._complete or not self._connected():
            return Outcome({}, resolved, tuple(findings), Cost(parameters, memory))
        if self._spec.type == CHECK and any(self._inputs["condition"].trials):
            return Outcome({}, resolved)  # an open size may be one that fits
        results: list[Seen] = []
        counts: list[int] = []
        try:
            for trial in range(self._count()):
                with MultiplyAdds() as counter:
                    results.append(self._call(bound, trial))
                counts.append(round(counter.count * self._unrolled))
        except Exception as error:  # noqa: BLE001  # the same for a call
            found = mismatch.failure_finding(self._spec, self._inputs, error)
            return Outcome({}, resolved, (found,), Cost(parameters, memory))
        outputs: dict[str, Abstract] = {}
        for port, path in _places(bound.results, single=bound.single):
            seen = tuple(_item(result, path) for result in results)
            outputs[port] = self._explain(bound, path, seen)
        cost = Cost(parameters, memory, tuple(counts), returned(results))
        wrong = tuple(mismatch.axis_findings(self._spec, self._properties, next(iter(ports), None), outputs.values()))
        return Outcome({}, resolved, wrong, cost) if wrong else Outcome(outputs, resolved, (), cost)

    def _refused(self) -> bool:
        for prop in self._spec.properties:
            if prop.name in self._properties:
                try:
                    check(prop.type, self._properties[prop.name])
                except ValueError:
                    return True
        return False

    def _count(self) -> int:
        return max((len(value.trials) for value in self._inputs.values()), default=1)

    def _connected(self) -> bool:
        return all(
            port.optional
            or port.name in self._properties
            or port.name in self._inputs
            or (port.variadic and variadic_items(port, self._inputs))
            for port in self._spec.inputs
        )

    def _call(self, bound: BoundCall, trial: int, changed: tuple[Trials, int] | None = None) -> Seen:
        def value(argument: Argument) -> object:
            match argument:
                case Ref(name):
                    return _materialized(_enlarged(self._inputs[name], trial, changed))
                case Sequence(items):
                    return [value(item) for item in items]
                case Mode():
                    return True
            return _constant(argument)

        arguments = [value(argument) for argument in bound.arguments]
        keywords = {name: value(argument) for name, argument in bound.keywords}
        if isinstance(self._module, nn.RNNBase):
            return self._recur(arguments, keywords)
        if self._casts:
            arguments, keywords = on_cpu((arguments, keywords))
        if self._module is not None and self._casts:
            held = on_cpu({**dict(self._module.named_parameters()), **dict(self._module.named_buffers())})
            return _described(functional_call(self._module, held, tuple(arguments), keywords))
        if self._module is not None:
            return _described(self._module(*arguments, **keywords))
        if "device" in keywords:  # which this machine may not have
            keywords["device"] = "cpu" if self._casts else "meta"
        if self._spec.kind == "method":
            return _described(getattr(arguments[0], self._spec.target)(*arguments[1:], **keywords))
        function = function_of(self._spec, len(arguments), plain=not keywords)
        if any(isinstance(item, torch.Tensor) for item in _flat(arguments)):
            return _described(function(*arguments, **keywords))
        with torch.device("cpu" if self._casts else "meta"):
            return _described(function(*arguments, **keywords))

    def _recur(self, arguments: list[Any], keywords: dict[str, Any]) -> Seen:
        """Try a recurrent layer on a short sequence: without data it is unrolled, and 512 steps take seconds."""
        sequence = arguments[0] if arguments else None
        if not isinstance(sequence, torch.Tensor) or sequence.dim() not in (2, 3):
            return _described(self._module(*arguments, **keywords))
        axis = 1 if self._module.batch_first and sequence.dim() == 3 else 0
        length = sequence.shape[axis]
        short = sequence.narrow(axis, 0, min(length, _SHORT))
        self._unrolled = length / max(1, short.shape[axis])
        output, state = self._module(short, *arguments[1:], **keywords)
        sizes = list(output.shape)
        sizes[axis] = length
        return Meta(tuple(sizes), output.dtype), _described(state)

    def _explain(self, bound: BoundCall, path: tuple[int, ...], seen: tuple[Seen, ...]) -> Abstract:
        memo: dict[tuple[Trials, int], Seen] = {}

        def rerun(trials: Trials, step: int) -> Seen:
            if (trials, step) not in memo:
                try:
                    memo[trials, step] = _item(self._call(bound, 0, (trials, step)), path)
                except Exception:  # noqa: BLE001  # an odd size may not fit; the expression is then less exact
                    memo[trials, step] = None
            return memo[trials, step]

        return explain(seen, self._inputs, rerun)


def build(construction: Construction, spec: NodeSpec) -> nn.Module:
    """Return the module of a node on the meta device."""
    cls: Any = spec.torch
    with torch.device("meta"):
        arguments = [_constant(argument) for argument in construction.arguments]
        keywords = {name: _constant(argument) for name, argument in construction.keywords}
        module: nn.Module = cls(*arguments, **keywords)
    return without_counting(module)


def without_counting(module: nn.Module) -> nn.Module:
    """Let batch normalisation without data run without its batch counter, and return the module."""
    for part in module.modules():
        if isinstance(part, _BatchNorm) and part.momentum is None:  # the average of all batches
            part.momentum = 0.0
    return module


def _constant(argument: Argument) -> object:
    if isinstance(argument, Construction):
        cls: Any = getattr(nn, argument.target.removeprefix("torch.nn."))
        keywords = {name: _constant(value) for name, value in argument.keywords}
        return cls(*map(_constant, argument.arguments), **keywords)
    assert isinstance(argument, Constant), "a layer is made of constants, and of layers"
    return _live(argument.value)


def _live(value: object) -> object:
    if isinstance(value, TorchConstant):
        return getattr(torch, value.name)
    if isinstance(value, TensorLiteral):
        return torch.tensor(value.elements)
    if isinstance(value, (tuple, list)):
        return type(value)(_live(item) for item in value)
    return value


def _materialized(seen: Seen) -> object:
    """Return the value of a trial with meta tensors."""
    if isinstance(seen, Meta):
        return seen.tensor()
    if isinstance(seen, TorchConstant):
        return getattr(torch, seen.name)
    if type(seen) in (tuple, list):
        assert isinstance(seen, (tuple, list))
        return type(seen)(_materialized(item) for item in seen)
    return seen


def _described(value: object) -> Seen:
    """Return the result of a trial with a `Meta` for each tensor."""
    if isinstance(value, torch.Tensor):
        return Meta(tuple(value.shape), value.dtype)
    if isinstance(value, list):
        return [_described(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_described(item) for item in value)
    return value


def _enlarged(value: Abstract, trial: int, changed: tuple[Trials, int] | None) -> Seen:
    """Return an input in one trial, with `step` added to every size that has the given trials."""
    seen = value.at(trial)
    if changed is None:
        return seen
    trials, step = changed
    if isinstance(seen, Meta):
        shapes = zip(*(each.shape for each in value.trials if isinstance(each, Meta)), strict=True)
        return Meta(tuple(sizes[trial] + step if sizes == trials else sizes[trial] for sizes in shapes), seen.dtype)
    return seen + step if isinstance(seen, int) and value.trials == trials else seen


def _places(results: Returns, *, single: bool, path: tuple[int, ...] = ()) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each output port with its index path in the result."""
    if single and isinstance(results[0], str):
        yield results[0], path
        return
    for index, item in enumerate(results):
        if isinstance(item, str):
            yield item, (*path, index)
        else:
            yield from _places(item, single=False, path=(*path, index))


def _item(result: object, path: tuple[int, ...]) -> Seen:
    for index in path:
        assert isinstance(result, (tuple, list)), "the spec says how the result is taken apart"
        result = result[index]
    return result


def _flat(values: list[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(list(value))
        else:
            yield value
