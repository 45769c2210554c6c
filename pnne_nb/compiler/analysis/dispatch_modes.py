"""Changes what torch's operators compute while two modules are compared: empty memory, and products that take long."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, Self, final

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pnne_nb.compiler.analysis.nested_values import tensor_leaves

_aten = torch.ops.aten

_FRESH = (_aten.empty, _aten.empty_like, _aten.empty_permuted, _aten.empty_strided, _aten.new_empty,
          _aten.new_empty_strided)  # fmt: skip

LEAST_PRODUCTS = 2**21
"""Multiplications from which on an operator takes longer than the digest of its operands."""

LEAST_SHARE = 24
"""Multiplications per number that is read or written from which on that holds."""

_TABLE = 2**17
"""Number of random numbers that results are made of."""

_FEW, _STEP = 2**17, 61
"""Elements from which on the gradient of a weight repeats few numbers, and the step between the starts of its rows."""

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

_READS = (_aten.is_nonzero, _aten.nonzero, _aten.masked_select)
"""Operators whose result is a number, or has a shape, that depends on values; torch tags most of them, but not all."""

MANY_PARAMETERS, MANY_INPUTS = 2**20, 2**14
"""Numbers of elements below which a module usually has no large product."""


@final
class FillEmptyTensors(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """During a ``with`` block, `torch.empty` and its like return ones, in the calling thread.

    torch's own switch for this belongs to the whole process, and so to a training beside it, whose algorithms it
    changes.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in _FRESH and result.layout == torch.strided:
            # Ones are valid as numbers and as most indices, and hide nothing as NaN would.
            result.fill_(1)
        return result


class ReadsError(Exception):
    """Code asks for values where these are not computed."""


class Digest(NamedTuple):
    """Digest of a tensor's content.

    Attributes:
        crc: Of its bytes, in the order in which they lie.
        has_nan: Whether it has a NaN.
    """

    crc: int
    has_nan: bool


