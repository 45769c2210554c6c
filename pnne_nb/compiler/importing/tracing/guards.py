"""Guards: values that an import takes from its example because Python asked for them, and the checks of these values.

A loop runs as often as in the example, and a branch goes the same way. With other sizes the module itself may do
something else, so the document checks the condition at that place: ``torch._assert(x.shape[1] == 6, …)``. Values that
cannot depend on the inputs, such as the size of a parameter, are not checked.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, FunctionType
from typing import Any, TypeAlias, final

import torch
from torch import fx

from pnne_nb.catalog.operators import check_structure
from pnne_nb.compiler.importing.draft.describe import BECAUSE, in_words, shown
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.draft.source_lines import line_number_of, line_of, place_of
from pnne_nb.compiler.importing.tracing.call_effects import AUTOCAST, TYPE, changes, draws
from pnne_nb.compiler.importing.tracing.call_site import asking, is_followed, spot_of
from pnne_nb.compiler.importing.tracing.proxies import EXAMPLE, UNKNOWN, Traced, TracedTensor

_OPPOSITE: Mapping[Callable[..., Any], Callable[..., Any]] = {
    operator.eq: operator.ne, operator.ne: operator.eq, operator.lt: operator.ge, operator.ge: operator.lt,
    operator.gt: operator.le, operator.le: operator.gt,
}  # fmt: skip

Path: TypeAlias = tuple[Any, ...]
"""Keys from an argument to a part of it; the name of an attribute is a tuple of one."""

MAX_SAID = 80
"""Characters of the longest condition that a message repeats."""

_CUTS = frozenset(("chunk", "split", "tensor_split", "unbind"))
"""Functions and methods whose number of results depends on a size."""


_VIEWS = frozenset(("view", "reshape"))


@final
class Guards:
    """Collects the assumptions of one recording, and records their checks.

    Attributes:
        texts: The assumptions in words.
        batches: First sizes of arguments that Python took from the example, each with its expression in the source.
        ranked: Whether a number of dimensions was asked for.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._done: set[str] = set()
        self._seen: dict[fx.Node, dict[tuple[str, Path], Any]] = {}
        self.texts: dict[str, None] = {}
        self.batches: dict[tuple[int, str], None] = {}
        self.ranked = False

    def went(self, value: Traced, answer: bool) -> fx.Node | None:
        """Record the answer of a branch, and return its check, if there is a new one."""
        node = value.node
        opposite = _OPPOSITE.get(node.target) if node.op == "call_function" else None  # type: ignore[arg-type]  # of any kind
        if answer or opposite is None:
            return self.computed(node, answer)
        self.texts.setdefault(f"{shown(node)} is {answer}")
        return self._check(self._call(opposite, *node.args)) if _varies(node) else None

    def settled(self, node: fx.Node, value: Any) -> fx.Node | None:
        """Record that a number or an element type was taken from the example, and return the check."""
        self.texts.setdefault(f"{shown(node)} is {value}")
        if not _varies(node):
            return None
        if type(value) is int and _is_first_size(node):
            self.batches.setdefault((value, shown(node)))
        return self._check(self._call(operator.eq, node, value))

    def given(self, node: fx.Node, value: Any) -> None:
        """Record that an argument is a constant."""
        self._check(self._call(operator.is_ if value is None else operator.eq, node, value))

    def looked(self, node: fx.Node, what: str, expected: Any, *keys: Any, exactly: bool = False) -> bool:
        """Note what the code has seen of the structure of an argument, or of what it is given by code that is not drawn.

        Args:
            node: The container or object.
            what: As in `check_structure`.
            expected: What it was.
            keys: The items in which the code has seen it.
            exactly: Whether it tells a list from a tuple.

        Returns:
            Whether another call may give something else.

        Raises:
            UntranslatableError: If a key is nothing that a document can name.
        """
        path: list[Any] = [*reversed(keys)]
        while node.op == "call_function" and (step := _step(node)) is not None:
            path += step
            node = node.args[0]  # type: ignore[assignment]  # the container
        is_foreign = node.op == "call_function" and _is_foreign(node.target)
        if node.op not in ("placeholder", "call_module") and not is_foreign:
            return False
        if any(type(key) not in (str, int, bool, tuple) for key in path):
            raise UntranslatableError("it is given a dictionary with a key that is no string and no number")
        line = line_of(spot_of(sys._getframe(1)))
        facts, place = self._seen.setdefault(node, {}), (what, tuple(reversed(path)))
        if what == "kind" and expected in ("a list", "a tuple"):
            # Other code, whose isinstance is not seen, may tell them apart.
            exactly = exactly or not is_followed(asking(sys._getframe(1)))
            before = facts.get(place, ("a list or tuple", line))[0]
            facts[place] = expected if exactly else before, line
        facts.setdefault(place, (expected, line))
        return True

    def check_structures(self, names: Callable[[fx.Node], str]) -> None:
        """Record the checks of what the code has seen; `names` are those of arguments in messages."""
        for node, seen in self._seen.items():
            name = names(node)
            for (what, path), (expected, _) in seen.items():
                place = name + "".join(f".{key[0]}" if isinstance(key, tuple) else f"[{key!r}]" for key in path)
                if what != "kind":
                    self.texts.setdefault(f"{place}: {what} {expected}")
            facts = [(path, what, expected, line) for (what, path), (expected, line) in seen.items()]
            with self._graph.inserting_after(node):
                self._call(check_structure, node, facts, name)

    def computed(self, node: fx.Node, answer: bool) -> fx.Node | None:
        """Record the answer of a branch on a tensor that is computed without the elements of any input."""
        self.texts.setdefault(f"{shown(node)} is {answer}")
        return self._check(node if answer else self._call(operator.not_, node)) if _varies(node) else None

    def placed(self, tensor: fx.Node, *, is_cuda: bool) -> None:
        """Record on which kind of device a tensor lies."""
        self.computed(self._call(getattr, tensor, "is_cuda"), is_cuda)

    def required(self, node: fx.Node, frame: FrameType, *, answer: bool) -> None:
        """Record the condition without which the code of a frame raises: ``assert x.max() < 1``."""
        condition = node if answer else self._call(operator.not_, node)
        text = shown(node)
        text = text if len(text) <= MAX_SAID else "a condition on the data"
        self._call(torch._assert, condition, f"the module itself stops unless {text} is {answer} ({place_of(frame)})")

    def viewed(self, target: Any, args: tuple[Any, ...]) -> None:
        """Record the condition of a view on the first size of an input: ``x.view(4, -1, 3)``."""
        tensor, *asked = args or (None,)
        if getattr(target, "__name__", target) not in _VIEWS or type(tensor) is not TracedTensor or not asked:
            return
        sizes = tuple(asked[0] if len(asked) == 1 and type(asked[0]) in (tuple, list, torch.Size) else asked)
        if any(type(size) is not int for size in sizes) or not isinstance(tensor.value, torch.Tensor):
            return  # traced sizes follow the input
        shape, count = tensor.value.shape, math.prod(size for size in sizes if size != -1)
        if 0 in (*shape, *sizes) or not shape or not _varies(tensor.node):
            return
        by, fits = count // math.gcd(count, math.prod(shape[1:])), math.prod(shape) % count == 0
        if not fits or shape[0] not in self._first_sizes() or (-1 in sizes and by == 1):
            return
        numel = self._graph.create_node("call_method", "numel", (tensor.node,))
        if -1 in sizes:
            numel, count = self._call(operator.mod, numel, count), 0
        size = f"{shown(tensor.node)}.shape[0]"
        size = "batch size" + (f" ({size})" if len(size) <= MAX_SAID else "")
        need = f"a multiple of {by}" if -1 in sizes else f"{by}"
        line = line_number_of(spot_of(sys._getframe(1)))
        said = f"{size} must be {need}{BECAUSE}{line} views it as {sizes}"
        self._check(self._call(operator.eq, numel, count), said)

    def _first_sizes(self) -> set[int]:
        """Return the first sizes of the inputs in the example."""
        given = (node.meta.get(EXAMPLE) for node in self._graph.nodes if node.op == "placeholder")
        return {len(each) for each in given if isinstance(each, torch.Tensor) and each.dim()}

    def counted(self, value: Traced) -> None:
        """Record that the number of rows or results was taken from the example."""
        node: Any = value.node
        if isinstance(value.value, torch.Size):
            self.ranked = True
        elif isinstance(value.value, tuple) and self.looked(node, "length", len(value.value)):
            pass
        elif type(value) is TracedTensor:
            self.settled(self._size(node, 0), len(value.value))
        elif _name(node) == "unbind":
            dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
            self.settled(self._size(node.args[0], dim), len(value.value))
        elif node.target is operator.mul or (_name(node) in _CUTS and len(value.value) not in node.args):
            # What chunk(3) makes is 3.
            self.settled(self._call(len, node), len(value.value))

    def _call(self, function: Callable[..., Any], *args: Any) -> fx.Node:
        return self._graph.create_node("call_function", function, args)

    def _size(self, tensor: fx.Node, dim: Any) -> fx.Node:
        return self._call(operator.getitem, self._call(getattr, tensor, "shape"), dim)

    def _check(self, condition: fx.Node, said: str = "") -> fx.Node | None:
        key = origin(condition)
        if key in self._done:
            return None
        self._done.add(key)
        if not said:
            text = shown(condition)
            said = f"imported for {text if len(text) <= MAX_SAID else 'such sizes'}; otherwise import again"
            line = line_of(spot_of(sys._getframe(1)))
            said += f" ({in_words(condition)}{line})" if line else ""
        return self._call(torch._assert, condition, said)


