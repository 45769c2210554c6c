"""Replaces submodules and tensors of a traced module by proxies that record their use.

The traced module is a private copy. Attributes that it assigns are refused afterwards where the document would behave
differently.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.proxies import Traced, TracedTensor, wrap
from pnne_nb.compiler.importing.tracing.recorder import TraceRecorder
from pnne_nb.compiler.importing.tracing.side_effects import Attributes

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

_Store = dict[str, Any]


@final
class AssignedError(UntranslatableError):
    """A ``forward`` assigns attributes of submodules; tracing again with these watched shows whether that matters.

    Attributes:
        paths: Of these submodules.
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
        mode: Stands for ``self.training``.
        calling: Returns what takes the place of the ``forward`` of the submodule at a path.
        watched: Paths of the submodules whose attributes are watched as those of the module are.

    Yields:
        What watches the attributes, with the module whose they are.

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
            # A scripted module keeps all but its dictionary where Python does not reach.
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
    """Return where a module keeps tensors as plain attributes."""
    return {
        value: f"{path}.{name}" if path else name
        for path, each in module.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, torch.Tensor)
    }


def _stored(recorder: TraceRecorder, place: str, tensor: torch.Tensor, seen: dict[int, Traced]) -> Traced:
    if id(tensor) not in seen:
        found = wrap(recorder.graph.create_node("get_attr", place), recorder, tensor.detach().to("meta"))
        if isinstance(found, TracedTensor):
            found.parameter = isinstance(tensor, nn.Parameter)
        seen[id(tensor)] = found
    return seen[id(tensor)]


def _copy_assigned(recorder: TraceRecorder, original: Any, store: _Store, name: str) -> None:
    """Record ``self.mean = …`` of a buffer as a copy into it: later reads see the same, and its gradients go the same way."""
    new = store.get(name)
    if new is original or type(new) is not TracedTensor or type(original) is not TracedTensor:
        return
    if new.value.shape != original.value.shape or new.value.dtype != original.value.dtype:
        return
    store[name] = original
    if new.node is not original.node:
        recorder.call_method(original, "copy_", (new,), {})


def _refuse_changes(stores: list[tuple[_Store, _Store]], plain: Mapping[int, str]) -> None:
    """Refuse what is assigned in stores; in the `plain` ones, of submodules' attributes, it may prove harmless."""
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