@final
class Digests:
    """Digests of tensors; those of parameters that two modules have in the same memory are kept for their next use.

    Code may change such a parameter in ways that are not seen here, as NumPy does: whoever shares them looks at the end
    whether they are as they were.
    """

    def __init__(self) -> None:
        self._shared: set[int] = set()
        self._kept: dict[int, dict[tuple[object, ...], Digest]] = {}
        self._results: dict[tuple[object, ...], list[Any]] = {}

    def share(self, one: nn.Module, other: nn.Module) -> None:
        """Keep digests of the parameters that two modules share, which must live as long as this is used."""
        mine, theirs = ({_memory(each) for each in side.parameters() if _is_plain(each)} for side in (one, other))
        self._shared |= mine & theirs

    @property
    def has_shared(self) -> bool:
        """Whether there are such parameters."""
        return bool(self._shared)

    def is_shared(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is in the memory of such a parameter."""
        return _memory(tensor) in self._shared

    def results_of(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> list[Any]:
        """Return shape, strides and element type of each result of an operator, or None for one that is left out."""
        kinds = (
            (leaf.shape, leaf.stride(), leaf.dtype) if isinstance(leaf, torch.Tensor) else (leaf, type(leaf))
            for leaf in leaves
        )
        key = func, len(args), tuple(kwargs), *kinds
        if key not in self._results:
            self._results[key] = _results_of(func, args, kwargs)
        return self._results[key]

    def of(self, tensor: torch.Tensor) -> Digest:
        """Return the digest of a plain tensor."""
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        lying = tensor.detach().permute(order)
        if not self.is_shared(tensor):
            return self._made(lying)
        key = lying.shape, lying.stride(), lying.storage_offset(), lying.dtype
        kept = self._kept.setdefault(_memory(tensor), {})
        if key not in kept:
            kept[key] = self._made(lying)
        return kept[key]

    @staticmethod
    def _made(lying: torch.Tensor) -> Digest:
        storage = lying.untyped_storage()
        if lying.numel() * lying.element_size() > storage.nbytes():  # it repeats what is there, where its strides say
            flat = torch.empty(0, dtype=lying.dtype).set_(storage)
        else:
            flat = lying.contiguous().view(-1)
        octets: Any = flat.view(torch.uint8).numpy()
        return Digest(zlib.crc32(octets), bool(flat.sum().isnan()))

    def forget(self, args: Any) -> None:
        """Forget what is kept of the tensors among the arguments of an operator that writes."""
        if self._kept:
            for tensor in (leaf for leaf in _leaves(args) if isinstance(leaf, torch.Tensor) and _is_plain(leaf)):
                self._kept.pop(_memory(tensor), None)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@final
class DigestedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """During a ``with`` block, large matrix products and convolutions give numbers made of a digest of their operands.

    The same operator gives the same numbers for operands that are equal, bit for bit, and others if a single bit differs.
    So two modules that give the same results here also give the same with the products computed. The reverse does not
    hold: one may write the same product otherwise. Other operators, forward and backward, compute what they always do.

    Attributes:
        is_certain: Whether equal results prove that: not after code reads values, on which it may depend (`ReadsError`), nor
            after a NaN occurs, which hides what it was computed from.
    """

    def __init__(self, digests: Digests) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say
        self.is_certain = True
        self._digests = digests
        self._has_replaced = False

    def __enter__(self) -> Self:
        self._has_replaced = False  # what is read before does not depend on it
        super().__enter__()  # type: ignore[no-untyped-call]  # torch does not say
        return self

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        products, reads, writes = _traits(func)
        if products is not None:
            found = self._digested(func, args, kwargs or {}, products)
            if found is not None:
                return found
        elif reads and (func.overloadpacket is not _aten.index or _has_mask(args)):
            if self._has_replaced:
                self.is_certain = False
                raise ReadsError(f"{func} reads values")
        elif writes:
            self._digests.forget((args, kwargs))
        return func(*args, **(kwargs or {}))

    def _digested(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], products: Callable[..., int]) -> Any:
        """Return the numbers for a result; None where the result itself is computed as fast."""
        many = products(*args)
        if many < LEAST_PRODUCTS:
            return None
        leaves = [*_leaves((args, kwargs))]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not all(map(_is_plain, tensors)):
            return None
        read = (tensor.numel() for tensor in tensors if not self._digests.is_shared(tensor))
        made = self._digests.results_of(func, args, kwargs, leaves)
        few = self._is_weight_gradient(func, tensors)
        written = (math.prod(each[0]) for index, each in enumerate(made) if each is not None and index != few)
        if many < LEAST_SHARE * (sum(read) + sum(written)):
            return None
        self._has_replaced = True
        key = blake2b(str(func).encode(), digest_size=8)
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                digest = self._digests.of(leaf)
                self.is_certain &= not digest.has_nan
                key.update(f"{digest.crc} {tuple(leaf.shape)} {leaf.stride()} {leaf.dtype};".encode())
            else:
                key.update(f"{leaf!r};".encode())
        number = int.from_bytes(key.digest(), "big")
        results = [
            None if each is None else _numbers(number + index, *each, few=index == few)
            for index, each in enumerate(made)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def _is_weight_gradient(self, func: Any, tensors: list[torch.Tensor]) -> int | None:
        """Return which of the results of an operator, if any, is the gradient of a weight."""
        if torch._C._current_autograd_node() is None:
            return None
        if func.overloadpacket is _aten.mm:
            return None if any(map(self._digests.is_shared, tensors)) or not self._digests.has_shared else 0
        return 1 if func.overloadpacket is _aten.convolution_backward else None


def has_large_products(module: nn.Module, inputs: Any) -> bool:
    """Return whether digests of the products of a module may be worth their time, and can be taken."""
    if any(isinstance(part, torch.jit.ScriptModule) or "_orig_mod" in part._modules for part in module.modules()):
        return False  # what is compiled would be compiled again
    numbers = sum(tensor.numel() for tensor in tensor_leaves(inputs))
    return numbers >= MANY_INPUTS or sum(each.numel() for each in module.parameters()) >= MANY_PARAMETERS


@cache
def _counts() -> dict[Any, Callable[..., int]]:
    """Return how many multiplications each operator takes that is replaced, as a function of its arguments."""

    def product(one: torch.Tensor, other: torch.Tensor, *_: Any) -> int:
        rows = one.numel()
        return rows * other.shape[-1] if other.dim() > 1 else rows

    def convolved(one: torch.Tensor, weight: torch.Tensor, _bias: Any = None, stride: Any = (1,), *_: Any) -> int:
        places = one.numel() // max(one.shape[1 - weight.dim()], 1)
        steps: int = math.prod(stride)
        return places * weight.numel() // steps

    attention = _aten._scaled_dot_product_flash_attention_for_cpu
    attention_backward = _aten._scaled_dot_product_flash_attention_for_cpu_backward
    return {
        **dict.fromkeys((_aten.mm, _aten.bmm, _aten.matmul), product),
        **dict.fromkeys((_aten.addmm, _aten.baddbmm), lambda _added, one, other, *_: product(one, other)),
        _aten.linear: lambda one, weight, *_: one.numel() * weight.shape[0],
        **dict.fromkeys((_aten.convolution, _aten.conv1d, _aten.conv2d, _aten.conv3d), convolved),
        _aten.convolution_backward: lambda given, _one, weight, *_: (
            2 * given.numel() * weight.numel() // weight.shape[0]
        ),
        attention: lambda query, key, *_: 2 * query.numel() * key.shape[-2],
        attention_backward: lambda _given, query, key, *_: 5 * query.numel() * key.shape[-2],
    }


@cache
def _traits(func: Any) -> tuple[Callable[..., int] | None, bool, bool]:
    """Return how to count an operator's products, whether it reads values, and whether it writes into an argument."""
    tags = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape
    reads = func.overloadpacket in _READS or any(tag in tags for tag in func.tags)
    return _counts().get(func.overloadpacket), reads, bool(func._schema.is_mutable)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what an operator is given, out of its lists; torch's own function for that takes several times as long."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, dict):
        yield from _leaves(tuple(value.values()))
    else:
        yield value


def _has_mask(args: tuple[Any, ...]) -> bool:
    """Return whether the shape of an indexing's result depends on values."""
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])


