"""Class → model: of fresh weights, or of those that another model has."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import msgspec
import torch
from torch import nn

from pnne_nb.compiler import loader
from pnne_nb.compiler.affording import bound, require_room
from pnne_nb.compiler.copying import duplicate
from pnne_nb.compiler.equipping import settle, shell
from pnne_nb.compiler.expecting import inputs_of
from pnne_nb.compiler.holding import whole_clash, whole_node
from pnne_nb.compiler.lacking import require_values, warn_of_lost
from pnne_nb.compiler.loader import Loaded
from pnne_nb.compiler.lowering import Lowered
from pnne_nb.compiler.renaming import former_paths, is_known, remember
from pnne_nb.compiler.reusing import Former, carry_over, place_in
from pnne_nb.compiler.running import constructed
from pnne_nb.compiler.shapes import failure
from pnne_nb.compiler.tying import LARGE, made_once
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.boxes import whole_of
from pnne_nb.graph.document import NodeGraph


def make(graph: NodeGraph, lowered: Lowered, loaded: Loaded, reuse: nn.Module | None) -> nn.Module:
    """Return a new model of a class.

    Args:
        graph: The document that the class comes from.
        lowered: What it was lowered to.
        loaded: Its class.
        reuse: As `compiling.compile`.

    Raises:
        CompileError: If `reuse` has not what the document only names, a layer cannot be built, or the weights do not
            fit into memory.
    """
    expected = inputs_of(lowered.drawings[""])
    former = former_paths(graph, reuse) if reuse is not None else {}
    source = _around_whole(graph, reuse, former) if reuse is not None else None
    opaque = _opaque_modules(graph, loaded, source, former)
    absent = [path for path, device in loaded.generated.devices.items() if device == "meta"]
    ready = {id(tensor) for module in _closed_whole(loaded, opaque) for tensor in _tensors(module)}
    require_room(lowered.unit, lambda: loaded.cls(*opaque), absent)
    new = functools.partial(constructed, loaded, opaque, expected)
    tied = bool(lowered.unit.root.ties) and bound(lowered.unit) > LARGE
    model = made_once(new) if tied else new()
    carried: dict[str, str] = {}
    if reuse is not None and source is not None:
        boxes = loaded.generated.boxes
        # A copy of a whole module has its tensors already, which may overlap.
        carried = carry_over(source if whole_node(graph) in boxes else reuse, model, former, ready)
        if missing := settle(model, source, boxes, former):
            raise failure(loaded.generated.name, [_on_screen(graph, each) for each in missing])
        if not is_known(graph, reuse):
            closed = {id(tensor) for module in opaque for tensor in module.parameters()}
            afresh = [name for name, each in model.named_parameters() if name not in carried and id(each) not in closed]
            warn_of_lost(graph, model, afresh, source, set(carried.values()))
    remember(model, graph)
    if loaded.generated.absent:
        require_values(graph, loaded, model, carried)
    if reuse is not None:
        for path, device in loaded.generated.devices.items():
            model.get_submodule(path).to(device)
    return model


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
    if missing:
        raise failure(loaded.generated.name, [_on_screen(graph, each) for each in missing])
    return modules


def _closed_whole(loaded: Loaded, opaque: Sequence[nn.Module]) -> Iterator[nn.Module]:
    """Yield the module that the model itself is, if it is a copy as it stands: its tensors may overlap."""
    for path, module in zip(loaded.generated.opaque, opaque, strict=True):
        if not path and path not in loaded.generated.boxes:
            yield module


def _tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _on_screen(graph: NodeGraph, diagnostic: Diagnostic) -> Diagnostic:
    """Return what is said of a module by its path, with the path of its node."""
    path = diagnostic.node or whole_of(graph.nodes)
    return msgspec.structs.replace(diagnostic, node=graph[path].path if path in graph else path)
