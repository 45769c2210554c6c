"""Document → ``nn.Module``, and document → source: the front door of the compiler."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from types import NoneType
from typing import SupportsIndex

import msgspec
import torch
from torch import nn

from pnne_nb.catalog.collecting import without_collections
from pnne_nb.compiler import loader, trying
from pnne_nb.compiler.affording import require_room
from pnne_nb.compiler.automatic import has_automatic
from pnne_nb.compiler.checking import require_finished
from pnne_nb.compiler.copying import duplicate
from pnne_nb.compiler.equipping import settle, shell
from pnne_nb.compiler.expecting import inputs_of
from pnne_nb.compiler.holding import whole_clash, whole_node
from pnne_nb.compiler.indexing import make_indexable
from pnne_nb.compiler.loader import Loaded
from pnne_nb.compiler.lowering import Lowered, lower
from pnne_nb.compiler.placing import place
from pnne_nb.compiler.program import Ref, Unit
from pnne_nb.compiler.reading import Drawing, read
from pnne_nb.compiler.recomputing import recompute
from pnne_nb.compiler.renaming import former_paths, is_known, new_paths, remember
from pnne_nb.compiler.reusing import Former, carry_over, place_in
from pnne_nb.compiler.running import constructed, guard
from pnne_nb.compiler.sections import Generated
from pnne_nb.compiler.shapes import Shapes, TensorSpec, failure, infer
from pnne_nb.compiler.source import generate
from pnne_nb.compiler.tidying import tidied
from pnne_nb.compiler.unpacking import Parts
from pnne_nb.errors import Diagnostic, ShapeError, expect
from pnne_nb.graph import files
from pnne_nb.graph.boxes import whole_of
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.records import DocumentState
from pnne_nb.graph.registry import registry

CHECKED_NODES = 64
"""Shapes of graphs up to this size are checked by every compilation. A larger graph without ``"auto"`` sizes compiles
in less time than that takes; what does not fit there is said by `infer_shapes`, in the editor, and when it runs."""


class _Compiled(msgspec.Struct, frozen=True):
    """What the last compilation of a document gave; the next one takes over what has not changed since.

    Attributes:
        graph: The document.
        version: Which it had.
        lowered: Its nodes and graphs, lowered.
        generated: Its source.
        loaded: Its class, which may have been made of another document's equal source.
    """

    graph: weakref.ref[NodeGraph]
    version: int
    lowered: Lowered
    generated: Generated
    loaded: Loaded


_known: dict[int, _Compiled] = {}
"""By the identity of the document, for documents are not hashable. It goes with the document."""

_restored: weakref.WeakValueDictionary[str, Loaded] = weakref.WeakValueDictionary()
"""What classes of other processes are here, by their keys there: these differ where registered objects are used."""


def forget(_: object = None) -> None:
    """Drop every cached class and outcome: a type was registered anew, or a benchmark wants a cold start."""
    _known.clear()
    _restored.clear()
    trying.forget()


# A type that is registered anew gives documents that name it another meaning.
registry.observe(forget)


def compile(graph: NodeGraph, reuse: nn.Module | None = None) -> nn.Module:
    """Return a new instance of the class that `graph` describes.

    Args:
        graph: The document; it is not changed.
        reuse: A model whose tensors are copied wherever name and shape still fit, together with their
            device, element type and ``requires_grad``, and with the training mode of its modules. It is
            not changed and shares nothing with the result. Opaque nodes take a copy of their module from it.

    Raises:
        CompileError: If the document is unfinished or wrong; ``diagnostics`` lists every reason.
        ArgumentError: If `graph` is no graph, or `reuse` no module.
        CompileError: If the weights do not fit into the free memory, before any is made.
        ShapeError: If shapes do not fit (graphs above `CHECKED_NODES` nodes: only where a size is ``"auto"``).
    """
    expect_graph(graph)
    expect(reuse, (nn.Module, NoneType), "reuse", "a model")
    with without_collections():
        return _made(graph, reuse)


def _made(graph: NodeGraph, reuse: nn.Module | None) -> nn.Module:
    compiled = _compiled(graph)
    loaded, expected = compiled.loaded, inputs_of(compiled.lowered.drawings[""])
    former = former_paths(graph, reuse) if reuse is not None else {}
    source = _around_whole(graph, reuse, former) if reuse is not None else None
    opaque = _opaque_modules(graph, loaded, source, former)
    absent = [path for path, device in loaded.generated.devices.items() if device == "meta"]
    ready = {id(tensor) for module in _closed_whole(loaded, opaque) for tensor in _tensors(module)}
    require_room(compiled.lowered.unit, lambda: loaded.cls(*opaque), absent)
    model = constructed(loaded, opaque, expected)
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
            _warn_of_lost(graph, model, afresh, source, set(carried.values()))
    remember(model, graph)
    if loaded.generated.absent:
        _require_values(graph, loaded, model, carried)
    if reuse is not None:
        for path, device in loaded.generated.devices.items():
            model.get_submodule(path).to(device)
    return model


def to_source(graph: NodeGraph) -> str:
    """Return the PyTorch source of the class, stand-alone, with shapes in comments where they are known.

    Args:
        graph: The document; its name is that of the class.

    Raises:
        CompileError: As `compile`.
    """
    drawings = _finished(graph)
    shapes = infer(graph, drawings)
    unit = _finish(graph, lower(graph.name, drawings, shapes.resolved))
    return generate(*tidied(unit, _comments(graph, shapes), _parts(graph, shapes))).text


def load(graph: NodeGraph) -> Loaded:
    """Return the class that `graph` describes; it is found again as long as the document is not changed.

    Raises:
        CompileError: As `compile`.
    """
    with without_collections():
        return _compiled(graph).loaded


def _compiled(graph: NodeGraph) -> _Compiled:
    identity = id(graph)
    known = _known.get(identity)
    if known is not None and known.graph() is not graph:
        known = None
    if known is not None and known.version == graph.version:
        return known
    before = known.lowered if known is not None else None
    with graph.reading():
        version, document = graph.version, graph.frozen()
        drawings = _finished(graph, before)
    resolved = {}
    if has_automatic(drawings) or sum(len(drawing.nodes) for drawing in drawings.values()) <= CHECKED_NODES:
        shapes = infer(graph, drawings)
        wrong = [diagnostic for diagnostic in shapes.diagnostics if diagnostic.severity == "error"]
        if wrong:
            raise failure(graph.name, wrong, ShapeError)
        resolved = shapes.resolved
    lowered = lower(graph.name, drawings, resolved, before)
    unit = _finish(graph, lowered)
    generated = generate(unit, known=known.generated if known is not None else None)
    loaded = loader.load(generated, unit.objects)
    guard(loaded)
    make_indexable(loaded)
    _make_portable(loaded, document)
    gone = weakref.ref(graph, lambda _: _known.pop(identity, None))
    _known[identity] = compiled = _Compiled(gone, version, lowered, generated, loaded)
    return compiled


def program_of(graph: NodeGraph) -> Unit:
    """Return the program of a document, as it is written and run.

    Raises:
        CompileError: As `compile`.
    """
    drawings = _finished(graph)
    return _finish(graph, lower(graph.name, drawings, infer(graph, drawings).resolved))


def _finished(graph: NodeGraph, before: Lowered | None = None) -> dict[str, Drawing]:
    """Read a document, if nothing in it is unfinished.

    Raises:
        CompileError: If something is; ``diagnostics`` lists every reason.
    """
    expect_graph(graph)
    with graph.reading():
        last = before.drawings if before is not None else {}
        drawings = read(graph, last)
        require_finished(graph, drawings, last)
    return drawings


def _finish(graph: NodeGraph, lowered: Lowered) -> Unit:
    """Do what nodes ask for: devices, and computing again instead of keeping."""
    return place(recompute(lowered.unit, lowered.drawings), lowered.drawings, graph)


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


def _require_values(graph: NodeGraph, loaded: Loaded, model: nn.Module, carried: Collection[str]) -> None:
    """Say which buffers of an imported graph have no values, because they were too many for the document.

    Raises:
        CompileError: If ``load_state_dict`` could not give them either.
    """
    generated = loaded.generated
    names = {generated.classes[id]: absent for id, absent in generated.absent.items()}
    keys = model.state_dict().keys()
    missing = [
        f"{path}.{name}" if path else name
        for path, module in model.named_modules(remove_duplicate=False)
        for name in names.get(type(module).__name__, ())
        if type(module).__module__ == loaded.module.__name__
    ]
    missing = [path for path in missing if path not in carried]
    message = "The values of this buffer are not in the document, which keeps those of small ones."
    found = [
        Diagnostic(
            code="absent-values",
            message=message,
            node=path,
            severity="warning" if path in keys else "error",
            hint="Pass the model that has it: pn.compile(graph, reuse=model)"
            + (", or load a state_dict." if path in keys else "."),
        )
        for path in missing
    ]
    if any(diagnostic.severity == "error" for diagnostic in found):
        raise failure(graph.name, found)
    for diagnostic in found:
        warnings.warn(str(diagnostic), stacklevel=4)


def _warn_of_lost(
    graph: NodeGraph, model: nn.Module, afresh: Collection[str], source: nn.Module, taken: Collection[str]
) -> None:
    """Say which weights of a model that the document does not know may belong to nodes that have other names."""
    # A layer that both have may have got or lost a bias on purpose.
    had = {name for name, _ in source.named_modules()} if afresh else set()
    missing = [name for name in afresh if _owner(name) not in had]
    unused = [(name, each) for name, each in source.named_parameters() if name not in taken] if missing else []
    left = [(name, each.shape) for name, each in unused if _owner(name) not in graph]
    pairs: list[tuple[str, str]] = []
    for name in missing if left else ():
        like = (name.rpartition(".")[2], model.get_parameter(name).shape)
        other = next((old for old, shape in left if (old.rpartition(".")[2], shape) == like), None)
        if other is not None:
            left.remove((other, like[1]))
            pairs.append((name, other))
    new = new_paths(graph) if pairs else set()
    lost = [pair for pair in pairs if not any(pair[0] == path or pair[0].startswith(f"{path}.") for path in new)]
    if lost:
        more = f" There are {len(lost) - 1} more such weights." if len(lost) > 1 else ""
        warnings.warn(
            f"{graph.name}: {lost[0][0]} begins afresh, and {lost[0][1]} of the model that is reused, which is like it, "
            f"is not taken.{more} Nodes that were renamed or moved are followed from when their graph was loaded or "
            "imported; what was done before that is not known. Give both the same names, or reuse a model that was "
            "compiled from this graph.",
            stacklevel=4,
        )


def _owner(tensor: str) -> str:
    return tensor.rpartition(".")[0]


class _Blueprint(msgspec.Struct, frozen=True):
    """How a pickled model finds its class again, in this process or in another.

    Attributes:
        key: Of the class in the process that wrote the pickle.
        document: The graph file that it is compiled from. No code travels.
    """

    key: str
    document: str


def _make_portable(loaded: Loaded, document: Callable[[], DocumentState]) -> None:
    """Have models of a class, and their nested ones, pickled and copied as their document and their tensors."""
    if loaded.document is not None:
        return
    loaded.document = document

    @functools.cache
    def blueprint() -> _Blueprint:
        return _Blueprint(loaded.key, files.write(document()))  # one object, so that a pickle holds it once

    for definition, name in loaded.generated.classes.items():

        def reduce(self: nn.Module, _: SupportsIndex, definition: str = definition) -> tuple[object, ...]:
            own = () if definition else filter(None, (loader.own_class(self),))
            return _restore, (blueprint(), definition, *own), self.__getstate__()  # type: ignore[no-untyped-call]

        getattr(loaded.module, name).__reduce_ex__ = reduce  # as object's, but for this class
    loaded.cls.__deepcopy__ = None  # type: ignore[attr-defined]  # that of a class that it is of too knows nothing of it


def _restore(blueprint: _Blueprint, definition: str = "", own: type[nn.Module] | None = None) -> nn.Module:
    """Return an empty model, or an empty part of one, for its state to be put into.

    Args:
        blueprint: Of the model.
        definition: Of the part; an empty text for the whole model.
        own: The class of the module that the model itself is, if its graph keeps one as it is.
    """
    loaded = loader.find(blueprint.key) or _restored.get(blueprint.key)
    if loaded is None:
        loaded = _restored[blueprint.key] = load(NodeGraph.from_json(blueprint.document))
    if not definition:
        return loaded.empty(own)
    part: type[nn.Module] = getattr(loaded.module, loaded.generated.classes[definition])
    return part.__new__(part)


def _comments(graph: NodeGraph, shapes: Shapes) -> dict[tuple[str, str], str]:
    """Return what to say at each node's line: its shapes, where they are the same in every use."""
    found: dict[tuple[str, str], set[str]] = {}
    by_node: dict[str, list[TensorSpec]] = {}
    for path, spec in shapes.tensors.items():
        by_node.setdefault(path.rpartition(".")[0], []).append(spec)
    for path, specs in by_node.items():
        definition, name = _written_at(graph, path)
        found.setdefault((definition, name), set()).add(", ".join(map(str, specs)))
    return {place: next(iter(texts)) for place, texts in found.items() if len(texts) == 1}


def _parts(graph: NodeGraph, shapes: Shapes) -> dict[str, Parts]:
    """Return how many parts values have, where they have as many in every use; 0 elsewhere."""
    found: dict[str, Parts] = {}
    for path, count in (*((path, len(spec.shape)) for path, spec in shapes.tensors.items()), *shapes.items.items()):
        node, _, port = path.rpartition(".")
        definition, name = _written_at(graph, node)
        parts = found.setdefault(definition, Parts({}, {}))
        counts = parts.sizes if path in shapes.tensors else parts.items
        counts[Ref(name, port)] = count if counts.get(Ref(name, port), count) == count else 0
    return found


def _written_at(graph: NodeGraph, path: str) -> tuple[str, str]:
    """Return the definition that a node is written in, and its name there."""
    prefix, _, name = path.rpartition(".")
    return (graph[prefix].definition if prefix else "") or "", name
