"""Replaces submodules and tensors of a traced module by proxies that record their use.

The traced module is a private copy. A document cannot assign attributes. An assignment can be left out if no later call
reads it: an attention map that is kept to be looked at, or a table that each call could compute again. Others are refused.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.proxies import Traced, TracedTensor, wrap
from pnne_nb.compiler.importing.tracing.recorder import TraceRecorder

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

MODULES_OWN = frozenset(vars(nn.Module()))
"""Attributes that every module has."""

_SIZES = frozenset(("shape", "dtype", "device", "ndim", "size", "dim", "numel"))

_Store = dict[str, Any]


@final
class AssignedError(UntranslatableError):
    """A ``forward`` assigns attributes of submodules; tracing it again while they are watched shows whether that matters.

    Attributes:
        paths: The paths of these submodules.
    """

    def __init__(self, reason: str, paths: set[str]) -> None:
        super().__init__(reason)
        self.paths = paths


@contextmanager
def intercepted(
    recorder: TraceRecorder,
    module: nn.Module,
    mode: Traced,
    calling: Callable[[str], Callable[..., Any]],
    watched: Collection[str],
) -> Iterator[list[tuple[nn.Module, Attributes]]]:
    """Replace submodules and tensors of a module by proxies, and refuse its assignments.

    Args:
        recorder: Records what is done with them.
        module: The traced module.
        mode: Proxy of ``self.training``.
        calling: Returns the replacement of the ``forward`` of the submodule at a path.
        watched: Paths of the submodules whose attributes are watched, as those of the module are.

    Yields:
        The watched modules, each with the object that watches its attributes.

    Raises:
        AssignedError: If attributes of submodules are assigned that are not watched.
        UntranslatableError: If something else is assigned that the next call could read.
    """
    kept: list[tuple[_Store, _Store]] = []
    before: list[_Store] = []
    plain: dict[int, str] = {}
    buffers: list[tuple[str, _Store, str]] = []
    watchers: list[tuple[nn.Module, Attributes]] = []
    seen: dict[int, Traced] = {}
    try:
        for path, each in module.named_modules():
            own = vars(each)
            # Of a scripted module, Python reaches only the dictionary.
            scripted = isinstance(each, torch.jit.ScriptModule)
            stores = [own] if scripted else [own, each._parameters, each._buffers, each._modules]
            kept += [(store, dict(store)) for store in stores]
            plain[id(own)] = path
            if each is not module:
                own["forward"] = calling(path)
            if scripted:
                before.append(dict(own))
                continue
            own["training"] = mode
            for hooks in _HOOKS:
                own[hooks] = OrderedDict()
            for store in stores[1:3]:
                for name, tensor in store.items():
                    if tensor is not None:
                        place = f"{path}.{name}" if path else name
                        store[name] = _stored(recorder, place, tensor, seen)
                        if store is each._buffers:
                            buffers.append((place, store, name))
            before += [dict(store) for store in stores]
        watchers += [(each, Attributes(each)) for each in (module, *map(module.get_submodule, watched))]
        yield watchers
        for _, watcher in watchers:
            watcher.refuse_state()
        originals = {id(store): old for (store, _), old in zip(kept, before, strict=True)}
        for _, store, name in buffers:
            _copy_assigned(recorder, originals[id(store)][name], store, name)
        alone = {id(vars(each)) for each, _ in watchers}
        pairs = [(store, old) for (store, _), old in zip(kept, before, strict=True) if id(store) not in alone]
        _refuse_changes(pairs, plain)
    finally:
        for _, watcher in watchers:
            watcher.restore()
        for store, old in kept:
            added = {name: value for name, value in store.items() if name.startswith("_tensor_constant")}
            store.clear()
            store.update({**old, **added})


def plain_tensors(module: nn.Module) -> Any:
    """Return the tensors that a module keeps as plain attributes, with their paths."""
    return {
        value: f"{path}.{name}" if path else name
        for path, each in module.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, torch.Tensor)
    }


def _stored(recorder: TraceRecorder, place: str, tensor: torch.Tensor, seen: dict[int, Traced]) -> Traced:
    if id(tensor) not in seen:
        found = wrap(recorder.graph.create_node("get_attr", place), recorder, recorder.outlined(tensor))
        if isinstance(found, TracedTensor):
            found.parameter = isinstance(tensor, nn.Parameter)
        seen[id(tensor)] = found
    return seen[id(tensor)]


def _copy_assigned(recorder: TraceRecorder, original: Any, store: _Store, name: str) -> None:
    """Record ``self.mean = …`` of a buffer as a copy into it, which later reads and gradients do not distinguish."""
    new = store.get(name)
    if new is original or type(new) is not TracedTensor or type(original) is not TracedTensor:
        return
    if new.value.shape != original.value.shape or new.value.dtype != original.value.dtype:
        return
    store[name] = original
    if new.node is not original.node:
        recorder.call_method(original, "copy_", (new,), {})


def _refuse_changes(stores: list[tuple[_Store, _Store]], plain: Mapping[int, str]) -> None:
    """Refuse assignments in stores; those in the `plain` ones, of submodules' attributes, may prove harmless."""
    changed = {
        (name, id(store))
        for store, old in stores
        for name in {*store, *old}
        if store.get(name) is not old.get(name) and not name.startswith("_tensor_constant")
    }
    if not changed:
        return
    reason = f"its forward assigns to {', '.join(sorted({name for name, _ in changed}))}"
    if all(place in plain for _, place in changed):
        raise AssignedError(reason, {plain[place] for _, place in changed})
    raise UntranslatableError(reason)


