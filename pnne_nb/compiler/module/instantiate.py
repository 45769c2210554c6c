"""Constructs a model of a class, with fresh weights or with those of another model; and lets it be indexed.

A graph with nodes "0", "1", … was an ``nn.Sequential`` or ``nn.ModuleList``, or could be one: ``model.layer1[0]`` works
as it did there. The generated class is neither, because its own ``forward`` calls the nodes: a module that is appended to
it would never be called.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, final

import msgspec
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.codegen.loader import OWN_CALLS, Loaded, itself
from pnne_nb.compiler.codegen.model_document import ModelDocument
from pnne_nb.compiler.codegen.prelude import CALLED
from pnne_nb.compiler.codegen.readable.simplify import is_chain
from pnne_nb.compiler.ir.program import Program, Weight
from pnne_nb.compiler.lowering.attributes import whole_clash, whole_node
from pnne_nb.compiler.lowering.lower import Lowered
from pnne_nb.compiler.module.call_errors import constructed
from pnne_nb.compiler.shapes.infer import failure
from pnne_nb.compiler.weights.deepcopy import computed, duplicate
from pnne_nb.compiler.weights.memory_check import require_room
from pnne_nb.compiler.weights.rename_log import former_paths, is_known, remember
from pnne_nb.compiler.weights.reuse import (
    Former,
    carry_over,
    frozen_in,
    is_below,
    place_in,
    remember_frozen,
    share_modules,
)
from pnne_nb.compiler.weights.weight_source import warn_of_lost
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import whole_of
from pnne_nb.process.random_state import RandomState


def make(
    graph: NodeGraph, lowered: Lowered, loaded: Loaded, document: ModelDocument, reuse: nn.Module | None, *, proof: bool
) -> tuple[nn.Module, Collection[str]]:
    """Return a new model of a class, with the names of its tensors that have the values of `reuse`.

    Args:
        graph: The document that the class comes from.
        lowered: What it was lowered to.
        loaded: Its class.
        document: Its content.
        reuse: A module whose tensors are taken, or None.
        proof: Whether it is only to be compared with `reuse`: then weights that it cannot take over have any values,
            and there is no warning of these.

    Raises:
        CompileError: If `reuse` has not what the document only names, a layer cannot be built, or the weights do not
            fit into memory.
    """
    drawn = RandomState(_devices_of(loaded)) if reuse is not None else None
    former = former_paths(graph, reuse) if reuse is not None else {}
    source = _around_whole(graph, reuse, former) if reuse is not None else None
    opaque = _opaque_modules(graph, loaded, source, former)
    absent = [path for path, device in loaded.generated.devices.items() if device == "meta"]
    # The opaque module that the model itself is: its tensors may overlap.
    pairs = zip(loaded.generated.opaque, opaque, strict=True)
    whole = next((module for path, module in pairs if not path and path not in loaded.generated.boxes), None)
    ready = {id(tensor) for tensor in (*whole.parameters(), *whole.buffers())} if whole is not None else set()
    require_room(lowered.unit, lambda: loaded.cls(*opaque), absent)
    with _Undrawn() if proof else nullcontext():  # type: ignore[no-untyped-call]  # torch does not say
        model = constructed(loaded, opaque, document)
    carried: dict[str, str] = {}
    if reuse is not None and source is not None:
        boxes = loaded.generated.boxes
        # A copy of a whole module has its tensors already, which may overlap.
        frozen = frozen_in(reuse)
        carried = carry_over(source if whole_node(graph) in boxes else reuse, model, former, ready, frozen)
        if missing := settle(model, source, boxes, former):
            raise failure(loaded.generated.name, [_on_screen(graph, each) for each in missing])
        if not proof and not is_known(graph, reuse):
            closed = {id(tensor) for module in opaque for tensor in module.parameters()}
            afresh = [name for name, each in model.named_parameters() if name not in carried and id(each) not in closed]
            warn_of_lost(graph, model, afresh, source, set(carried.values()))
        share_modules(source, model, former)
        if drawn is not None and (proof or not _keeps_fresh(model, _unchanged(model, source, carried), opaque)):
            drawn.restore()  # what was drawn for the constructors is nowhere
        if proof:
            remember_frozen(reuse, loaded.generated.frozen)
        for path in loaded.generated.still:
            model.get_submodule(path).eval()
    remember(model, graph)
    if reuse is not None:
        for path, device in loaded.generated.devices.items():
            model.get_submodule(path).to(device)
    return model, carried


def _devices_of(loaded: Loaded) -> set[torch.device]:
    """Return where constructors may draw."""
    return {torch.get_default_device(), *map(torch.device, loaded.generated.devices.values())}


def _unchanged(model: nn.Module, source: nn.Module, carried: Mapping[str, str]) -> set[str]:
    """Return the names of tensors that came from `source` as they were; a layer that was made wider has new rows."""
    shapes = {name: tensor.shape for name, tensor in source.named_parameters(remove_duplicate=False)}
    now = {name: tensor.shape for name, tensor in model.named_parameters(remove_duplicate=False)}
    return {name for name, before in carried.items() if now.get(name) == shapes.get(before)}


def _keeps_fresh(model: nn.Module, carried: Collection[str], opaque: Iterable[nn.Module]) -> bool:
    """Return whether a model has parameters, or buffers of other classes than torch's, that it did not get.

    Its constructors may have drawn them.
    """
    known = {id(tensor) for module in opaque for tensor in (*module.parameters(), *module.buffers())}
    for path, module in model.named_modules():
        is_torch_s = type(module).__module__.startswith("torch.")
        own = module._parameters if is_torch_s else {**module._parameters, **module._buffers}
        prefix = f"{path}." if path else ""
        if any(
            each is not None and id(each) not in known and prefix + name not in carried for name, each in own.items()
        ):
            return True
    return False


@final
class _Undrawn(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """During a ``with`` block, weights are not drawn: memory that nobody writes to costs nothing."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket in (torch.ops.aten.uniform_, torch.ops.aten.normal_):
            return args[0]
        return func(*args, **(kwargs or {}))