def _is_foreign(target: Any) -> bool:
    """Return whether a function that is called as a whole is neither torch's nor Python's."""
    return isinstance(target, FunctionType) and target.__module__.partition(".")[0] not in ("torch", "pnne_nb")


def _step(node: fx.Node) -> tuple[Any, ...] | None:
    """Return the key of an item, backwards: what stands between it and the first argument of the node that reads it."""
    if node.target is operator.setitem:
        return ()
    if node.target is vars:
        return ()
    if node.target is not operator.getitem or isinstance(node.args[1], fx.Node | slice):
        return None
    is_attribute = getattr(node.args[0], "target", None) is vars
    return ((node.args[1],),) if is_attribute else (node.args[1],)


def without_inputs(node: fx.Node) -> Any:
    """Return the value of a recorded tensor that is computed from sizes and constants alone; else `UNKNOWN`.

    An example is ``(torch.arange(x.shape[1]) >= 0).all()``, whatever `x` holds.
    """
    made: dict[fx.Node, Any] = {}
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            value = _value(node, made)
    except Exception:  # noqa: BLE001  # it needs an input, or cannot be computed here
        return UNKNOWN
    changed = any(
        each.op.startswith("call_")
        and (each.target is operator.setitem or changes(each.op, each.target, each.kwargs))
        and each not in made
        and not made.keys().isdisjoint(_bases(each))
        for each in node.graph.nodes
    )
    return UNKNOWN if changed else value