@final
class Attributes:
    """Watches plain attributes of one module during one call.

    Attributes:
        methods: Methods by name for a class of the module, which watch it.
    """

    def __init__(self, module: nn.Module) -> None:
        self._own = vars(module)
        self._before = dict(self._own)
        self._contents = {
            name: value.copy()
            for name, value in self._own.items()
            if name not in MODULES_OWN and type(value) in (list, dict)
        }
        self._read: set[str] = set()
        self._written: set[str] = set()
        cls = type(module)

        def reading(owner: Any, name: str) -> Any:
            if owner is module and name not in self._written:
                self._read.add(name)
            return cls.__getattribute__(owner, name)

        def writing(owner: Any, name: str, value: Any) -> None:
            cls.__setattr__(owner, name, value)
            if owner is module:
                self._written.add(name)

        self.methods: Mapping[str, Any] = {"__getattribute__": reading, "__setattr__": writing}

    def refuse_state(self) -> None:
        """Raise if a later call would read what this one has assigned.

        Raises:
            UntranslatableError: If a value is assigned that was read before, and is no table that every call could make.
        """
        kept = []
        for name in {*self._own, *self._before}:
            value, before = self._own.get(name), self._before.get(name)
            if value is not before:
                if name in self._read and not _is_table(value):
                    kept.append(name)
            elif name in self._contents and not _same(value, self._contents[name]):
                kept.append(name)
        if kept:
            raise UntranslatableError(
                f"its forward assigns to {', '.join(sorted(kept))}, which its next call reads (a buffer, made by "
                "register_buffer, could be imported)"
            )

    def restore(self) -> None:
        """Restore the content of lists and dictionaries."""
        for name, content in self._contents.items():
            value: Any = self._before[name]
            if not _same(value, content):
                value.clear()
                value.update(content) if isinstance(value, dict) else value.extend(content)


def _same(value: Any, content: Any) -> bool:
    """Return whether two lists or dictionaries hold the same objects."""
    if isinstance(value, dict):
        return value.keys() == content.keys() and all(content[key] is each for key, each in value.items())
    return [*map(id, value)] == [*map(id, content)]


def _is_table(value: Any) -> bool:
    """Return whether a value is computed from sizes and constants alone, not from its value before."""
    leaves: list[Any] = [leaf() if isinstance(leaf, weakref.ref) else leaf for leaf in pytree.tree_leaves(value)]
    traced = [leaf.node for leaf in leaves if issubclass(type(leaf), Traced)]
    if not traced and not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return False  # a counter, or a flag
    seen: set[fx.Node] = set()
    pending = traced
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op in ("placeholder", "call_module"):
            return False
        name = str(node.args[1]) if node.target is getattr else str(node.target)
        if name not in _SIZES:
            pending += node.all_input_nodes
    return True
