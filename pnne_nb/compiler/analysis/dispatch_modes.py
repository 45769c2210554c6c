"""Changes what torch's operators compute while two modules are compared: empty memory, and products that take long."""

from __future__ import annotations

import math
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
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
        content: Of its bytes, in the order in which they lie; or of what it was computed from, and where in that it lies.
        has_nan: Whether it is known to have a NaN.
    """

    content: object
    has_nan: bool


class _Unwritten(NamedTuple):
    """Memory whose numbers are not computed: what they would be computed from stands for them."""

    memory: weakref.ref[torch.UntypedStorage]
    digest: int
    dtype: torch.dtype


@final
class Digests:
    """Digests of tensors; those of parameters that two modules have in the same memory are kept for their next use.

    Code may change such a parameter in ways that are not seen here, as NumPy does: whoever shares them looks at the end
    whether they are as they were.
    """

    def __init__(self) -> None:
        self._shared: set[int] = set()
        self._kept: dict[int, dict[tuple[object, ...], Digest]] = {}
        self._results: dict[tuple[object, ...], list[Any] | None] = {}
        self._unwritten: dict[int, _Unwritten] = {}

    def share(self, one: nn.Module, other: nn.Module) -> None:
        """Keep digests of the parameters that two modules share, which must live as long as this is used."""
        mine, theirs = ({_memory(each) for each in side.parameters() if _is_plain(each)} for side in (one, other))
        self._shared |= mine & theirs

    def is_shared(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is in the memory of such a parameter."""
        return _memory(tensor) in self._shared

    def is_written(self, tensor: torch.Tensor) -> bool:
        """Return whether the numbers of a tensor lie in its memory."""
        return _memory(tensor) not in self._unwritten

    def results_of(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]
    ) -> list[Any] | None:
        """Return shape, strides and type of each result of an operator, None for one left out; None if it does not tell."""
        kinds = (
            (leaf.shape, leaf.stride(), leaf.dtype) if isinstance(leaf, torch.Tensor) else (leaf, type(leaf))
            for leaf in leaves
        )
        key = func, len(args), tuple(kwargs), *kinds
        if key not in self._results:
            self._results[key] = _results_of(func, args, kwargs)
        return self._results[key]

    def content(self, tensor: torch.Tensor) -> object:
        """Return what stands for the content of a plain tensor, without a call of torch that reads it."""
        unwritten = self._unwritten.get(_memory(tensor))
        if unwritten is not None:
            return unwritten.digest, tensor.storage_offset()
        octets: Any = _lying(tensor).view(torch.uint8).numpy()
        return zlib.crc32(octets)

    def of(self, tensor: torch.Tensor) -> Digest:
        """Return the digest of a plain tensor."""
        if not self.is_shared(tensor):
            is_written = self.is_written(tensor)
            return Digest(self.content(tensor), is_written and bool(_lying(tensor).sum().isnan()))
        key = tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype
        kept = self._kept.setdefault(_memory(tensor), {})
        if key not in kept:
            kept[key] = Digest(self.content(tensor), bool(_lying(tensor).sum().isnan()))
        return kept[key]

    def leave(self, tensor: torch.Tensor, digest: int) -> None:
        """Leave the memory of a tensor as it is, until its numbers are asked for."""
        storage = tensor.untyped_storage()
        memory = storage.data_ptr()

        def freed(ended: weakref.ref[torch.UntypedStorage]) -> None:
            kept = self._unwritten.get(memory)
            if kept is not None and kept.memory is ended:
                del self._unwritten[memory]

        if storage.nbytes():
            self._unwritten[memory] = _Unwritten(weakref.ref(storage, freed), digest, tensor.dtype)

    def write(self, tensors: Iterable[torch.Tensor] | None = None) -> None:
        """Write numbers that its digest decides into the memory of each tensor that has none; of all by default."""
        for memory in list(self._unwritten) if tensors is None else {_memory(tensor) for tensor in tensors}:
            unwritten = self._unwritten.pop(memory, None)
            storage = unwritten and unwritten.memory()
            if unwritten is not None and storage is not None:
                _fill(torch.empty(0, dtype=unwritten.dtype).set_(storage), unwritten.digest)

    def forget(self, args: Any) -> None:
        """Forget what is kept of the tensors among the arguments of an operator that writes."""
        if self._kept:
            for tensor in (leaf for leaf in _leaves(args) if isinstance(leaf, torch.Tensor) and _is_plain(leaf)):
                self._kept.pop(_memory(tensor), None)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _lying(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a tensor in the order in which they lie. Shape: `[*]`, one dimension."""
    storage = tensor.untyped_storage()
    if tensor.numel() * tensor.element_size() > storage.nbytes():  # it repeats what is there, where its strides say
        return torch.empty(0, dtype=tensor.dtype).set_(storage)
    return tensor.detach().permute(sorted(range(tensor.dim()), key=tensor.stride, reverse=True)).contiguous().view(-1)


@final
class DigestedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """During a ``with`` block, large matrix products and convolutions, and what follows from them, are not computed.

    A digest of the operator and its operands stands for each such result, so it is the same for operands that are equal,
    bit for bit, and another one if a single bit differs. Two modules that give the same results here thus also give the
    same when they are computed. The reverse does not hold: one may write the same product otherwise.

    An operator that draws random numbers, returns other than floating-point numbers, or is not one of torch's own is
    computed, from numbers that the digests of its operands decide; so is everything that is still there at the end of the
    block.

    Attributes:
        is_certain: Whether equal results prove that: not after code reads values, on which it may depend (`ReadsError`), nor
            after a NaN occurs, which hides what it was computed from.
    """

    def __init__(self, digests: Digests) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say
        self.is_certain = True
        self._digests = digests
        self._has_replaced = False
        self._depth = 0

    def __enter__(self) -> Self:
        self._has_replaced &= self._depth > 0  # what is read before does not depend on it
        self._depth += 1
        super().__enter__()  # type: ignore[no-untyped-call]  # torch does not say
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]  # torch does not say
        self._depth -= 1
        if not self._depth:
            self._digests.write()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        traits = _traits(func)
        if traits.is_composite:
            with self:
                return func.decompose(*args, **kwargs)
        if traits.is_view:
            return func(*args, **kwargs)
        if traits.reads and (func.overloadpacket is not _aten.index or _has_mask(args)):
            if self._has_replaced:
                self.is_certain = False
                raise ReadsError(f"{func} reads values")
            return func(*args, **kwargs)
        leaves = [*_leaves((args, kwargs))]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        found = self._digested(func, args, kwargs, traits, leaves, tensors) if traits.is_pure else None
        if found is not None:
            return found
        self._digests.write(each for each in tensors if _is_strided(each))
        if traits.writes:
            self._digests.forget((args, kwargs))
        return func(*args, **kwargs)

    def _digested(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        traits: _Traits,
        leaves: list[Any],
        tensors: list[torch.Tensor],
    ) -> Any:
        """Return what stands for a result; None where the result itself is to be computed."""
        if not all(map(_is_strided, tensors)):
            return None
        unwritten = [tensor for tensor in tensors if not self._digests.is_written(tensor)]
        many = traits.products(*args) if traits.products is not None else 0
        if not unwritten and (traits.products is None or many < LEAST_PRODUCTS):
            return None
        if traits.writes and self._digests.is_written(args[0]):
            return None
        made = self._digests.results_of(func, args, kwargs, leaves)
        if made is None:
            return None
        if not unwritten:
            read = (tensor.numel() for tensor in tensors if not self._digests.is_shared(tensor))
            written = (math.prod(each[0]) for each in made if each is not None)
            if many < LEAST_SHARE * (sum(read) + sum(written)):
                return None
        self._has_replaced = True
        key = blake2b(str(func).encode(), digest_size=8)
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                digest = self._digests.of(leaf)
                self.is_certain &= not digest.has_nan
                key.update(f"{digest.content} {tuple(leaf.shape)} {leaf.stride()} {leaf.dtype};".encode())
            else:
                key.update(f"{leaf!r};".encode())
        number = int.from_bytes(key.digest(), "big")
        if traits.writes:
            self._digests.leave(args[0], number)
            return args[0]
        # In training, batch norm writes its statistics, which its schema does not say.
        if func.overloadpacket is _aten.native_batch_norm and args[5]:
            for index, statistics in enumerate(each for each in args[3:5] if each is not None):
                self._digests.leave(statistics, number - 1 - index)
        results = [each and torch.empty_strided(each[0], each[1], dtype=each[2]) for each in made]
        for index, result in enumerate(results):
            if result is not None:
                self._digests.leave(result, number + index)
        return results[0] if len(results) == 1 else tuple(results)


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
        **dict.fromkeys((_aten.mm, _aten.bmm), product),
        **dict.fromkeys((_aten.addmm, _aten.baddbmm), lambda _added, one, other, *_: product(one, other)),
        _aten.convolution: convolved,
        _aten.convolution_backward: lambda given, _one, weight, *_: (
            2 * given.numel() * weight.numel() // weight.shape[0]
        ),
        attention: lambda query, key, *_: 2 * query.numel() * key.shape[-2],
        attention_backward: lambda _given, query, key, *_: 5 * query.numel() * key.shape[-2],
    }


class _Traits(NamedTuple):
    """What an operator does.

    Attributes:
        products: Counts the multiplications that it takes; None if these are few.
        reads: Whether its result is a number, or has a shape, that depends on values.
        writes: Whether it writes into an argument.
        is_view: Whether it neither reads nor writes numbers, but looks at memory otherwise, or takes some.
        is_composite: Whether it is made of other operators, as which it comes where torch records no gradients.
        is_pure: Whether its results depend on its arguments alone, and the first of them is all that it may write into.
    """

    products: Callable[..., int] | None
    reads: bool
    writes: bool
    is_view: bool
    is_composite: bool
    is_pure: bool


@cache
def _traits(func: Any) -> _Traits:
    schema = func._schema
    tags = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape
    reads = func.overloadpacket in _READS or any(tag in tags for tag in func.tags)
    writes = bool(schema.is_mutable)
    shares = any(each.alias_info is not None for each in schema.returns)
    written = [each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    is_in_place = shares and schema.name.endswith("_") and written == [schema.arguments[0].name]
    is_view = not writes and (shares or func.overloadpacket in _FRESH)
    # None of those that are counted draws: with dropout, torch has another attention.
    products = _counts().get(func.overloadpacket)
    draws = torch.Tag.nondeterministic_seeded in func.tags and products is None
    moves = torch.Tag.inplace_view in func.tags
    is_known = func.namespace == "aten" and bool(schema.returns)
    is_pure = is_known and not (draws or moves) and (is_in_place if writes else not is_view)
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return _Traits(products, reads, writes, is_view, is_composite, is_pure)


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


def _is_strided(tensor: torch.Tensor) -> bool:
    known = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout == torch.strided
    return known and tensor.device.type == "cpu" and not (tensor.is_complex() or tensor.is_neg() or tensor.is_quantized)


def _is_plain(tensor: torch.Tensor) -> bool:
    return _is_strided(tensor) and tensor.dtype in _DTYPES


def _batch_normed(x: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
    kept = x.new_empty(x.shape[1] if rest[4] else 0)
    return torch.empty_like(x), kept, kept


def _batch_normed_backward(_given: torch.Tensor, x: torch.Tensor, *rest: Any) -> tuple[torch.Tensor | None, ...]:
    made = torch.empty_like(x), x.new_empty(x.shape[1]), x.new_empty(x.shape[1])
    return tuple(each if asked else None for each, asked in zip(made, rest[-1], strict=True))


_OUTLINES = {_aten.native_batch_norm: _batch_normed, _aten.native_batch_norm_backward: _batch_normed_backward}
"""What torch takes milliseconds to tell: it computes the shapes of these in Python."""


def _results_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    def outlined(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")

    outlines = pytree.tree_map(outlined, (args, kwargs))
    try:
        made = _OUTLINES.get(func.overloadpacket, func)(*outlines[0], **outlines[1])
    except Exception:  # noqa: BLE001  # the operator itself says what it refuses
        return None
    found = made if isinstance(made, (tuple, list)) else (made,)
    if any(each is not None and getattr(each, "dtype", None) not in _DTYPES for each in found):
        return None
    return [None if each is None else (each.shape, each.stride(), each.dtype) for each in found]


@cache
def _table() -> torch.Tensor:
    """Return random numbers, twice in a row, between -1 and 1. Shape: `[2 * _TABLE]`."""
    once = torch.rand(_TABLE, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return torch.cat((once, once))


def _fill(flat: torch.Tensor, key: int) -> None:
    """Write numbers that `key` decides. Shape of `flat`: `[*]`, one dimension."""
    rows, rest = divmod(len(flat), _TABLE)
    start, scale = key % _TABLE, 0.5 + (key >> 32) % 2**24 / 2**25
    numbers = _table()[start : start + _TABLE]
    if rows:
        scales = torch.linspace(scale, 2 * scale, rows)
        torch.mul(numbers, scales[:, None], out=flat[: rows * _TABLE].view(rows, _TABLE))
    if rest:
        torch.mul(numbers[:rest], scale, out=flat[rows * _TABLE :])
