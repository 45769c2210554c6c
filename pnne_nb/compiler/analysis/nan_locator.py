"""Names the first node that makes a NaN or an infinity, in the forward pass and in the backward pass.

Compiled models are followed node by node (`interpreter`), other modules operation by operation (`nan_origin`).
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn
from torch.autograd.graph import Node

from pnne_nb.compiler.analysis.interpreter import NodeExecution, added_functions, stepping
from pnne_nb.compiler.analysis.nan_origin import NanOrigin, OriginTrace, described, found
from pnne_nb.compiler.analysis.nested_values import tensor_leaves
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.module.call_errors import NOT_FINITE, describe
from pnne_nb.errors import CompileError, Diagnostic, ExecutionError, answers_misuse, expect

_ATTRIBUTE = re.compile(r'\bself\.([A-Za-z_](?:[\w.]|\[\d+\]|\["\w+"\])*)|getattr\(self, "(\w+)"\)')
_INFINITE = re.compile(r'float\("-?inf"\)')


@answers_misuse("with pn.detect_anomaly(model): ...")
@contextmanager
def detect_anomaly(model: nn.Module) -> Iterator[None]:
    """Raise where a model makes the first NaN or infinity, in the forward or backward pass.

    ::

        with pn.detect_anomaly(model):
            loss_fn(model(x), y).backward()

    A node *makes* one if its inputs are free of it; what only passes on is not named. An infinity that a node has
    among its own properties (a mask filled with ``-inf``) is intended, and so is what comes of infinite inputs. An infinity
    that is absorbed on the way, as by a softmax, does no harm; one that reaches the model's output is named there.

    Costs nothing outside the ``with`` block. Inside, each node's result is looked at, and the model is traced
    (`interpreter`) in whichever thread it runs, that of a training included; run only the suspicious steps in it::

        with pn.detect_anomaly(engine.model):
            engine.start()
            engine.wait()                      # raises what names the node

    Args:
        model: From ``pn.compile``, and then it may be part of a larger module; or any other module, which is watched in
            the calling thread.

    Raises:
        CompileError: If ``torch.compile`` hides what `model` does.
        ExecutionError: From the forward or the backward pass, at the first NaN or infinity; the message names the
            node, or the submodule, the operation and the line, and describes its inputs.
    """
    expect(model, nn.Module, "model", "a module")
    if model._compiled_call_impl is not None:
        raise CompileError(
            "torch.compile hides the nodes of this model: compile the graph without a backend to check it."
        )
    if loader.loaded_from(model) is None:
        with _watched_operations(model):
            yield
        return
    watch = _Watch()
    handle = model.register_forward_hook(watch.returned)
    with stepping(model, watch.step):
        try:
            yield
        except RuntimeError as error:
            watch.blame(error)
            raise
        finally:
            handle.remove()
            watch.end()


@contextmanager
def _watched_operations(model: nn.Module) -> Iterator[None]:
    """Watch a module of any kind: NaN is told where it is made, an infinity where the model returns it."""
    trace = OriginTrace(model, found=_raise)

    def returned(_module: nn.Module, _given: object, output: object) -> None:
        origin = trace.origin(tensor_leaves(output))
        if origin is not None:
            _raise(origin)

    handle = model.register_forward_hook(returned)
    try:
        with trace:
            yield
    finally:
        handle.remove()


def _raise(origin: NanOrigin) -> None:
    where = f"Submodule {origin.node!r}" if origin.node is not None else "The model"
    if origin.stage == "loss" or origin.outside:
        where = "The loss, or code outside of the model,"
    if origin.stage in {"data", "weights"}:
        message = f"{origin.name!r} holds {origin.made} before {where[0].lower()}{where[1:]} has run."
    else:
        source = "" if origin.source is None else f"\nAt {origin.source}"
        inputs = "".join(f"\n  {described(operand)}" for operand in origin.operands)
        passed = "backward" if origin.stage == "backward" else "forward"
        message = (
            f"{where} made {origin.made} in the {passed} pass, in {origin.operation}.{source}"
            f"{f'{chr(10)}Its inputs:{inputs}' if inputs else ''}"
        )
    raise _error(message, origin.node)


@final
class _Watch:
    def __init__(self) -> None:
        self._active = True
        self._backwards = ""  # the node whose gradient is computed
        self._passes = threading.local()  # each thread has a forward pass of its own

    def returned(self, _model: nn.Module, _given: object, output: object) -> None:
        """Raise, with the node that made it, if an infinity that no later call has absorbed reaches the model's output."""
        infinite = vars(self._passes).get("infinite")
        if infinite is not None and any(map(found, tensor_leaves(output))):
            raise infinite

    def end(self) -> None:
        self._active = False
        self._passes = threading.local()

    def blame(self, error: RuntimeError) -> None:
        """Say at which node the backward pass failed, if it did: autograd names functions of its own alone."""
        node, passes = self._backwards, vars(self._passes)
        if isinstance(error, ExecutionError) or not node or "modified by an inplace" not in str(error):
            return
        changed = ", ".join(dict.fromkeys(passes.get("changed", ())))
        error.add_note(
            f"In the backward pass of node {node!r}. Changed in place: by {changed or 'code after the model'}."
        )

    def step(self, step: NodeExecution) -> None:
        if not step.node:
            self._passes.known = set[Node]()  # kept alive, for the hash is the address
            self._passes.changed = []
            self._passes.infinite = None
            for name, value in step.outputs.items():
                if bad := found(value):
                    raise _error(f"The argument {name!r} holds {bad} before any node has run.", name)
            self._note("", step)
            return
        made = tensor_leaves(dict(step.outputs))
        held = [value for value in _named(step) if isinstance(value, torch.Tensor)]
        # What was changed in place was finite before, or an earlier node would have been named.
        given = [t for t in (*tensor_leaves(dict(step.inputs)), *held) if not any(t is each for each in made)]
        if any(value is each for value in tensor_leaves(dict(step.inputs)) for each in made):
            self._passes.changed.append(step.node)
        nan = any(_has(tensor, torch.isnan) for tensor in given) or 'float("nan")' in step.source
        infinite = nan or any(_has(tensor, torch.isinf) for tensor in given) or _INFINITE.search(step.source)
        for value in made:
            made_nan = not nan and _has(value, torch.isnan)
            if made_nan or (not infinite and _has(value, torch.isinf)):
                error = _error(
                    f"Node {step.node!r} made {found(value)} in the forward pass, in a result {describe(value)}."
                    f"{_listed(step.inputs, made)}{_of_its_own(step)}",
                    step.node,
                )
                spoilt = self._passes.infinite if any(_has(tensor, torch.isinf) for tensor in given) else None
                if made_nan:
                    raise spoilt or error
                # It may be absorbed on the way, as a softmax does.
                self._passes.infinite = self._passes.infinite or error
        self._note(step.node, step)

    def _note(self, node: str, step: NodeExecution) -> None:
        """Watch the backward functions that a node has added, and leave those it was given."""
        inputs = _listed(step.inputs, tensor_leaves(dict(step.outputs)))
        for function in added_functions(self._passes.known, step):
            if node and type(function).__name__ != "AccumulateGrad":
                function.register_prehook(functools.partial(self._begin, node))
                function.register_hook(self._backward(node, inputs))

    def _begin(self, node: str, _: object) -> None:
        self._backwards = node

    def _backward(self, node: str, inputs: str) -> Callable[..., None]:
        def hook(made: tuple[torch.Tensor | None, ...], given: tuple[torch.Tensor | None, ...]) -> None:
            if not self._active:
                return
            if bad := next(filter(None, map(found, given)), ""):
                raise _error(
                    f"The gradient that reaches node {node!r} already holds {bad}: it was produced after the model, "
                    "by the loss.",
                    node,
                )
            if bad := next(filter(None, map(found, made)), ""):
                raise _error(f"Node {node!r} made {bad} in the backward pass, in a gradient.{inputs}", node)

        return hook


