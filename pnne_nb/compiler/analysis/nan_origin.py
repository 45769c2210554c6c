"""Finds the operation that made the first NaN or infinity of a result, by watching every operation of a step.

A NaN spreads to all that is computed from it, so the layer that shows it is rarely the one that made it. The trace notes for
each bad result which operation made it and from which bad inputs, and goes back from the end: what was absorbed on the way,
such as the ``-inf`` of a mask in a softmax, is on no path back and is not blamed.
"""

from __future__ import annotations

import linecache
import math
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

import msgspec
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pnne_nb.compiler import generated as parent
from pnne_nb.compiler.analysis.interpreter import current_node
from pnne_nb.compiler.analysis.nested_values import tensor_leaves

Stage: TypeAlias = Literal["data", "weights", "forward", "loss", "backward"]
"""Where a bad value comes from: what the step was given (`data`, `weights`), or what it has computed."""

_ROOT: Final = str(Path(__file__).parents[2])
_TORCH: Final = str(Path(torch.__file__).parent)
_LIBRARIES: Final = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})
_GENERATED: Final = f"<{parent.__name__}."
_SPOKEN: Final = {
    "addmm": "linear",
    "bmm": "matmul",
    "baddbmm": "matmul",
    "mm": "matmul",
    "mv": "matmul",
    "convolution": "conv",
    "mkldnn_convolution": "conv",
    "native_batch_norm": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "native_dropout": "dropout",
    "linalg_vector_norm": "norm",
    "nll_loss_forward": "nll_loss",
    "nll_loss2d_forward": "nll_loss",
    "lift_fresh": "tensor",
    "t": "linear",
}
"""Public names of torch's inner operations."""
UNWRITTEN: Final = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""Operations that return uninitialised memory: their values mean nothing."""
_FILLS: Final = frozenset({
    "fill", "fill_", "full", "full_like", "new_full", "masked_fill", "masked_fill_", "constant_pad_nd", "scalar_tensor",
    "lift_fresh", "lift_fresh_copy", "_to_copy", "where", "copy_", "index_put", "index_put_", "max_pool2d_with_indices",
})  # fmt: skip
"""Operations that write constants: an infinity that they write is intended."""


class SourceLine(msgspec.Struct, frozen=True):
    """A line of a program.

    Attributes:
        file: Its path; of a drawn graph, the name of the generated source.
        line: Its number, from 1.
        text: The line itself, without spaces around it.
    """

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        where = "generated code" if self.file.startswith(_GENERATED) else self.file
        # A kernel writes the code of a cell into a file of its own, whose path tells a reader nothing.
        where = "a cell" if "/ipykernel_" in where else where
        return f"{where}, line {self.line}: {self.text}" if self.text else f"{where}, line {self.line}"


class Operand(msgspec.Struct, frozen=True):
    """What an operation was given.

    Attributes:
        shape: Its sizes.
        dtype: Its type without ``torch.``, e.g. ``"float32"``.
        low: Its least finite value, `high` the greatest; NaN where none is finite.
        zeros: How many of its values are 0.
    """

    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    zeros: int


class NanOrigin(msgspec.Struct, frozen=True):
    """Where the first NaN or infinity of a step was made.

    Attributes:
        stage: In which part of the step; `data` and `weights` held it before.
        node: Path of the node or submodule, as on screen; None in the model's own ``forward`` and outside of it.
        operation: The function, as users call it, e.g. ``"log"``; of a backward pass, the one that is differentiated.
        source: The user's line that called it, or None if only libraries did.
        made: What came out: ``"3 NaN of 64 values"``.
        nan: Whether a NaN did, not only infinities.
        dtype: Of the result, e.g. ``"float16"``.
        operands: What went in.
        bad: Along each dimension of the result, the indices of bad values; `shape` has its sizes.
        shape: See there.
        name: The input, target, parameter or buffer that held it before, or ``""``.
        by_hand: Whether an infinity was there on purpose and became a NaN here.
        outside: Whether it was made outside of the model, as in the loss; of a backward pass, where the function was called.
    """

    stage: Stage
    node: str | None
    operation: str | None
    source: SourceLine | None
    made: str
    nan: bool
    dtype: str
    operands: tuple[Operand, ...] = ()
    bad: tuple[tuple[int, ...], ...] = ()
    shape: tuple[int, ...] = ()
    name: str = ""
    by_hand: bool = False
    outside: bool = False

    def rows(self, examples: int) -> tuple[int, ...]:
        """Return the examples of a batch whose values are bad, where a dimension of the result tells."""
        for dimension, size in enumerate(self.shape[:2]):
            if size == examples:
                return self.bad[dimension]
        size = self.shape[0] if self.shape else 0
        if examples and size > examples and size % examples == 0:
            # Tokens or heads of one example lie side by side.
            return tuple(sorted({index // (size // examples) for index in self.bad[0]}))
        return ()


class _Place(NamedTuple):
    node: str | None
    inside: bool  # of the model
    file: str
    line: int


@dataclass(slots=True, eq=False)
class _Event:
    """An operation that gave a bad result."""

    operation: str
    place: _Place
    backward: bool
    parents: list[_Event] = field(default_factory=list)
    leaf: str = ""  # of a bad input that no operation has made
    nan: bool = False
    meant: bool = False
    told: dict[str, Any] = field(default_factory=dict)


@final
class OriginTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Watches the operations of a step in a ``with`` block; `origin` then tells where bad values came from.

    The step has forward and backward passes of `model`, and whatever a loss does. Every result is looked at, so a step takes
    some times as long as usual.

    Args:
        model: The module that runs.
        given: Tensors that the step begins with, by name: the batch. The model's own are known.
        found: Called with the origin of a NaN, or in the backward pass of an infinity, as soon as it is made; what it raises
            ends the step.
    """

    def __init__(
        self,
        model: nn.Module,
        given: Mapping[str, Tensor] | None = None,
        found: Callable[[NanOrigin], None] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._found = found
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._leaves: dict[int, str] = {}
        self._held: dict[str, Tensor] = {}
        for name, tensor in [*(given or {}).items(), *model.named_parameters(), *model.named_buffers()]:
            if _bad(tensor):
                self._leaves[_address(tensor)] = name
                self._held[name] = tensor.detach()
        self._weights = {name for name, _ in [*model.named_parameters(), *model.named_buffers()]} - set(given or {})
        self._buffers = {name for name, _ in model.named_buffers()}
        self._makers: dict[int, _Event] = {}
        self._places: dict[int, tuple[str, _Place]] = {}
        self.events: list[_Event] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, and remember who made its result if that is bad."""
        del types
        given = tensor_leaves((args, kwargs))
        bad_before = [tensor for tensor in given if _bad(tensor)]
        differentiated: Any = torch._C._current_autograd_node()
        name = str(func.overloadpacket.__name__)
        if differentiated is None:
            self._remember(name)
        # An operation in place leaves nothing of what it was given.
        operands = (
            () if bad_before and not self._all_meant(bad_before) else tuple(map(_operand, filter(_is_float, given)))
        )
        result = func(*args, **(kwargs or {}))
        made = tensor_leaves(result)
        addresses = {_address(tensor) for tensor in given}
        writes = func._schema.is_mutable
        bad = []
        for tensor in made:
            if name in UNWRITTEN or not _bad(tensor):
                if _address(tensor) not in addresses or (writes and not _bad(tensor)):
                    self._makers.pop(_address(tensor), None)
            elif writes or _address(tensor) not in addresses:
                bad.append(tensor)
        if bad:
            self._note(name, differentiated, bad_before, bad, operands, (args, kwargs))
        return result

    def origin(self, results: Iterable[Tensor]) -> NanOrigin | None:
        """Tell where the first bad value behind `results` was made; None if all of them are finite, or nobody knows."""
        ends: list[_Event] = []
        for tensor in results:
            if _bad(tensor):
                maker = self._makers.get(_address(tensor))
                if maker is not None:
                    ends.append(maker)
                elif _address(tensor) in self._leaves:
                    return self._of_leaf(self._leaves[_address(tensor)], None)
        return self.first(ends)

    def first(self, ends: Sequence[_Event]) -> NanOrigin | None:
        """Tell where the first bad value on the ways to `ends` was made."""
        order = {id(event): index for index, event in enumerate(self.events)}
        pending, seen = list(ends), set[int]()
        roots: list[_Event] = []
        while pending:
            event = pending.pop()
            if id(event) in seen:
                continue
            seen.add(id(event))
            if not event.meant and all(each.meant for each in event.parents):
                roots.append(event)
            pending += event.parents
        if not roots:
            # The result is infinite because somebody wrote an infinity.
            roots = [event for event in self.events if id(event) in seen]
        if not roots:
            return None
        root = min(roots, key=lambda event: order[id(event)])
        if root.leaf:
            return self._of_leaf(root.leaf, root)
        place = root.place
        stage: Stage = "backward" if root.backward else "forward" if place.inside else "loss"
        source = SourceLine(place.file, place.line, linecache.getline(place.file, place.line).strip())
        # A backward pass without a place tells nothing of where its function was called.
        outside = not place.inside and bool(place.file)
        return NanOrigin(
            stage, place.node, _spoken(root.operation), source if place.file else None, outside=outside, **root.told
        )

    def _all_meant(self, tensors: Sequence[Tensor]) -> bool:
        makers = (self._makers.get(_address(tensor)) for tensor in tensors)
        return all(maker is None or maker.meant for maker in makers)

    def _remember(self, operation: str) -> None:
        """Keep where the autograd function under way was called: its number is the last that was given."""
        # Operations that need no gradient have no function: the number is that of one before.
        number = torch._C._autograd._get_sequence_nr() - 1
        if number not in self._places:
            self._places[number] = operation, self._place(sys._getframe(2))

    def _note(
        self,
        name: str,
        differentiated: Any,
        bad_before: Sequence[Tensor],
        bad: Sequence[Tensor],
        operands: tuple[Operand, ...],
        arguments: object,
    ) -> None:
        place, operation = self._place(sys._getframe(2)), name
        if differentiated is not None:
            operation, place = self._of_function(differentiated, name, place)
        event = _Event(operation, place, backward=differentiated is not None)
        unknown = False
        for tensor in bad_before:
            address = _address(tensor)
            if address in self._makers:
                event.parents.append(self._makers[address])
            elif address in self._leaves:
                leaf = self._leaves[address]
                if leaf not in self._buffers or _has_nan(tensor):
                    event.leaf = event.leaf or leaf
                else:
                    unknown = True  # a buffer of infinities is a mask
            else:
                unknown = True
        event.nan = any(map(_has_nan, bad))
        infinite = (isinstance(leaf, float) and math.isinf(leaf) for leaf in pytree.tree_leaves(arguments))
        constant = name in _FILLS and (unknown or any(infinite))
        passed_on = bool(event.parents or unknown) and all(each.meant for each in event.parents)
        event.meant = not event.nan and not event.leaf and (constant or passed_on)
        if not event.parents or all(each.meant for each in event.parents):
            first = bad[0]
            event.told = {
                "made": found(first),
                "nan": event.nan,
                "dtype": _dtype(first),
                "operands": operands,
                "bad": _indices(first),
                "shape": tuple(first.shape),
                "by_hand": bool(event.parents or unknown),
            }
        self.events.append(event)
        for tensor in bad:
            self._makers[_address(tensor)] = event
        if self._found is not None and (event.nan or event.backward):
            origin = self.first([event])
            if origin is not None:
                self._found(origin)

    def _of_function(self, function: Any, name: str, place: _Place) -> tuple[str, _Place]:
        """Return the name of a function that is differentiated, and where it was called."""
        kept = self._places.get(function._sequence_nr())
        own = type(function).__name__
        # A function of the user's has Python code of its own; torch's are written in C++.
        custom = isinstance(function, torch.autograd.function.BackwardCFunction)
        operation = own.removesuffix("Backward") if custom else _snake(own)
        if kept is not None:
            called = kept[1]
            in_hook = place.file and not custom
            operation = name if in_hook else operation
            place = _Place(
                place.node or called.node, called.inside or place.inside, *(place[2:] if place.file else called[2:])
            )
        elif not place.file and operation in {"", "accumulate_grad"}:
            operation = name
        return operation, place

    def _place(self, frame: types.FrameType | None) -> _Place:
        """Return where in the model and in the user's code a frame is; in a backward pass, no further out than that."""
        path: str | None = None
        file, line, library = "", 0, ("", 0)
        drawn = False
        start = frame
        while frame is not None:
            name = frame.f_code.co_filename
            if frame.f_code.co_name == "_engine_run_backward":
                break
            is_drawn = name.startswith(_GENERATED)
            drawn = drawn or is_drawn
            if not file and not name.startswith((_TORCH, _ROOT, "<frozen")):
                if not name.startswith(_LIBRARIES):
                    file, line = name, frame.f_lineno
                elif not library[0] and "site-packages" in name:
                    library = name, frame.f_lineno
            if path is None:
                owner = frame.f_locals.get("self")
                if isinstance(owner, nn.Module):
                    path = self._paths.get(id(owner))
            if path is not None and file:
                break
            frame = frame.f_back
        node = current_node(start) if drawn or path is not None else ""
        if path is not None and len(path) > len(node) and path.startswith(f"{node}." if node else ""):
            node = path
        return _Place(node or None, path is not None, *((file, line) if file else library))

    def _of_leaf(self, name: str, event: _Event | None) -> NanOrigin:
        tensor = self._held[name]
        stage: Stage = "weights" if name in self._weights else "data"
        node = name.rpartition(".")[0] or None if stage == "weights" else None
        return NanOrigin(
            stage,
            node,
            _spoken(event.operation) if event is not None else None,
            None,
            found(tensor),
            _has_nan(tensor),
            _dtype(tensor),
            bad=_indices(tensor),
            shape=tuple(tensor.shape),
            name=name,
        )


def found(tensor: object) -> str:
    """Say what of a tensor is not finite: ``"3 NaN and 1 infinite of 64 values"``; nothing of one that is, or no tensor."""
    if not isinstance(tensor, Tensor) or not _bad(tensor):
        return ""
    counts = {"NaN": int(tensor.isnan().sum()), "infinite": int(tensor.isinf().sum())}
    said = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{said} of {tensor.numel()} values"


def described(operand: Operand) -> str:
    """Return an operand in words: ``"[8, 4] float32, from 0 to 3, 2 of them 0"``."""
    between = f", from {operand.low:.4g} to {operand.high:.4g}" if operand.low == operand.low else ""
    zeros = f", {operand.zeros} of them 0" if operand.zeros else ""
    return f"{list(operand.shape)} {operand.dtype}{between}{zeros}"


def _spoken(operation: str) -> str:
    # In place or not, torch's own version or the public one: the same to a person.
    plain = operation.strip("_") or operation
    return _SPOKEN.get(plain, plain)


def _snake(name: str) -> str:
    """Return the name of a function from its autograd node: ``"log_softmax"`` for ``"LogSoftmaxBackward0"``."""
    plain = re.sub(r"Backward\d*$", "", name.rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def _is_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.device.type != "meta" and tensor.layout == torch.strided


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _bad(tensor: Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.device.type == "meta":
        return False
    values = tensor.detach()
    if values.layout != torch.strided:
        values = values.coalesce().values() if values.layout == torch.sparse_coo else values.values()
    return not bool(values.isfinite().all())


def _has_nan(tensor: Tensor) -> bool:
    return bool(tensor.detach().isnan().any())


def _indices(tensor: Tensor) -> tuple[tuple[int, ...], ...]:
    if tensor.layout != torch.strided:
        return ()
    places = (~tensor.detach().isfinite()).nonzero()
    return tuple(tuple(sorted(set(column.tolist()))) for column in places.unbind(1))


def _operand(tensor: Tensor) -> Operand:
    values = tensor.detach()
    finite = values[values.isfinite()]
    low, high = (float("nan"),) * 2 if finite.numel() == 0 else map(float, torch.aminmax(finite))
    return Operand(tuple(values.shape), _dtype(values), low, high, int((values == 0).sum()))


def _address(tensor: Tensor) -> int:
    if tensor.layout != torch.strided:
        return id(tensor)
    # Views share what they are views of; an empty storage has no address.
    return tensor.untyped_storage().data_ptr() or id(tensor)
