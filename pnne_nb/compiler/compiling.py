"""Document → ``nn.Module``, and document → source: the front door of the compiler."""

from __future__ import annotations

import weakref
from types import NoneType

import msgspec
from torch import nn

from pnne_nb.catalog.collecting import without_collections
from pnne_nb.compiler import loader, pickling, trying
from pnne_nb.compiler.automatic import Resolved, has_automatic
from pnne_nb.compiler.checking import require_finished
from pnne_nb.compiler.commenting import comments, parts_of
from pnne_nb.compiler.indexing import make_indexable
from pnne_nb.compiler.loader import Loaded
from pnne_nb.compiler.lowering import Lowered, lower
from pnne_nb.compiler.making import make
from pnne_nb.compiler.pickling import Blueprint, empty, make_portable
from pnne_nb.compiler.placing import place
from pnne_nb.compiler.program import Unit
from pnne_nb.compiler.reading import Drawing, read
from pnne_nb.compiler.recomputing import recompute
from pnne_nb.compiler.running import guard
from pnne_nb.compiler.sections import Generated
from pnne_nb.compiler.shapes import failure, infer
from pnne_nb.compiler.source import generate
from pnne_nb.compiler.tidying import tidied
from pnne_nb.errors import ShapeError, expect
from pnne_nb.graph.document import NodeGraph, expect_graph
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


def forget(_: object = None) -> None:
    """Drop every cached class and outcome: a type was registered anew, or a benchmark wants a cold start."""
    _known.clear()
    pickling.forget()
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
        compiled = _compiled(graph)
        return make(graph, compiled.lowered, compiled.loaded, reuse)


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
    return generate(*tidied(unit, comments(graph, shapes), parts_of(graph, shapes))).text


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
    resolved: Resolved = {}
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
    make_portable(loaded, document, _restore)
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


def _restore(blueprint: Blueprint, definition: str = "", own: type[nn.Module] | None = None) -> nn.Module:
    """Return what a pickle names: an empty model, or an empty part of one (`pickling.empty`)."""
    return empty(blueprint, load, definition, own)
