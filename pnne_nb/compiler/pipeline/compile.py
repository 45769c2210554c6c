"""Compiles documents to modules and to source: the entry point of the compiler."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import NoneType
from typing import Final

import msgspec
from torch import nn

from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.codegen.loader import Loaded
from pnne_nb.compiler.codegen.readable.simplify import comments, parts_of, tidied
from pnne_nb.compiler.codegen.source_map import Generated
from pnne_nb.compiler.codegen.writer import generate
from pnne_nb.compiler.ir.program import Unit
from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot, paths_of, read, size_of
from pnne_nb.compiler.lowering.device_placement import place
from pnne_nb.compiler.lowering.lower import Lowered, lower
from pnne_nb.compiler.lowering.lower_node import Resolved
from pnne_nb.compiler.lowering.recompute import recompute
from pnne_nb.compiler.module import pickled_model
from pnne_nb.compiler.module.call_errors import guard
from pnne_nb.compiler.module.instantiate import make, make_indexable
from pnne_nb.compiler.module.pickled_model import PickledModel, empty, make_portable
from pnne_nb.compiler.shapes import trial
from pnne_nb.compiler.shapes.infer import failure, infer
from pnne_nb.errors import Diagnostic, ShapeError, answers_misuse, expect
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.lint import MAX_NODES
from pnne_nb.graph.schema.registry import registry
from pnne_nb.process.gc_pause import without_collections

CHECKED_NODES = 64
"""Shapes of graphs up to this size are checked by every compilation. A larger graph without ``"auto"`` sizes compiles
in less time than that takes; `infer_shapes`, the editor and the first call report shapes that do not fit there."""


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
    """Drop all cached classes and outcomes."""
    _known.clear()
    pickled_model.forget()
    trial.forget()


# A type that is registered again changes what documents that name it mean.
registry.observe(forget)


_TRAINED: Final = "pn.TrainingEngine(graph, (X, y), loss=..., optimizer=..., metrics=...), which trains"
_FASTER: Final = "torch.compile(pn.compile(graph), ...)"


@answers_misuse(
    "pn.compile(graph)",
    {
        **dict.fromkeys(("loss", "metrics", "optimizer"), _TRAINED),
        **dict.fromkeys(("backend", "dynamic", "fullgraph", "mode"), _FASTER),
    },
)
def compile(graph: NodeGraph, reuse: nn.Module | None = None) -> nn.Module:
    """Return a new model of the class that `graph` describes.

    The class runs generated source with one statement for each node, so that errors and hooks name nodes.
    ``pn.explain(model)`` shows it with its nodes; `to_source` returns the same module in a form for reading.

    Args:
        graph: The document; it is not changed.
        reuse: A model whose tensors are copied wherever name and shape still fit, together with their
            device, element type and ``requires_grad``, and with the training mode of its modules. Linear,
            convolution, norm and embedding layers that were made wider keep their old rows; in what reads them,
            new columns start at zero. It is not changed and shares nothing with the result. Opaque nodes take a copy
            of their module from it.

    Raises:
        CompileError: If the document is unfinished or wrong; ``diagnostics`` lists every reason.
        ArgumentError: If `graph` is no graph, or `reuse` no module.
        CompileError: If the weights do not fit into the free memory, before any is made.
        ShapeError: If shapes do not fit (graphs above `CHECKED_NODES` nodes: only where a size is ``"auto"``).
    """
    expect_graph(graph)
    expect(reuse, (nn.Module, NoneType), "reuse", "a model")
    return _made(graph, reuse, proof=False)


def compile_for_proof(graph: NodeGraph, net: nn.Module) -> nn.Module:
    """Return a model to be compared with `net`, whose weights it takes; those that it cannot take have any values.

    Raises:
        CompileError: See `compile`.
    """
    return _made(graph, net, proof=True)


def _made(graph: NodeGraph, reuse: nn.Module | None, *, proof: bool) -> nn.Module:
    with without_collections():
        compiled = _compiled(graph)
        return make(graph, compiled.lowered, compiled.loaded, reuse, proof=proof)


def to_source(graph: NodeGraph) -> str:
    """Return stand-alone PyTorch source of the class, with shapes in comments where they are known.

    This is the readable form: calls are nested, chains are ``nn.Sequential``, repeated blocks are one class. `compile`
    runs a plainer form with one statement for each node. Both give modules with the same keys and the same results;
    `compiler.codegen.writer` says why there are two.

    Args:
        graph: The document; its name is that of the class.

    Raises:
        CompileError: As `compile`, or the class of a registered node type has no source that could be carried.
    """
    return readable(graph)[0].text


def readable(graph: NodeGraph) -> tuple[Generated, list[Diagnostic]]:
    """Return what `to_source` returns the text of, and where shapes do not fit in it.

    Raises:
        CompileError: As `to_source`.
    """
    snapshots = _finished(graph)
    shapes = infer(graph, snapshots)
    unit = _finish(graph, lower(graph.name, snapshots, shapes.resolved))
    paths = paths_of(snapshots)
    places = {
        registry[node.type].target: f"{paths[snapshot.id][0]}{node.name}"
        for snapshot in snapshots.values()
        for node in snapshot.nodes.values()
        if paths[snapshot.id] and node.type in registry
    }
    generated = generate(*tidied(unit, comments(graph, shapes), parts_of(graph, shapes)), places=places)
    return generated, _errors(shapes.diagnostics)


def load(graph: NodeGraph) -> Loaded:
    """Return the class that `graph` describes, cached while the document is unchanged.

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
        snapshots = _finished(graph, before)
    resolved: Resolved = {}
    each = snapshots.values()
    if any(snapshot.automatic for snapshot in each) or sum(len(snapshot.nodes) for snapshot in each) <= CHECKED_NODES:
        shapes = infer(graph, snapshots)
        if wrong := _errors(shapes.diagnostics):
            raise failure(graph.name, wrong, ShapeError)
        resolved = shapes.resolved
    lowered = lower(graph.name, snapshots, resolved, before)
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
    """Return the program of a document in the form that runs.

    Raises:
        CompileError: As `compile`.
    """
    snapshots = _finished(graph)
    return _finish(graph, lower(graph.name, snapshots, infer(graph, snapshots).resolved))