def _value(node: fx.Node, made: dict[fx.Node, Any]) -> Any:
    if node in made:
        return made[node]
    example = node.meta.get(EXAMPLE, UNKNOWN)
    value: Any
    if isinstance(example, (bool, int, float, str, torch.dtype, torch.Size)):
        value = example
    elif isinstance(example, torch.device):
        value = torch.device("cpu")
    elif node.op not in ("call_function", "call_method") or draws(node):
        raise LookupError(node.name)
    else:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: _value(each, made))
        kwargs = {name: "cpu" if name == "device" else each for name, each in kwargs.items()}
        target: Any = node.target
        value = getattr(args[0], target)(*args[1:], **kwargs) if node.op == "call_method" else target(*args, **kwargs)
    made[node] = value
    return value


def _bases(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the tensors of which a changed tensor may be a view."""
    base = node.args[0] if node.args else None
    while isinstance(base, fx.Node):
        yield base
        base = base.args[0] if base.args else None


def _name(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", ""))


def _varies(node: fx.Node) -> bool:
    """Return whether a value depends on the arguments of the module, or on an element type, which any tensor may change."""
    seen: set[fx.Node] = set()
    pending = [node]
    while pending:
        found = pending.pop()
        if found.op == "placeholder" or _is_type(found):
            return True
        if found not in seen:
            seen.add(found)
            pending += found.all_input_nodes
    return False


def _is_first_size(node: fx.Node) -> bool:
    """Return whether a value is ``x.shape[0]`` or ``x.size(0)`` of an argument."""
    source, last = (*node.args, None, None)[:2]
    if not isinstance(source, fx.Node) or last != 0 or type(last) is not int:
        return False
    if node.target is operator.getitem and (source.target is getattr or source.target == "size"):
        source = source.args[0]
    elif node.target != "size":
        return False
    return isinstance(source, fx.Node) and source.op == "placeholder"


def asks_type(value: Any) -> bool:
    """Return whether a value, which is no tensor, is made of element types, or of whether an autocast is on."""
    if not isinstance(value, fx.Node) or value.meta.get(TYPE) is torch.Tensor:
        return False
    return _is_type(value) or any(map(asks_type, value.all_input_nodes))


def _is_type(node: fx.Node) -> bool:
    return node.target in AUTOCAST or (node.target is getattr and node.args[1:] == ("dtype",))


def origin(value: Any) -> str:
    """Return the origin of a number: the same text for ``x.shape[1]`` wherever the code asks for it."""
    if not isinstance(value, fx.Node):
        return repr(value)
    if value.target in ("size", getattr) or getattr(value.target, "__module__", "") in ("_operator", "math"):
        return f"{value.target}({', '.join(map(origin, value.args))})"
    return value.name