def _around_whole(graph: NodeGraph, reuse: nn.Module, former: Former) -> nn.Module:
    """Return a model to take tensors from that has them under the paths of the document.

    A document that only calls the module that it was imported from holds that in a node; the module itself does not.
    """
    whole = whole_node(graph)
    name = place_in(whole, former) if whole else ""
    is_held = loader.loaded_from(reuse) is not None and name in reuse._modules
    if not whole or is_held or whole == whole_of(graph.nodes):
        return reuse
    around = nn.Module()
    around.add_module(name, reuse)
    around.training = reuse.training
    return around


def _opaque_modules(graph: NodeGraph, loaded: Loaded, reuse: nn.Module | None, former: Former) -> list[nn.Module]:
    modules: list[nn.Module] = []
    missing: list[Diagnostic] = []
    for path in loaded.generated.opaque:
        try:
            place = place_in(path, former)
            found = reuse.get_submodule(place) if reuse is not None else None
        except AttributeError:
            found = None
        if found is not None and not place:
            found = loader.itself(found)
            if not path:
                whole = whole_of(graph.nodes)
                missing += [whole_clash(name, whole) for name in loaded.generated.drawn if hasattr(found, name)]
        if found is None:
            missing.append(
                Diagnostic(
                    code="opaque-module",
                    message="The node is opaque: its module cannot be built from the graph.",
                    node=path,
                    hint="Pass the model that has it: pn.compile(graph, reuse=model).",
                )
            )
        else:
            modules.append(shell(found) if path in loaded.generated.boxes else duplicate(found))
            if reuse is not None and is_below(place, frozen_in(reuse)):
                modules[-1].requires_grad_()  # the class freezes it again, unless the graph does so no longer
    if missing:
        raise failure(loaded.generated.name, [_on_screen(graph, each) for each in missing])
    return modules


