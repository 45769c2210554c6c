"""The inputs of a call in other sizes: a drawing must do with them what the module does, or say that it cannot.

What Python takes from the example unseen, such as a size that chooses from a list, shows only here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.catalog.operators import CHECK
from pnne_nb.compiler.copying import Copies, duplicate
from pnne_nb.compiler.filling import Filling
from pnne_nb.compiler.importing.locating import TRIES
from pnne_nb.compiler.verifying import copied, difference, private_random_state, tensors_in
from pnne_nb.errors import ExecutionError
from pnne_nb.graph.document import NodeGraph

MAX_SIZES = 4
"""Sizes of the example that are tried with other numbers, the largest first."""


def resized(inputs: Any) -> Iterator[Any]:
    """Yield inputs in which one size is another, wherever it occurs: half of it, or one more where it is odd."""
    sizes = sorted({size for tensor in tensors_in(inputs) for size in tensor.shape if size > 1}, reverse=True)
    for size in sizes[:MAX_SIZES]:
        yield with_size(inputs, size, size // 2 if size % 2 == 0 else size + 1)


def with_size(inputs: Any, size: int, new: int) -> Any:
    """Return inputs whose tensors have `new` elements along every dimension that has `size` of them.

    More than there are repeat the last: what is in order stays so, as the offsets of bags must be. With others some of
    torch's kernels leave parts of the result unwritten.
    """

    def other(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return leaf
        for dim, present in enumerate(leaf.shape):
            if present == size:
                leaf = leaf.index_select(dim, torch.arange(new, device=leaf.device).clamp(max=size - 1))
        return leaf

    return pytree.tree_map(other, inputs)


def batch_of(net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Return the first size of the inputs if it counts examples: one of them changes one row of the results.

    None if that is not so, as for the steps of a sequence, or cannot be told.
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


def unlike(
    graph: NodeGraph, copies: tuple[Copies, Copies], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return inputs of other sizes with which a drawing does something else than the module, without saying so.

    Args:
        graph: The drawing.
        copies: Of the module, and of what the drawing compiles to.
        args: Of the call, by position.
        kwargs: By name.
    """
    one, other = (each.next().eval() for each in copies)
    if any("_orig_mod" in module._modules for module in one.modules()):
        return None  # torch.compile compiles for each size, and says aloud where that fails
    for given in resized((args, kwargs)):
        for memory in (nullcontext, *[Filling] * (TRIES - 1)):
            with memory():
                expected, refused = _result(one, given)
                found, error = _result(other, given) if refused is None else (None, None)
            if refused is not None:
                break
            if isinstance(error, ExecutionError) and _is_check(graph, error):
                break
            if error is None and not difference(expected, found):
                break
        else:
            with Filling():
                again, _ = _result(one, given)
            if difference(expected, again):
                continue  # it is not equal to itself
            return given  # type: ignore[no-any-return]  # as it came in
    return None


def _result(module: nn.Module, given: Any) -> tuple[Any, Exception | None]:
    args, kwargs = copied(given)
    try:
        with _trial():
            return duplicate(module, _shared)(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001  # whatever it says
        return None, error


@contextmanager
def _trial() -> Iterator[None]:
    """Run a module on inputs that nobody has chosen: it must refuse those that it cannot read.

    Indices of a sparse tensor that lie outside of it are such, and torch would read where they point to.
    """
    checking = torch.sparse.check_sparse_tensor_invariants()  # type: ignore[no-untyped-call]  # torch does not say
    with private_random_state(), torch.no_grad(), checking:
        yield


def _shared(tensor: torch.Tensor) -> torch.Tensor:
    """Return what stands for a tensor in a copy: itself if it is trained, which takes no memory."""
    return tensor.detach() if tensor.requires_grad else tensor.detach().clone()


def _is_check(graph: NodeGraph, error: ExecutionError) -> bool:
    """Whether it is a check in the drawing that has failed."""
    return any(found.node is not None and graph[found.node].type == CHECK for found in error.diagnostics)
