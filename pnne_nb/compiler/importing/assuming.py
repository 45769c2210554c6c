"""What a drawing takes from its example because Python asked, and the checks that hold it to that.

A loop runs as often as in the example, a branch goes as it went. With other sizes the module itself may do something
else, so a check stands in the drawing where the question was: ``torch._assert(x.shape[1] == 6, …)``. What is certain
whatever the inputs are, such as the size of a parameter, is not checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import torch
from torch import fx

from pnne_nb.compiler.importing.quoting import shown
from pnne_nb.compiler.importing.values import Traced, TracedTensor

_OPPOSITE: Mapping[Callable[..., Any], Callable[..., Any]] = {
    operator.eq: operator.ne, operator.ne: operator.eq, operator.lt: operator.ge, operator.ge: operator.lt,
    operator.gt: operator.le, operator.le: operator.gt,
}  # fmt: skip

MAX_SAID = 80
"""Letters of a condition that a check repeats."""

_CUTS = frozenset(("chunk", "split", "tensor_split", "unbind"))
"""Functions and methods whose number of results depends on a size."""


class Batch(NamedTuple):
    """The first size of an argument, which Python took as it is in the example.

    Attributes:
        size: In the example.
        text: What was asked, in the words of the source.
    """

    size: int
    text: str


@final
class Assumptions:
    """Collects what was assumed in one recording, and draws the checks of it.

    Attributes:
        texts: In words.
        batches: First sizes of arguments that were fixed.
        ranked: Whether a number of dimensions was asked for.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._done: set[str] = set()
        self.texts: dict[str, None] = {}
        self.batches: dict[Batch, None] = {}
        self.ranked = False

    def went(self, value: Traced, answer: bool) -> None:
        """Note that a branch went as `answer` says."""
        node = value.node
        self.texts.setdefault(f"{shown(node)} is {answer}")
        opposite = _OPPOSITE.get(node.target) if node.op == "call_function" else None  # type: ignore[arg-type]  # of any kind
        if not _varies(node):
            return
        if answer:
            self._check(node)
        elif opposite is not None:
            self._check(self._graph.create_node("call_function", opposite, node.args))
        else:
            self._check(self._graph.create_node("call_function", operator.not_, (node,)))

    def settled(self, node: fx.Node, value: Any) -> None:
        """Note that a number was taken as it is in the example."""
        self.texts.setdefault(f"{shown(node)} is {value}")
        if not _varies(node):
            return
        if type(value) is int and _is_first_size(node):
            self.batches.setdefault(Batch(value, shown(node)))
        self._check(self._graph.create_node("call_function", operator.eq, (node, value)))

    def given(self, node: fx.Node, value: Any) -> None:
        """Note that an argument is a constant."""
        self._check(
            self._graph.create_node("call_function", operator.is_ if value is None else operator.eq, (node, value))
        )

    def counted(self, value: Traced) -> None:
        """Note that there are as many rows of a tensor, or results of a function, as in the example."""
        node: Any = value.node
        if isinstance(value.value, torch.Size):
            self.ranked = True
        elif type(value) is TracedTensor:
            self.settled(self._size(node, 0), len(value.value))
        elif _name(node) == "unbind":
            dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
            self.settled(self._size(node.args[0], dim), len(value.value))
        elif node.target is operator.mul or (_name(node) in _CUTS and len(value.value) not in node.args):
            # What chunk(3) makes is 3.
            self.settled(self._graph.create_node("call_function", len, (node,)), len(value.value))

    def _size(self, tensor: fx.Node, dim: Any) -> fx.Node:
        shape = self._graph.create_node("call_function", getattr, (tensor, "shape"))
        return self._graph.create_node("call_function", operator.getitem, (shape, dim))

    def _check(self, condition: fx.Node) -> None:
        key = _origin(condition)
        if key not in self._done:
            self._done.add(key)
            text = shown(condition)
            said = f"drawn for {text if len(text) <= MAX_SAID else 'such sizes'}; else import again"
            self._graph.create_node("call_function", torch._assert, (condition, said))


def _name(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", ""))


def _varies(node: fx.Node) -> bool:
    """Whether a value depends on what the module is called with."""
    seen: set[fx.Node] = set()
    pending = [node]
    while pending:
        found = pending.pop()
        if found.op == "placeholder":
            return True
        if found not in seen:
            seen.add(found)
            pending += found.all_input_nodes
    return False


def _is_first_size(node: fx.Node) -> bool:
    """Whether a value is ``x.shape[0]`` or ``x.size(0)`` of an argument."""
    source, last = (*node.args, None, None)[:2]
    if not isinstance(source, fx.Node) or last != 0 or type(last) is not int:
        return False
    if node.target is operator.getitem and (source.target is getattr or source.target == "size"):
        source = source.args[0]
    elif node.target != "size":
        return False
    return isinstance(source, fx.Node) and source.op == "placeholder"


def _origin(value: Any) -> str:
    """Return where a number comes from: the same text for ``x.shape[1]`` wherever it is asked."""
    if not isinstance(value, fx.Node):
        return repr(value)
    if value.target in ("size", getattr) or getattr(value.target, "__module__", "") in ("_operator", "math"):
        return f"{value.target}({', '.join(map(_origin, value.args))})"
    return value.name
