"""Copies tensors from one model to another, by name and shape, also into wider ones."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final, TypeAlias, TypeGuard

import msgspec
import torch
from torch import nn

from pnne_nb.compiler.codegen import loader
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
    source: nn.Module, target: nn.Module, former: Former = NOT_MOVED, ready: Collection[int] = (), frozen: Frozen = ()
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
        for is_parameter, fresh_ones in ((True, module._parameters), (False, module._buffers)):
            for name, fresh in list(fresh_ones.items()):
                if fresh is None or id(fresh) in ready:
                    continue
                # A node may be a single tensor, and was renamed or moved without what is around it then.
                before = former_path(dot + name, former) or ""
                old, widening = (parameters if is_parameter else buffers).get(before), wider.get(dot + name)
                fits = old is not None and (widening is not None or old.shape == fresh.shape)
                if old is not None and fits and (is_parameter or name not in set_by_node[type(module)]):
                    key = id(old), fresh.shape
                    if key not in copies:
                        values = _copy(old) if widening is None else widening.fit(old, fresh)
                        if is_parameter:
                            by_hand = old.requires_grad == is_below(before, frozen)
                            values = nn.Parameter(values, requires_grad=(old if by_hand else fresh).requires_grad)
                        copies[key] = values
                    # setattr, not the dictionary: recurrent layers keep a second list of their weights.
                    setattr(module, name, copies[key])
                    carried[dot + name] = before
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


Axes: TypeAlias = tuple[str, ...]
"""Properties of a layer that are the sizes of a tensor's first axes."""

_LINEAR: Final = {"weight": ("out_features", "in_features"), "bias": ("out_features",)}
_CONV: Final = {"weight": ("out_channels", "in_channels"), "bias": ("out_channels",)}
_TRANSPOSED: Final = {"weight": ("in_channels", "out_channels"), "bias": ("out_channels",)}
_BATCH_NORM: Final = dict.fromkeys(("weight", "bias", "running_mean", "running_var"), ("num_features",))
_GROUP_NORM: Final = dict.fromkeys(("weight", "bias"), ("num_channels",))
_LAYER_NORM: Final = dict.fromkeys(("weight", "bias"), ("normalized_shape",))
_EMBEDDING: Final = {"weight": ("num_embeddings", "embedding_dim")}

AXES: Final[Mapping[type[nn.Module], Mapping[str, Axes]]] = {
    nn.Linear: _LINEAR,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _CONV),
    **dict.fromkeys((nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), _TRANSPOSED),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _BATCH_NORM),
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), _BATCH_NORM),
    nn.GroupNorm: _GROUP_NORM,
    **dict.fromkeys((nn.LayerNorm, nn.RMSNorm), _LAYER_NORM),
    **dict.fromkeys((nn.Embedding, nn.EmbeddingBag), _EMBEDDING),
}
"""Layers that are fitted. Others have several units in a row, as the gates of an LSTM and the heads of an attention."""

WIDTHS: Final = {"out_features", "out_channels", "embedding_dim"}
"""Properties that others follow."""

READ: Final = {"in_features", "in_channels"}
"""Properties that follow others, and whose new columns start at zero."""


class WidenedReuse(msgspec.Struct, frozen=True):
    """How a tensor of a layer that was made wider is fitted.

    Attributes:
        before: The name of the tensor that it had.
        shape: The shape of that.
        axes: The properties that are the sizes of its first axes.
    """

    before: str
    shape: torch.Size
    axes: Axes

    def fit(self, old: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
        """Return new values: those of `old`, zero where those read new units, and those of `fresh` elsewhere.

        Args:
            old: The tensor that the layer had.
            fresh: The tensor that it was made with, no smaller along any axis.

        Returns:
            Of the shape of `fresh`, and of the device and element type of `old`.
        """
        fitted = fresh.detach().to(device=old.device, dtype=old.dtype, copy=True)
        corner = tuple(slice(0, size) for size in old.shape)
        for axis, name in enumerate(self.axes):
            if name in READ:
                fitted[(*corner[:axis], slice(old.shape[axis], None), *corner[axis + 1 :])] = 0
        fitted[corner] = old.detach()
        return fitted

    def grown(self, shape: torch.Size) -> dict[str, tuple[int, int]]:
        """Return which properties grew up to `shape`: from what, and to what."""
        sizes = zip(self.axes, self.shape, shape, strict=False)
        return {name: (old, new) for name, old, new in sizes if new > old}


def widenings(source: nn.Module, target: nn.Module, former: Callable[[str], str | None]) -> dict[str, WidenedReuse]:
    """Return the tensors of `target` that belong to layers of `source` that were narrower.

    A layer behind it counts only if it grew by the same factor: before one that was put in between, a layer reads
    something else.

    Args:
        source: A model.
        target: The model with other widths.
        former: Gives the path that a module of `target` has in `source`, by its own; None for a new one.

    Returns:
        By the names of the tensors in `target`.
    """
    pairs: dict[str, tuple[str, nn.Module, nn.Module]] = {}
    known = dict(source.named_modules(remove_duplicate=False))
    for path, module in target.named_modules(remove_duplicate=False):
        before = former(path)
        old = None if before is None else known.get(before)
        if before is not None and old is not None and type(old) is type(module) and _is_fitted(old, module):
            pairs[path] = before, old, module
    ratios = {
        Fraction(int(getattr(new, name)), int(getattr(old, name)))
        for _, old, new in pairs.values()
        for name in WIDTHS
        if 0 < getattr(old, name, 0) < getattr(new, name, 0)
    }
    found: dict[str, WidenedReuse] = {}
    for path, (before, old, new) in pairs.items():
        for name, axes in AXES[type(new)].items():
            was, now = getattr(old, name, None), getattr(new, name, None)
            if _is_plain(was) and _is_plain(now) and was.shape != now.shape and _has_grown(was, now, axes, ratios):
                own = f"{before}.{name}" if before else name
                found[f"{path}.{name}" if path else name] = WidenedReuse(own, was.shape, axes)
    return found


def _is_fitted(old: nn.Module, new: nn.Module) -> bool:
    if type(new) not in AXES:
        return False
    groups, were = getattr(new, "groups", 1), getattr(old, "groups", 1)
    if groups == were == 1:
        return True
    # As many channels in each group as before: further groups stand behind the old ones.
    return type(new) not in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d) and all(
        int(getattr(new, name)) * were == int(getattr(old, name)) * groups for name in ("in_channels", "out_channels")
    )


def _is_plain(tensor: object) -> TypeGuard[torch.Tensor]:
    return type(tensor) in (torch.Tensor, nn.Parameter) and isinstance(tensor, torch.Tensor) and not tensor.is_sparse


def _has_grown(old: torch.Tensor, new: torch.Tensor, axes: Axes, ratios: set[Fraction]) -> bool:
    if old.dim() != new.dim() or old.shape[len(axes) :] != new.shape[len(axes) :]:
        return False
    follows = WIDTHS | {"num_embeddings"}
    return all(
        now == was or (now > was > 0 and (name in follows or Fraction(now, was) in ratios))
        for name, was, now in zip(axes, old.shape, new.shape, strict=False)
    )