def _named(step: NodeExecution) -> Iterator[object]:
    """Yield what a statement names of the module itself: ``self.mask``, ``self.layers[1]``, ``getattr(self, "0")``."""
    for path, odd in _ATTRIBUTE.findall(step.source):
        value: object = step.module
        for name in re.findall(r"\w+", path or odd):
            value = getattr(value, name, value if name.isdigit() else None)
        yield value


def _of_its_own(step: NodeExecution) -> str:
    """Say what is not finite among the parameters and buffers of the module that a statement calls."""
    owners = [value for value in _named(step) if isinstance(value, nn.Module)]
    tensors = [pair for owner in owners for pair in (*owner.named_parameters(), *owner.named_buffers())]
    return "".join(f"\n  Its {name} holds {bad}." for name, tensor in tensors if (bad := found(tensor)))


def _has(tensor: torch.Tensor, test: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.device.type == "meta":
        return False
    return bool(test(tensor.detach()).any())


def _listed(inputs: Mapping[str, Any], changed: list[torch.Tensor]) -> str:
    lines = [
        f"\n  {name}: {describe(value)}{', changed in place' if any(value is t for t in changed) else _range(value)}"
        for name, value in inputs.items()
    ]
    return f"\nIts inputs:{''.join(lines)}" if lines else ""


def _range(value: object) -> str:
    if not isinstance(value, torch.Tensor) or value.numel() == 0 or not value.is_floating_point():
        return ""
    low, high = torch.aminmax(value.detach())
    return f", from {low.item():.4g} to {high.item():.4g}"


def _error(message: str, node: str | None) -> ExecutionError:
    return ExecutionError(message, [Diagnostic(code=NOT_FINITE, message=message, node=node)])
