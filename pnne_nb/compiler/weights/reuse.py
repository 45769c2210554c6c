"""Copies tensors from one model to another, by name and shape."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import nn

from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.weights.widen import widenings
from pnne_nb.graph.schema.property_types import holds_tensor
from pnne_nb.graph.schema.registry import registry

Former: TypeAlias = Mapping[str, str | None]
"""Paths that modules had in another model, by their paths now, where they differ; None for those that are new."""

NOT_MOVED: Former = MappingProxyType({})


Frozen: TypeAlias = Collection[str]
"""Paths of modules and parameters that a document had frozen when a model was made of it, or it of the model."""

_of_imported: weakref.WeakKeyDictionary[nn.Module, Frozen] = weakref.WeakKeyDictionary()


def remember_frozen(net: nn.Module, frozen: Frozen) -> None:
    """Note what the document that was imported from a module has frozen."""
    _of_imported[net] = frozen


def frozen_in(source: nn.Module) -> Frozen:
    """Return what the document of a model had frozen when the one was made of the other."""
    loaded = loader.loaded_from(source)
    return loaded.generated.frozen if loaded is not None else _of_imported.get(source, ())


def is_below(path: str, places: Frozen) -> bool:
    """Return whether a path is one of some places, or inside one of them."""
    return any(not place or f"{path}.".startswith(f"{place}.") for place in places)


def carry_over(
    source: nn.Module,
    target: nn.Module,
    former: Former = NOT_MOVED,
    ready: Collection[int] = (),
    frozen: Frozen = (),
) -> dict[str, str]:
    """Copy into `target` every parameter and buffer of `source` that has the same name and shape.

    A layer that was made wider keeps what it had, as `widen` says. Device and element type come along, ``requires_grad``
    where it was set by hand in `source` (else the document of `target` decides, which may have changed), and so do ties:
    names that share one tensor in `source` share one in `target`. What does not fit keeps
    its fresh values, on the device and in the floating type that most of `source` has, if its node names no other;
    so does what a property of the node says, such as the class weights of a loss. Modules of the same name take
    over the training mode.

    Args:
        source: The model that has the tensors.
        target: The model that gets them.
        former: Paths that modules of `target` have in `source`.
        ready: Tensors of `target`, by identity, that are copies already.
        frozen: What the document had frozen when `source` was made, by path in `source`.

    Returns:
        The names of the tensors that were carried over, with those that they have in `source`.
    """
    carried: dict[str, str] = {}
    copies: dict[tuple[int, torch.Size], torch.Tensor] = {}
    parameters = dict(source.named_parameters(remove_duplicate=False))
    buffers = dict(source.named_buffers(remove_duplicate=False))
    device, dtype = _prevailing([*parameters.values(), *buffers.values()])
    made: dict[int, torch.Tensor] = {}
    wider = widenings(source, target, lambda path: former_path(path, former))
    set_by_node = {kind: typed_in(kind) for kind in {type(module) for module in target.modules()}}
    for prefix, module in target.named_modules():
        dot = f"{prefix}." if prefix else ""
        before = former_path(prefix, former)
        place = f"{before}." if before else "" if before is not None else "\0"  # no tensor has that name
        for is_parameter, fresh_ones in ((True, module._parameters), (False, module._buffers)):
            for name, fresh in list(fresh_ones.items()):
                if fresh is None or id(fresh) in ready:
                    continue
                old, widening = (parameters if is_parameter else buffers).get(place + name), wider.get(dot + name)
                fits = old is not None and (widening is not None or old.shape == fresh.shape)
                if old is not None and fits and (is_parameter or name not in set_by_node[type(module)]):
                    key = id(old), fresh.shape
                    if key not in copies:
                        values = _copy(old) if widening is None else widening.fit(old, fresh)
                        if is_parameter:
                            by_hand = old.requires_grad == is_below(place + name, frozen)
                            values = nn.Parameter(values, requires_grad=(old if by_hand else fresh).requires_grad)
                        copies[key] = values
                    # setattr, not the dictionary: recurrent layers keep a second list of their weights.
                    setattr(module, name, copies[key])
                    carried[dot + name] = place + name
                elif _moves(fresh, device, dtype):
                    if id(fresh) not in made:
                        moved = _adapted(fresh.detach(), device, dtype)
                        made[id(fresh)] = (
                            nn.Parameter(moved, requires_grad=fresh.requires_grad) if is_parameter else moved
                        )
                    setattr(module, name, made[id(fresh)])
    _match_modes(source, target, former)
    return carried


def share_modules(source: nn.Module, target: nn.Module, former: Former = NOT_MOVED) -> None:
    """Have one module under all the names under which `source` has one, where all of its tensors are the same already.

    Of two modules with the same buffers, ``.double()`` and ``.to(device)`` would make two with buffers of their own.
    """
    originals = dict(source.named_modules(remove_duplicate=False))
    first: dict[int, tuple[str, nn.Module]] = {}
    for path, module in list(target.named_modules(remove_duplicate=False)):
        original = originals.get(place_in(path, former))
        if original is None or not path:
            continue
        other, kept = first.setdefault(id(original), (path, module))
        if kept is not module and not other.startswith(f"{path}.") and _tensors(module) == _tensors(kept):
            above, _, name = path.rpartition(".")
            target.get_submodule(above)._modules[name] = kept


def _tensors(module: nn.Module) -> dict[str, int]:
    """Return the tensors of a module by name, by identity."""
    named = module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)
    return {name: id(tensor) for tensors in named for name, tensor in tensors}


def former_path(path: str, former: Former) -> str | None:
    """Return the path that a module had; None if it is new."""
    above = path
    while above and above not in former:
        above = above.rpartition(".")[0]
    if above not in former:
        return path
    before = former[above]
    # Either may be the whole model.
    return None if before is None else ".".join(filter(None, (before, path.removeprefix(above).removeprefix("."))))


def place_in(path: str, former: Former) -> str:
    """Return the path of a module in another model: its own path, if the node is new."""
    before = former_path(path, former)
    return path if before is None else before


def typed_in(kind: type[nn.Module]) -> set[str]:
    """Return which tensors of a layer are properties of its node, as a loss's class weights: those follow the node."""
    spec = registry.get(kind.__name__)
    if spec is None or spec.torch is not kind:
        return set()
    return {prop.name for prop in spec.properties if prop.role == "init" and holds_tensor(prop.type)}