def _on_screen(graph: NodeGraph, diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic with the path of the node instead of the module."""
    path = diagnostic.node or whole_of(graph.nodes)
    return msgspec.structs.replace(diagnostic, node=graph[path].path if path in graph else path)


def make_indexable(loaded: Loaded) -> None:
    """Add indexing, slicing and iteration to classes whose modules are numbered."""
    for id, (_, section) in loaded.generated.sections.items():
        program = section.program
        cls = getattr(loaded.module, loaded.generated.classes[id])
        if program.holds and issubclass(cls, (nn.ModuleList, nn.Sequential)):
            cls.__getitem__ = _held  # torch's own would call the class with the modules of a slice
        elif not program.holds and _is_numbered(program):
            cls.__getitem__ = _step if is_chain(program) else _item
            cls.__setitem__, cls.__len__, cls.__iter__ = _replace, _length, _items


def _is_numbered(program: Program) -> bool:
    modules = (member for member in program.members if not isinstance(member, Weight))
    first = next(modules, None)
    return first is not None and first.name == "0" and all(each.name == str(n) for n, each in enumerate(modules, 1))


def _step(self: nn.Module, index: int | slice) -> nn.Module:
    found = _found(self, index)
    return found if isinstance(found, nn.Module) else nn.Sequential(*found)


def _item(self: nn.Module, index: int | slice) -> nn.Module:
    found = _found(self, index)
    return found if isinstance(found, nn.Module) else nn.ModuleList(found)


def _held(self: nn.Module, index: int | slice) -> nn.Module:
    plain: Any = nn.Sequential if isinstance(self, nn.Sequential) else nn.ModuleList
    if not isinstance(index, slice):
        found: nn.Module = plain.__getitem__(self, index)
        return found
    return _step(self, index) if plain is nn.Sequential else _item(self, index)


def _found(module: nn.Module, index: int | slice) -> nn.Module | list[nn.Module]:
    try:
        return list(_items(module))[index]
    except IndexError:
        raise IndexError(f"index {index} is out of range: there are {_length(module)} modules") from None


def _replace(self: nn.Module, index: int, module: nn.Module) -> None:
    setattr(self, list(self._modules)[index], module)


def _length(self: nn.Module) -> int:
    return len(self._modules)


def _items(self: nn.Module) -> Iterator[nn.Module]:
    return (module for module in self._modules.values() if module is not None)


_PARTS = ("_parameters", "_buffers", "_modules")
_NOT_PERSISTENT = "_non_persistent_buffers_set"


def shell(original: nn.Module) -> nn.Module:
    """Return an object of a module's class that holds nothing yet."""
    made: nn.Module = object.__new__(type(original))
    nn.Module.__init__(made)
    return made


def settle(model: nn.Module, source: nn.Module, boxes: Sequence[str], former: Former) -> list[Diagnostic]:
    """Give the shells in a new model, which have their parts, everything else.

    Args:
        model: It has the weights that it is to have.
        source: The model that has the originals.
        boxes: Paths of the opaque modules, outer ones first.
        former: Paths that modules of `model` have in `source`, where they differ.

    Returns:
        What the modules' own code would miss.
    """
    if not boxes:
        return []
    originals = {**dict(source.named_modules(remove_duplicate=False)), "": itself(source)}
    missing: list[Diagnostic] = []
    memo: dict[int, Any] = {id(each): each.detach().clone() for each in computed(source)}
    pairs: list[tuple[str, nn.Module, nn.Module]] = []
    for path, module in model.named_modules(remove_duplicate=False):
        original = originals.get(place_in(path, former))
        if original is None:
            continue
        if path in boxes:
            pairs.append((path, module, original))
        memo[id(original)] = module
        for kind in _PARTS[:2]:
            new = vars(module)[kind]
            memo.update((id(old), new[name]) for name, old in vars(original)[kind].items() if name in new)
    for path, module, original in pairs:
        for kind in _PARTS:
            held = vars(module)[kind]
            for name, part in vars(original)[kind].items():
                if part is None:
                    held.setdefault(name, None)
                elif name not in held:
                    missing.append(
                        Diagnostic(
                            code="box-lost",
                            message=f"Its own code, that of {type(original).__name__}, may use {name}, "
                            "which is no longer inside it.",
                            node=path,
                            hint=f"Give a node inside it the name {name}.",
                        )
                    )
        for name, value in vars(original).items():
            if name in _PARTS or name == _NOT_PERSISTENT:
                continue
            calls = vars(module).get(OWN_CALLS) if name in CALLED else None
            try:
                (vars(module) if calls is None else calls)[name] = copy.deepcopy(value, memo)
            except Exception as error:  # noqa: BLE001  # its class may define copying as it likes
                missing.append(
                    Diagnostic(
                        code="box-lost",
                        message=f"Its attribute {name} cannot be copied: {error}.",
                        node=path,
                        hint="Set it to what can be copied, as None, before the model is passed on.",
                    )
                )
    return missing
