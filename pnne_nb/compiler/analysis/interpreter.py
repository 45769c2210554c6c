"""Follows a compiled model through its generated code, node by node, while it runs.

The model and its source stay unchanged: Python's trace function (``sys.settrace``) reports each finished line of
generated code. Other code runs untraced. Python traces each thread separately; a debugger's trace function is
replaced during the run and put back afterwards.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import nn
from torch.autograd.graph import Node

from pnne_nb.compiler import generated as parent
from pnne_nb.compiler.analysis.nested_values import tensor_leaves
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.codegen.source_map import Generated, NodeLine
from pnne_nb.compiler.module.call_errors import inside_box, running_inside

_PREFIX = f"<{parent.__name__}."


class NodeExecution(NamedTuple):
    """A node that has run, with its inputs and outputs.

    Attributes:
        node: Its path; ``""`` for the model itself, whose arguments are then the outputs.
        inputs: What it was given, by variable.
        outputs: What it gave, by variable.
        source: The statement that ran.
        module: Whose ``forward`` holds it.
    """

    node: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    source: str
    module: nn.Module


Observe: TypeAlias = Callable[[NodeExecution], Mapping[str, Any] | None]


@contextmanager
def stepping(model: nn.Module, observe: Observe) -> Iterator[None]:
    """Call `observe` after each node of `model` that runs during the ``with`` block.

    What it returns, by variable, takes the place of what the node gave. What it raises ends the forward pass. Nodes inside a
    nested graph come before the node that shows it. Other threads are followed while they are inside a call of the model: a
    training need not run in this one.
    """

    def enter(frame: types.FrameType, event: str, _: object) -> Callable[..., Any] | None:
        generated = _generated(frame) if event == "call" and frame.f_code.co_name == "forward" else None
        if generated is None or _outermost(frame).f_locals.get("self") is not model:
            return None
        return _Watched(frame, generated, observe)

    @contextmanager
    def traced() -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(enter)
        try:
            yield
        finally:
            sys.settrace(before)

    with traced(), running_inside(model, traced):
        yield


def added_functions(known: set[Node], step: NodeExecution) -> Iterator[Node]:
    """Yield the autograd functions that a node has added, nearest to its results first, and add them to `known`.

    Args:
        known: Those of earlier nodes; the set keeps them alive, because their address identifies them.
        step: The node that has run.
    """
    pending = [leaf.grad_fn for leaf in tensor_leaves(dict(step.outputs)) if leaf.grad_fn is not None]
    while pending:
        function = pending.pop()
        if function not in known:
            known.add(function)
            pending += [following for following, _ in function.next_functions if following is not None]
            yield function


def current_node(frame: types.FrameType | None, called: object = None) -> str:
    """Return the path of the node that runs in `frame` or in its callers; ``""`` if there is none.

    Args:
        frame: The innermost one.
        called: The generated module whose ``forward`` the frame has called, if it is one.
    """
    names: list[str] = []
    box: object = None
    while frame is not None:
        generated = _generated(frame)
        line = generated.lines.get(frame.f_lineno) if generated is not None else None
        part = frame.f_locals.get("self")
        if line is not None and line.calls:
            names += [*reversed(inside_box(box, called)), line.node]
            called, box = part, None
        elif called is not None and isinstance(part, nn.Module):
            box = part  # the outermost one between two lines
        frame = frame.f_back
    return ".".join(reversed(names))


def _generated(frame: types.FrameType) -> Generated | None:
    """Return the source that a frame runs, if it is generated."""
    filename = frame.f_code.co_filename
    loaded = loader.find(filename) if filename.startswith(_PREFIX) else None
    return loaded.generated if loaded is not None else None


def _outermost(frame: types.FrameType) -> types.FrameType:
    found, current = frame, frame.f_back
    while current is not None:
        if current.f_code.co_name == "forward" and _generated(current) is not None:
            found = current
        current = current.f_back
    return found


@final
class _Watched:
    """The trace function of one frame of generated code."""

    def __init__(self, frame: types.FrameType, generated: Generated, observe: Observe) -> None:
        self._generated = generated
        self._observe = observe
        self._prefix = current_node(frame.f_back, frame.f_locals["self"])
        self._line: NodeLine | None = None
        self._before = _snapshot(frame)
        if not self._prefix:
            arguments = {name: value for name, (value, _) in self._before.items()}
            observe(NodeExecution("", {}, arguments, "", frame.f_locals["self"]))

    def __call__(self, frame: types.FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if event in ("line", "return"):
            now = _snapshot(frame)
            made = {name: value for name, (value, _) in now.items() if not _same(self._before.get(name), now[name])}
            if made and self._line is not None:
                node = f"{self._prefix}.{self._line.node}" if self._prefix else self._line.node
                inputs = {name: self._before[name][0] for name in self._line.variables if name in self._before}
                step = NodeExecution(node, inputs, made, self._statement(self._line), frame.f_locals["self"])
                if changed := self._observe(step):
                    # Python takes over what was written last, when this function returns.
                    frame.f_locals.update(changed)
                    now |= {name: (value, _version(value)) for name, value in changed.items()}
            self._line, self._before = self._generated.lines.get(frame.f_lineno), now
        return self

    def _statement(self, line: NodeLine) -> str:
        texts = self._generated.text.splitlines()
        return "\n".join(texts[number - 1] for number, each in self._generated.lines.items() if each is line)


def _snapshot(frame: types.FrameType) -> dict[str, tuple[Any, int]]:
    """Return the local variables, each with how often it was changed in place."""
    return {name: (value, _version(value)) for name, value in frame.f_locals.items() if name != "self"}


def _version(value: object) -> int:
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _same(before: tuple[Any, int] | None, now: tuple[Any, int]) -> bool:
    return before is not None and before[0] is now[0] and before[1] == now[1]
