"""Which values of the inputs the numbers are that an embedding reads, also through slices, views and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import accumulate
from typing import Any, final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pnne_nb.inspector.questions.example import Example

_CONSTANT, SEVERAL = -1, -2
"""In place of a place: a number that comes from no input, and one that is computed from several values."""

_MOVING = {"cat", "stack", "index", "index_select", "gather", "take", "repeat", "flip", "roll", "constant_pad_nd"}
_ANEW = {"copy_", "fill_", "zero_"}
_COPYING = {"clone", "_to_copy", *_ANEW}
_LOOKUPS = {"embedding", "_embedding_bag", "_embedding_bag_forward_only"}


@final
class Origins(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Follows the values of an example's inputs through the operators of one call.

    A memory that holds values of inputs has a twin with their places, which count on from input to input. So views need not
    be followed.

    Attributes:
        first: By input, its first place.
        computed: Whether the value at a place has entered an operator that makes something new of it, and is no embedding.
    """

    def __init__(self, example: Example) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say
        self._example = example
        self._twins: dict[int, tuple[Tensor | None, Any]] = {}  # with the memory, so that it is not used for another
        sizes = [value.numel() for value in example.inputs.values()]
        self.first = dict(zip(example.inputs, accumulate(sizes, initial=0), strict=False))
        self.computed = torch.zeros(sum(sizes), dtype=torch.bool)

    def places(self, tensor: Tensor) -> Tensor | None:
        """Return the places of a tensor's values, in its shape; None if all are constants."""
        if not self._twins and self._example.received:
            self._twins[0] = (None, None)  # what follows comes here too
            for name, value in self._example.received.items():
                self._write(value, torch.arange(value.numel()).view(value.shape) + self.first[name])
        memory = _memory(tensor)
        if memory is None or memory._cdata not in self._twins:
            return None
        twin, _ = self._twins[memory._cdata]
        if twin is None or twin.numel() * tensor.itemsize != memory.nbytes():
            return torch.full((), SEVERAL, device=tensor.device).expand(tensor.shape)
        return twin.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _write(self, tensor: Tensor, places: Tensor | None) -> None:
        memory = _memory(tensor)
        if memory is not None and places is None:
            self._twins[memory._cdata] = (None, memory)
        elif memory is not None and places is not None:
            twin, _ = self._twins.get(memory._cdata, (None, None))
            if twin is None:
                twin = torch.full((memory.nbytes() // tensor.itemsize,), _CONSTANT, device=tensor.device)
            twin.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).copy_(places)
            self._twins[memory._cdata] = (twin, memory)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Run an operator, and follow what it moves."""
        name = func.overloadpacket.__name__
        given = [(one, self.places(one)) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        result = func(*args, **(kwargs or {}))
        made = [one for one in tree_leaves(result) if isinstance(one, Tensor)]
        traced = [(one, places) for one, places in given if places is not None]
        if not traced or not made or name in _LOOKUPS or "_like" in name or name.startswith("new_"):
            return result
        if not func._schema.is_mutable and all((m := _memory(one)) is None or m._cdata in self._twins for one in made):
            return result  # a view
        moved = self._moved(name, args, given, made)
        if moved is None or (made[0].is_floating_point() and not all(one.is_floating_point() for one, _ in traced)):
            for _, places in traced:
                self.computed[places[places >= 0].cpu()] = True
        for one in made:
            self._write(one, moved)
        return result

    def _moved(
        self, name: str, args: Any, given: list[tuple[Tensor, Tensor | None]], made: list[Tensor]
    ) -> Tensor | None:
        """Return the places of a result; None if it is not made value by value."""
        twins = [torch.full(one.shape, _CONSTANT, device=one.device) if p is None else p for one, p in given]
        if len(made) != 1 or any(p.numel() and not any(p.stride()) and int(p.max()) == SEVERAL for p in twins):
            return None
        if name in _MOVING:
            several = isinstance(args[0], list | tuple)
            count = len(args[0]) if several else 1
            if any(places is not None for _, places in given[count:]):
                return None
            rest = [*args[1:2], _CONSTANT] if name == "constant_pad_nd" else args[1:]
            found: Tensor = getattr(torch.ops.aten, name)(twins[:count] if several else twins[0], *rest)
            return found
        if name not in _COPYING and not _by_value(name):
            return None
        whole = torch.full(made[0].shape, _CONSTANT, device=made[0].device)
        for places in twins[name in _ANEW :]:
            same = (places == _CONSTANT) | (places == whole)
            whole = torch.where(
                whole == _CONSTANT, places.to(whole.device), torch.where(same.to(whole.device), whole, SEVERAL)
            )
        return whole


def _memory(tensor: Tensor) -> Any:
    """Return what holds the values of a tensor; None if that is not one piece, as of a sparse one."""
    return tensor.untyped_storage() if tensor.layout == torch.strided else None


@cache
def _by_value(name: str) -> bool:
    packets = [getattr(torch.ops.aten, one, None) for one in (name, name.rstrip("_"))]
    return any(torch.Tag.pointwise in getattr(p, one).tags for p in packets if p is not None for one in p.overloads())