def _is_plain(tensor: torch.Tensor) -> bool:
    known = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout == torch.strided
    return known and tensor.device.type == "cpu" and tensor.dtype in _DTYPES


def _results_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    def outlined(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")

    outlines = pytree.tree_map(outlined, (args, kwargs))
    made = func(*outlines[0], **outlines[1])
    found = made if isinstance(made, (tuple, list)) else (made,)
    return [None if each is None else (each.shape, each.stride(), each.dtype) for each in found]


@cache
def _table() -> torch.Tensor:
    """Return random numbers, twice in a row, between -1 and 1. Shape: `[2 * _TABLE]`."""
    once = torch.rand(_TABLE, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return torch.cat((once, once))


def _numbers(key: int, shape: torch.Size, stride: tuple[int, ...], dtype: torch.dtype, *, few: bool) -> torch.Tensor:
    """Return numbers that `key` decides; a `few` of them, many times, where the result has very many."""
    size = math.prod(shape)
    if few and size >= _FEW:
        steps = tuple(min(each, _STEP) if each > 1 else each for each in stride)
        size = 1 + sum((length - 1) * step for length, step in zip(shape, steps, strict=True))
        return _numbers(key, torch.Size((size,)), (1,), dtype, few=False).as_strided(shape, steps)
    result = torch.empty_strided(shape, stride, dtype=dtype)
    is_dense = result.untyped_storage().nbytes() == size * dtype.itemsize
    flat = result.as_strided((size,), (1,)) if is_dense else torch.empty(size, dtype=dtype)
    rows, rest = divmod(size, _TABLE)
    start, scale = key % _TABLE, 0.5 + (key >> 32) % 2**24 / 2**25
    numbers = _table()[start : start + _TABLE]
    if rows:
        scales = torch.linspace(scale, 2 * scale, rows)
        torch.mul(numbers, scales[:, None], out=flat[: rows * _TABLE].view(rows, _TABLE))
    if rest:
        torch.mul(numbers[:rest], scale, out=flat[rows * _TABLE :])
    return result if is_dense else result.copy_(flat.view(shape))