def _finished(graph: NodeGraph, before: Lowered | None = None) -> dict[str, GraphSnapshot]:
    """Read a document, if nothing in it is unfinished.

    Raises:
        CompileError: If something is; ``diagnostics`` lists every reason.
    """
    expect_graph(graph)
    with graph.reading():
        last = before.snapshots if before is not None else {}
        snapshots = read(graph, last)
        require_finished(graph, snapshots, last)
    return snapshots


def _finish(graph: NodeGraph, lowered: Lowered) -> Unit:
    """Apply what nodes ask for: recomputation, and devices."""
    return place(recompute(lowered.unit, lowered.snapshots), lowered.snapshots, graph)


def _restore(blueprint: PickledModel, definition: str = "", own: type[nn.Module] | None = None) -> nn.Module:
    """Return what a pickle names: an empty model, or an empty part of one (`pickled_model.empty`)."""
    return empty(blueprint, load, definition, own)


def require_finished(
    graph: NodeGraph, snapshots: Mapping[str, GraphSnapshot], before: Mapping[str, GraphSnapshot]
) -> None:
    """Raise if lint finds an error in a document, or after an edit, in what the edit affects.

    Raises:
        CompileError: If it is unfinished or wrong; ``diagnostics`` lists every reason.
    """
    if before and size_of(snapshots) <= MAX_NODES:
        found = graph.diagnostics_at(affected_nodes(snapshots, before))
        if not any(_errors(each) for each in found.values()):
            return
    if errors := _errors(graph.diagnostics()):
        raise failure(graph.name, errors)


def affected_nodes(snapshots: Mapping[str, GraphSnapshot], before: Mapping[str, GraphSnapshot]) -> list[str]:
    """Return the paths of the nodes whose diagnostics an edit may have changed.

    These are edited and rewired nodes, their consumers, nodes that share their modules, and uses of an edited graph.
    """
    paths = paths_of(snapshots)
    altered: set[str] = set()
    found: list[str] = []
    for id, snapshot in snapshots.items():  # each before those that use it
        old = before.get(id)
        touched = _touched(snapshot, old)
        touched |= {name for name, node in snapshot.nodes.items() if node.definition in altered}
        if touched or old is not snapshot:
            altered.add(id)
        behind = {follower for name in touched for follower in snapshot.followers.get(name, ())}
        found += [f"{prefix}{name}" for prefix in paths[id] for name in touched | behind]
    return found


def _touched(snapshot: GraphSnapshot, old: GraphSnapshot | None) -> set[str]:
    if old is None:
        return set(snapshot.nodes)
    if old is snapshot:
        return set()
    touched = {
        name
        for name, node in snapshot.nodes.items()
        if old.nodes.get(name) is not node or old.wires.get(name, NO_WIRES) != snapshot.wires.get(name, NO_WIRES)
    }
    gone = old.nodes.keys() - snapshot.nodes.keys()
    return touched | {name for name, node in snapshot.nodes.items() if node.shares in touched or node.shares in gone}


def _errors(found: list[Diagnostic]) -> list[Diagnostic]:
    return [diagnostic for diagnostic in found if diagnostic.severity == "error"]
