"""Copies modules that ``copy.deepcopy`` refuses because they keep computed tensors."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, final

import torch
from torch import nn

from pnne_nb.process.gc_pause import without_collections
from pnne_nb.process.random_state import preserved_random_state

_CONTAINERS = frozenset((dict, OrderedDict, list, set))
"""Types of most attributes of a module, such as its hooks; most are empty."""

_NOTHING: Mapping[int, torch.Tensor] = MappingProxyType({})

_ATOMS = frozenset((bool, int, float, str, type(None)))


def duplicate(module: nn.Module, tensor: Callable[[torch.Tensor], Any] | None = None) -> nn.Module:
    """Return a deep copy of a module.

    Tensors that it has computed and keeps (an activation, a pruned or normalised weight) are copied without what
    they were computed from, which no copy can keep.

    Args:
        module: It is not changed.
        tensor: Replaces parameters and buffers; it maps `[*]` to `[*]`; those for which it returns None are copied, and all
            if it is None itself.
    """
    made: dict[int, Any] = {}
    for each in computed(module):
        made[id(each)] = each.detach().clone()
    if tensor is not None:
        for each in (*module.parameters(), *module.buffers()):
            if (value := tensor(each)) is not None:
                is_parameter = isinstance(each, nn.Parameter)
                made[id(each)] = nn.Parameter(value, requires_grad=each.requires_grad) if is_parameter else value
    plain = [part for part in _inside_out(module, set()) if _is_plain(part)]  # some read what they hold
    made.update((id(part), type(part).__new__(type(part))) for part in plain)
    with without_collections():
        for part in plain:
            state = part.__getstate__()  # type: ignore[no-untyped-call]  # torch does not say
            made[id(part)].__setstate__(
                {name: value if type(value) in _ATOMS else _copied(value, made) for name, value in state.items()}
            )
        return copy.deepcopy(module, made)


def _inside_out(module: nn.Module, seen: set[int]) -> Iterator[nn.Module]:
    """Yield a module after those inside it, each once."""
    seen.add(id(module))
    for part in module._modules.values():
        if part is not None and id(part) not in seen:
            yield from _inside_out(part, seen)
    yield module


def _is_plain(module: nn.Module) -> bool:
    """Return whether ``copy.deepcopy`` would copy a module attribute by attribute."""
    kind = type(module)
    is_special = any(hasattr(module, name) for name in ("__deepcopy__", "__getnewargs__", "__getnewargs_ex__"))
    states = {each.__module__[:9] for each in (kind.__getstate__, kind.__setstate__)}
    return not is_special and kind.__reduce_ex__ is object.__reduce_ex__ and states == {"torch.nn."}


def _copied(value: Any, made: dict[int, Any]) -> Any:
    """Return a deep copy of an attribute, as ``copy.deepcopy`` does, which takes four times as long for what is plain."""
    kind = type(value)
    if id(value) in made or kind in _ATOMS or (kind is tuple and all(type(each) in _ATOMS for each in value)):
        return made.get(id(value), value)
    if kind not in _CONTAINERS or (value and (kind is not dict or any(type(key) is not str for key in value))):
        return copy.deepcopy(value, made)
    new = made[id(value)] = kind()
    if value:
        new.update((key, _copied(each, made)) for key, each in value.items())
    return new


@final
class Shared:
    """Copies of two modules with equal parameters, which are all in the memory of the second's.

    Args:
        one: It is not changed.
        other: Its parameters are changed where a copy changes its own; `is_intact` says so.
        prefix: What the names of the second begin with.

    Attributes:
        copies: Of both.
    """

    def __init__(self, one: nn.Module, other: nn.Module, prefix: str = "") -> None:
        theirs = dict(other.named_parameters(remove_duplicate=False))
        named = one.named_parameters(remove_duplicate=False)
        pairs = ((mine, theirs.get(f"{prefix}{name}")) for name, mine in named)
        self._pairs = [(mine, its) for mine, its in pairs if its is not None and _are_alike(mine, its)]
        self.copies = (
            Copies(one, {id(mine): its for mine, its in self._pairs}),
            Copies(other, {id(its): its for _, its in self._pairs}),
        )

    @property
    def originals(self) -> dict[int, torch.Tensor]:
        """Parameters of the first that those of the second, by identity, are equal to."""
        return {id(its): mine for mine, its in self._pairs}

    @property
    def is_intact(self) -> bool:
        """Whether no copy has changed a parameter."""
        return all(torch.equal(mine, its) for mine, its in self._pairs)

    def release(self) -> None:
        """Free the memory of the second's parameters, which then share that of the first's and must only be read."""
        for mine, its in self._pairs:
            its.data = mine.data


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not type(one) is type(other) is nn.Parameter or one.is_quantized or one.layout != torch.strided or one.is_meta:
        return False
    same = one.dtype == other.dtype and one.device == other.device and one.stride() == other.stride()
    return same and torch.equal(one, other)


@final
class Copies:
    """Successive copies of a module: each takes over the memory of the one before, which is no longer valid.

    Args:
        module: It is not changed.
        shared: Tensors that copies of a parameter are, by its identity, rather than to be filled with its content.
    """

    def __init__(self, module: nn.Module, shared: Mapping[int, torch.Tensor] = _NOTHING) -> None:
        self._module = module
        self._shared = shared
        self._memory: dict[int, torch.Tensor] = {}

    def next(self) -> nn.Module:
        """Return a deep copy of the module; do not use the last one any more."""
        return duplicate(self._module, self._filled)

    def _filled(self, tensor: torch.Tensor) -> Any:
        """Return the memory of a tensor's copy, with the tensor's content."""
        if id(tensor) in self._shared:
            return self._shared[id(tensor)].detach()
        # What is more than numbers in memory of its own copies itself.
        if type(tensor) is not nn.Parameter or tensor.layout != torch.strided or tensor.is_quantized:
            return None
        kept = self._memory.get(id(tensor))
        if kept is None:
            kept = self._memory[id(tensor)] = tensor.detach().clone(memory_format=torch.preserve_format)
        else:
            kept.copy_(tensor.detach())
        return kept.detach()


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """Put back what running a copy has changed in a module: its hooks may refer to the original.

    The copy of a scripted module, and a replaced ``forward``, also give their gradients to the original's parameters. So
    are the random numbers, the element type of new tensors, and whether gradients are recorded, which its code may set.
    """
    dtype = torch.get_default_dtype()
    gradients = [(parameter, parameter.grad, parameter.requires_grad) for parameter in module.parameters()]
    for parameter, _, _ in gradients:
        parameter.grad = None  # what is there would be added to, in its memory
    try:
        with preserved_random_state(), torch.set_grad_enabled(torch.is_grad_enabled()), _attributes_untouched(module):
            yield
    finally:
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        for parameter, gradient, requires in gradients:
            parameter.grad = gradient
            if parameter.requires_grad != requires:
                parameter.requires_grad_(requires)


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "forward")


def refers_to_itself(module: nn.Module) -> bool:
    """Return whether copies of a module may still refer to it, by hooks or a replaced ``forward``, or as scripted code."""
    return any(
        isinstance(part, torch.jit.ScriptModule) or any(vars(part).get(name) for name in _HOOKS)
        for part in module.modules()
    )


@contextmanager
def _attributes_untouched(module: nn.Module) -> Iterator[None]:
    each = list(module.modules())
    if not refers_to_itself(module):
        yield
        return
    kept = [(vars(part), dict(vars(part))) for part in each if not isinstance(part, torch.jit.ScriptModule)]
    held = [
        (value, copy.copy(value))
        for _, attributes in kept
        for value in attributes.values()
        if isinstance(value, (dict, list))
    ]
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for attributes, before in kept:
            attributes.clear()
            attributes.update(before)
        for value, content in held:
            value.clear()
            value.update(content) if isinstance(value, dict) else value.extend(content)
        with torch.no_grad():
            for buffer, values in buffers:
                buffer.copy_(values)


def computed(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield the tensors that a module has computed and keeps, which cannot be copied with what they were made from."""
    for each in module.modules():
        own = [value for name, value in vars(each).items() if name not in ("_parameters", "_modules")]
        yield from (leaf for leaf in _tensors(own, set()) if not leaf.is_leaf)


def _tensors(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Yield the tensors in lists, tuples and dictionaries, which may hold themselves."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
        seen.add(id(value))
        for each in value.values() if isinstance(value, dict) else value:
            if type(each) not in _ATOMS and (type(each) not in _CONTAINERS or each):
                yield from _tensors(each, seen)