def _match_modes(source: nn.Module, target: nn.Module, former: Former) -> None:
    modes = {name: module.training for name, module in source.named_modules(remove_duplicate=False)}
    for name, module in target.named_modules(remove_duplicate=False):
        training = modes.get(place_in(name, former), source.training)
        if module.training is not training:
            module.training = training


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    # Sparse ones have no memory format, not even their own.
    kept = {"memory_format": torch.preserve_format} if tensor.layout == torch.strided else {}
    return tensor.detach().clone(**kept)


def _prevailing(tensors: list[torch.Tensor]) -> tuple[torch.device | None, torch.dtype | None]:
    devices = Counter(tensor.device for tensor in tensors)
    dtypes = Counter(tensor.dtype for tensor in tensors if tensor.is_floating_point())
    device = devices.most_common(1)[0][0] if devices else None
    dtype = dtypes.most_common(1)[0][0] if dtypes else None
    return device, dtype


def _moves(tensor: torch.Tensor, device: torch.device | None, dtype: torch.dtype | None) -> bool:
    return (device is not None and tensor.device != device) or (
        dtype is not None and _has_default_type(tensor) and tensor.dtype != dtype
    )


def _adapted(tensor: torch.Tensor, device: torch.device | None, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(device=device, dtype=dtype if _has_default_type(tensor) else None)


def _has_default_type(tensor: torch.Tensor) -> bool:
    """Return whether a new tensor has the element type that it has if its node says nothing else."""
    return tensor.dtype == torch.get_default_dtype()
