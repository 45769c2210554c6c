"""Tries an import on inputs of other sizes: it must do what the module does, or refuse them.

Nothing else finds sizes that Python has used unseen, such as a size that selects an item of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.catalog.operators import CHECK, CHECK_STRUCTURE
from pnne_nb.compiler.analysis.dispatch_modes import DigestedProducts, Digests, FillEmptyTensors
from pnne_nb.compiler.analysis.nested_values import copied, difference, has_nan, tensors_in
from pnne_nb.compiler.analysis.verify import key_prefix
from pnne_nb.compiler.importing.draft.describe import BECAUSE
from pnne_nb.compiler.importing.verification.bisect import TRIES
from pnne_nb.compiler.shapes.autocast import unlogged
from pnne_nb.compiler.weights.deepcopy import Copies, duplicate
from pnne_nb.errors import ExecutionError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.origin import FreeSizes
from pnne_nb.process.random_state import private_random_state

MAX_SIZES = 4
"""Sizes of the example that are replaced, the largest first."""


MIN_LESS = 2
"""A first size up to this one is not tried with one less, which would be 0 or its half."""


class Resizing(NamedTuple):
    """A change of one size everywhere in inputs, or of their `first` dimension only.

    Attributes:
        size: The size.
        new: The size instead.
        first: Whether only the first dimension changes.
    """

    size: int
    new: int
    first: bool = False

    def of(self, inputs: Any) -> Any:
        """Return the changed inputs."""
        return with_size(inputs, self.size, self.new, first=self.first)

    def places(self, inputs: Any) -> set[tuple[int, int]]:
        """Return what it changes in inputs: the number of the tensor, and the dimension."""
        pairs = enumerate(zip(tensors_in(inputs), tensors_in(self.of(inputs)), strict=True))
        return {(n, dim) for n, (a, b) in pairs for dim in range(a.dim()) if a.shape[dim] != b.shape[dim]}


def resized(inputs: Any) -> Iterator[Resizing]:
    """Yield changes of one size: halved, or increased by one if odd; the first also to its neighbours, and 1.

    Half of a size has many of the remainders by which code may choose (``self.layers[len(x) % 2]``); a neighbour has none.
    A part such as ``x[:2]`` changes its size only if there is a single example.
    Where the first dimension has the size of another one by chance, it is also changed alone.
    """
    shapes = [tensor.shape for tensor in tensors_in(inputs)]
    sizes = sorted({size for shape in shapes for size in shape if size > 1}, reverse=True)
    changes = [(size, size // 2 if size % 2 == 0 else size + 1) for size in sizes[:MAX_SIZES]]
    first = next((shape[0] for shape in shapes if shape), 0)
    if first:
        changes += [(first, first + 1), (first, first - 1), (first, 1)][: 3 if first > MIN_LESS else 1]
    for size, new in dict.fromkeys(changes):
        yield Resizing(size, new)
        if any(shape[:1] == (size,) for shape in shapes) and any(size in shape[1:] for shape in shapes):
            yield Resizing(size, new, first=True)


def with_size(inputs: Any, size: int, new: int, *, first: bool = False) -> Any:
    """Return inputs whose dimensions of `size` elements, or only `first` ones, have `new` elements.

    Additional elements repeat the last one, so that sorted values such as the offsets of bags stay sorted. With others,
    some of torch's kernels leave parts of the result unwritten.
    """

    def other(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return leaf
        for dim, present in enumerate(leaf.shape[:1] if first else leaf.shape):
            if present == size:
                leaf = leaf.index_select(dim, torch.arange(new, device=leaf.device).clamp(max=size - 1))
        return leaf

    return pytree.tree_map(other, inputs)


def batch_of(net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Return the first size of the inputs if it counts examples: one example changes one row of the results.

    It is None if the size counts something else, such as steps of a sequence, or if that is unknown.
    """
    inputs = args, kwargs
    size = next((len(tensor) for tensor in tensors_in(inputs) if tensor.dim()), 0)

    def rows(change: bool) -> list[torch.Tensor]:
        def doubled(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.dim() or len(leaf) != size:
                return leaf
            other = leaf[-1:].flip(-1) if leaf.dim() > 1 else leaf[-1:]
            return torch.cat([other if change else leaf[:1], leaf[1:], leaf])

        given = copied(pytree.tree_map(doubled, inputs))
        with _trial():
            results = tensors_in(duplicate(net).eval()(*given[0], **given[1]))
        return [result for result in results if result.dim() and len(result) == 2 * size]

    try:
        before, after = rows(change=False), rows(change=True)
    except Exception:  # noqa: BLE001  # it takes no other batch
        return None
    pairs = list(zip(before, after, strict=False))
    told = any(difference(one[0], other[0]) for one, other in pairs)
    return size if told and not any(difference(one[1:], other[1:]) for one, other in pairs) else None


Varied: TypeAlias = dict[frozenset[tuple[int, int]], int]
"""The axes of which a proof varied the size, together: the number of the tensor and the axis; and a size that it tried."""


def unlike(
    graph: NodeGraph, copies: tuple[Copies, Copies], whole: Any, digests: Digests | None, varied: Varied, *, by_mode: bool
) -> Generator[None, None, tuple[tuple[tuple[Any, ...], dict[str, Any]], bool]]:  # fmt: skip
    """Return, piece by piece, inputs of other sizes, and whether an import silently differs from the module for them.

    If it differs for none, they are the smallest that fit in each mode that is tried. Each change is tried on inputs that
    are as small as the changes before it have made them; on the given ones, if it is refused so.

    Args:
        graph: The import.
        copies: Copies of the module, and of the model that the import compiles to.
        whole: Arguments by position and by name.
        digests: Digests of operands, where large products need not be computed.
        varied: Learns the axes at which both do the same with another size.
        by_mode: Whether the module's code depends on the training mode: it may use a size in training alone.
    """
    one, other = (each.next() for each in copies)
    if digests is not None:
        digests.share(one, other)
    smallest = whole
    if any("_orig_mod" in module._modules for module in one.modules()):
        return smallest, False  # it compiles for each size, and raises an error where that fails
    for index, change in enumerate(resized(whole)):
        context = torch.inference_mode if index else torch.no_grad
        is_same = change.places(smallest) == change.places(whole)  # an earlier change may have taken the size away
        for base in (smallest, whole) if is_same and smallest is not whole else (whole,):
            yield
            given = change.of(base)
            answers = [
                tried(graph, one.train(training), other.train(training), given, context, digests)
                for training in ((False, True) if by_mode else (False,))
            ]
            if False in answers:
                return given, True
            if answers[0]:
                if all(answers):
                    places = frozenset(change.places(whole))
                    varied[places] = max(change.new, varied.get(places, 0))
                smallest = given if all(answers) and _size(given) < _size(smallest) else smallest
                break
    return smallest, False


def _size(inputs: Any) -> int:
    return sum(tensor.numel() for tensor in tensors_in(inputs))


def free_sizes(varied: Varied, tensors: Sequence[torch.Tensor]) -> list[FreeSizes]:
    """Return the free sizes of each tensor of the inputs; axes that were varied together have one name."""
    shapes = [tensor.shape for tensor in tensors]
    named: dict[tuple[int, int], tuple[str, int]] = {}
    for places, new in sorted(varied.items(), key=lambda each: len(each[0])):  # the first dimension alone before all
        own = sorted(places - named.keys())
        if own:
            taken = {name for name, _ in named.values()}
            fresh = (f"{letter}{n}" for n in ("", *range(2, len(varied) + 2)) for letter in _letters(own[0], shapes))
            named |= dict.fromkeys(own, (next(name for name in fresh if name not in taken), new))
    return [tuple(named.get((n, axis)) for axis in range(len(shape))) for n, shape in enumerate(shapes)]


def _letters(place: tuple[int, int], shapes: Sequence[torch.Size]) -> str:
    """Return the letters that papers use for the size at an axis, the usual one first."""
    (tensor, axis), rank = place, len(shapes[place[0]])
    if axis == 0:
        return "N" if rank > 1 or tensor == 0 else "S"
    return "HWS" if rank > 3 and axis >= rank - 2 else "DS" if rank > 4 and axis == 2 else "TLS" if rank < 4 else "S"


def tried(
    graph: NodeGraph,
    one: nn.Module,
    other: nn.Module,
    given: Any,
    context: Callable[[], Any] = torch.no_grad,
    digests: Digests | None = None,
    *,
    must_refuse: bool = False,
) -> bool | None:
    """Return whether an import computes what the module does with some inputs; None if either refuses them.

    Args:
        graph: The import.
        one: The module.
        other: The model that the import compiles to; its checks may refuse what the module takes.
        given: Arguments by position and by name.
        context: Makes the context in which both are called.
        digests: Digests of operands, where large products need not be computed.
        must_refuse: Whether inputs that the import takes and the module refuses count as a difference.
    """
    prefix = key_prefix(graph)
    if digests is not None:
        products = DigestedProducts(digests)
        expected, refused = _result(one, given, context, products=products)
        goes_on = refused is None and products.is_certain and not has_nan(expected)
        found, error = _result(other, given, context, prefix, products) if goes_on else (None, None)
        if goes_on and products.is_certain and (_is_check(graph, error) if error else not _differ(expected, found)):
            return None if error else True  # a check looks at sizes: what has read values is not certain
    for memory in (nullcontext, *[FillEmptyTensors] * (TRIES - 1)):
        with memory():
            expected, refused = _result(one, given, context)
            found, error = _result(other, given, context, prefix) if refused is None or must_refuse else (None, None)
        if must_refuse and refused is not None and error is None:
            return False
        if refused is not None or _is_check(graph, error):
            return None
        if error is None and not _differ(expected, found):
            return True
    with FillEmptyTensors():
        again, _ = _result(one, given, context)
    return None if difference(expected, again) else False  # it may not be equal to itself


def _differ(expected: Any, found: Any) -> str:
    """Compare results and buffers; the import has additional buffers for the constants that it draws."""
    (mine, kept), (theirs, others) = expected, found
    return difference(mine, theirs) or difference(kept, {name: others.get(name) for name in kept})


def _result(
    module: nn.Module,
    given: Any,
    context: Callable[[], Any],
    prefix: str = "",
    products: DigestedProducts | None = None,
) -> tuple[Any, Exception | None]:
    args, kwargs = copied(given)
    try:
        copy = duplicate(module, _shared)
        with _trial(), context(), products or nullcontext():
            result = copy(*args, **kwargs)
            # Its buffers, which the next call reads, count too.
            return (result, {name.removeprefix(prefix): buffer.detach() for name, buffer in copy.named_buffers()}), None
    except Exception as error:  # noqa: BLE001  # a module may refuse with any error
        return None, error


@contextmanager
def _trial() -> Iterator[None]:
    """Run a module on generated inputs, which it may refuse.

    Such inputs can be indices outside a sparse tensor, and torch would read the memory that they point to.
    """
    checking = torch.sparse.check_sparse_tensor_invariants()  # type: ignore[no-untyped-call]  # torch does not say
    with private_random_state(), torch.no_grad(), checking, unlogged():  # torch.cond compiles what it calls
        yield


def _shared(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor for a copy: a parameter is shared, which needs no memory."""
    return tensor.detach() if tensor.requires_grad else tensor.detach().clone()


def _is_check(graph: NodeGraph, error: Exception | None) -> bool:
    """Return whether a check has failed that only the import has."""
    # What fails inside a closed part has no node of its own.
    said = error.diagnostics if isinstance(error, ExecutionError) else ()
    failed = [graph[found.node] for found in said if found.node is not None and found.node in graph]
    return any(
        node.type in (CHECK, CHECK_STRUCTURE) and BECAUSE not in str(node.properties.get("message")) for node in failed
    )
