"""Compiles documents to modules and to source: the entry point of the compiler."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec
from torch import Tensor, nn

from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.codegen.loader import Loaded
from pnne_nb.compiler.codegen.model_document import ModelDocument
from pnne_nb.compiler.codegen.readable.named_sizes import with_formulas, with_sizes
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
from pnne_nb.compiler.weights.fixed_tables import take_tables
from pnne_nb.compiler.weights.rename_log import former_paths, paths_among
from pnne_nb.compiler.weights.tensor_file import named_tensors, said_of, tensors_in
from pnne_nb.compiler.weights.weight_report import WeightReport, require_any
from pnne_nb.compiler.weights.weight_report import place as place_weights
from pnne_nb.compiler.weights.weight_source import (
    Purpose,
    Reuse,
    Weights,
    keep_given,
    layers_of,
    lost_text,
    own_weights,
    refused,
    require_values,
    tell,
)
from pnne_nb.errors import Diagnostic, ShapeError, answers_misuse
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.annex import OWN, OwnWeights
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
        document: Its content.
    """

    graph: weakref.ref[NodeGraph]
    version: int
    lowered: Lowered
    generated: Generated
    loaded: Loaded
    document: ModelDocument


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
_WEIGHTS: Final = "pn.load_weights(model, path) after model = pn.compile(graph), or pn.compile(graph, reuse=path)"
_FASTER: Final = "torch.compile(pn.compile(graph), ...)"


@answers_misuse(
    "pn.compile(graph)",
    {
        **dict.fromkeys(("loss", "metrics", "optimizer"), _TRAINED),
        **dict.fromkeys(("checkpoint", "pretrained", "state_dict", "weights"), _WEIGHTS),
        **dict.fromkeys(("backend", "dynamic", "fullgraph", "mode"), _FASTER),
    },
)
def compile(graph: NodeGraph, reuse: Reuse = OWN) -> nn.Module:
    """Return a new model of the class that `graph` describes, with the weights that belong to the graph.

    These are those that it came with: of the module that it was imported from, of a package, of `pn.load_weights`; else
    those of its latest training; else fresh ones. Where the weights of imported layers are gone, a warning names them.

    The class runs generated source with one statement for each node, so that errors and hooks name nodes.
    ``pn.explain(model)`` shows it with its nodes; `to_source` returns the same module in a form for reading.

    Args:
        graph: The document; it is not changed.
        reuse: Other weights; None asks for fresh ones. A module's tensors are copied wherever name and shape still
            fit, together with their device and element type, with ``requires_grad`` where it was set by hand (else
            `NodeGraph.freeze` decides), and with the training mode of its modules. Linear, convolution, norm and
            embedding layers that were made wider keep their old rows; in what reads them, new columns start at zero. It
            is not changed and shares nothing with the result. Opaque nodes take a copy of their module from it. Of a
            ``state_dict``, or the path of a file with one, the values are copied; a warning says what does not
            fit.

    Raises:
        CompileError: If the document is unfinished or wrong; ``diagnostics`` lists every reason.
        ArgumentError: If `graph` is no graph, or `reuse` holds no weights, or none that fit.
        CompileError: If the weights do not fit into the free memory, before any is made.
        ShapeError: If shapes do not fit (graphs above `CHECKED_NODES` nodes: only where a size is ``"auto"``).
    """
    return made(graph, reuse).model


class Made(NamedTuple):
    """A new model.

    Attributes:
        model: The model.
        said: Whose weights it has, to follow "those of"; empty if they are fresh.
        fresh: Paths of the nodes whose weights are fresh all the same, because they are new or have another size.
        lost: Whether weights that belong to the graph are gone.
    """

    model: nn.Module
    said: str
    fresh: tuple[str, ...]
    lost: bool = False


def made(graph: NodeGraph, reuse: Reuse = OWN, purpose: Purpose = "make", *, instead: nn.Module | None = None) -> Made:
    """Compile a graph as `compile` does, and say whose weights the model has.

    Args:
        graph: The document; it is not changed.
        reuse: As for `compile`.
        purpose: What the model is for. Where the weights that belong to the graph are gone, to run it is refused, and to
            look at it says nothing, because values do not matter.
        instead: Whose weights to take where the graph has none, or they are gone.

    Raises:
        ArgumentError, CompileError, ShapeError: As `compile`; also if the model is to be run, and weights are gone.
    """
    expect_graph(graph)
    if reuse is None or isinstance(reuse, nn.Module):
        return _made(graph, Weights(reuse, said_of(reuse) if reuse is not None else ""), None)
    tensors = None if isinstance(reuse, OwnWeights) else tensors_in(reuse)
    with own_weights(graph, purpose) as own:
        if own.later and purpose == "make" and tensors is None:
            tell(
                f"{graph.name}: these are the weights of {own.said}, and {own.later} has later ones. Say which are meant: "
                "pn.compile(graph, reuse=engine.model), or reuse=net."
            )
        if tensors is None:
            return _made(graph, own, purpose, instead)
        model = _made(graph, own, "look").model
    report = _placed(graph, model, tensors, reuse)
    if report.reshaped or report.new or report.left_over:
        tell(f"Not all weights fit. {report!r}")
    return Made(model, report.source, tuple(report.new))


def _made(graph: NodeGraph, weights: Weights, purpose: Purpose | None, instead: nn.Module | None = None) -> Made:
    """Compile a graph with weights; with no `purpose` they were asked for, and nothing that is fresh is missing."""
    module = weights.module or instead
    with without_collections():
        compiled = _compiled(graph)
        lowered, loaded = compiled.lowered, compiled.loaded
        model, carried = make(graph, lowered, loaded, compiled.document, module, proof=False)
    tables, why = take_tables(graph, model, carried) if loaded.generated.absent else (set[str](), "")
    lost: list[str] = []
    if weights.module is None and purpose is not None:
        lost = layers_of(graph, _names(model, tables), lowered.snapshots, every=weights.role == "trained")
        if lost and purpose == "run":
            raise refused(graph, lost, weights.lost, why)
        if lost and purpose != "look" and instead is None:
            tell(lost_text(graph, lost, weights.lost, why))
    if loaded.generated.absent:
        # The others were told of just now.
        held = {*carried, *tables}
        require_values(graph, loaded, model, held, warns=purpose != "look" and not lost, why=why)
    afresh = () if module is None else [name for name, _ in model.named_parameters() if name not in carried]
    return Made(model, weights.said, tuple(lost or layers_of(graph, afresh)), bool(lost))


def _names(model: nn.Module, without: Collection[str]) -> Iterator[str]:
    # Only where somebody asks for the first.
    yield from (name for name in named_tensors(model) if name not in without)


@answers_misuse("pn.load_weights(graph, path)")
def load_weights(graph_or_model: NodeGraph | nn.Module, source: object) -> WeightReport:
    """Give a graph or a model the weights of a source.

    A graph remembers them, so that every function that takes it uses them; its file still holds none. A model gets them
    in place. Names that nodes had before they were renamed or grouped are found.

    Args:
        graph_or_model: The graph or the module.
        source: A module, a ``state_dict``, or the path of a ``.safetensors`` or ``.pt`` file, of a package or of a
            checkpoint. No code in a file is run.

    Returns:
        What was placed, moved and reshaped, what is new, and what is left over.

    Raises:
        ArgumentError: If the source holds no weights, or none that fit; or the target is neither graph nor module.
        CompileError: If the graph cannot be compiled.
    """
    tensors = tensors_in(source)
    if isinstance(graph_or_model, nn.Module):
        name = f"the {type(graph_or_model).__name__}"
        return require_any(place_weights(graph_or_model, tensors, source=said_of(source), target=name))
    expect_graph(graph_or_model)
    with own_weights(graph_or_model, "look") as own:
        model = _made(graph_or_model, own, "look").model
    report = _placed(graph_or_model, model, tensors, source)
    keep_given(graph_or_model, model, said_of(source))
    return report


def _placed(graph: NodeGraph, model: nn.Module, tensors: Mapping[str, Tensor], source: object) -> WeightReport:
    if isinstance(source, nn.Module):
        former = former_paths(graph, source)
    else:
        former = paths_among(
            graph, {above for name in tensors for above in accumulate(name.split("."), "{}.{}".format)}
        )
    return require_any(place_weights(model, tensors, former, source=said_of(source), target=graph.name))


def compile_for_proof(graph: NodeGraph, net: nn.Module) -> nn.Module:
    """Return a model to be compared with `net`, whose weights it takes; those that it cannot take have any values.

    Raises:
        CompileError: See `compile`.
    """
    with without_collections():
        compiled = _compiled(graph)
        model, carried = make(graph, compiled.lowered, compiled.loaded, compiled.document, net, proof=True)
    if compiled.loaded.generated.absent:
        require_values(graph, compiled.loaded, model, carried, warns=False)
    return model


def to_source(graph: NodeGraph) -> str:
    """Return stand-alone PyTorch source of the class, with shapes in comments where they are known.

    This is the readable form: calls are nested, chains are ``nn.Sequential``, repeated blocks are one class. `compile`
    runs a plainer form with one statement for each node. Both give modules with the same keys and the same results;
    `compiler.codegen.writer` says why there are two.

    Named sizes (`NodeGraph.sizes`) are arguments of the constructors. Inferred sizes that are multiples of them follow; those
    that depend on them in another way stay numbers.

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
    sizes = graph.named_sizes()
    resolved = with_formulas(graph, shapes.resolved) if sizes else shapes.resolved
    unit = _finish(graph, lower(graph.name, snapshots, resolved))
    paths = paths_of(snapshots)
    places = {
        registry[node.type].target: f"{paths[snapshot.id][0]}{node.name}"
        for snapshot in snapshots.values()
        for node in snapshot.nodes.values()
        if paths[snapshot.id] and node.type in registry
    }
    tidy, said = tidied(unit, comments(graph, shapes), parts_of(graph, shapes))
    generated = generate(with_sizes(tidy, sizes), said, places=places)
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
        version, document = graph.version, ModelDocument(graph.frozen())
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
    _known[identity] = compiled = _Compiled(gone, version, lowered, generated, loaded, document)
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

    These are edited and rewired nodes, their consumers, nodes that share their modules or stand for tensors of any, and
    uses of an edited graph.
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
    leaning = (
        name for name, node in snapshot.nodes.items() if node.of or node.shares in touched or node.shares in gone
    )
    return touched.union(leaning)


def _errors(found: list[Diagnostic]) -> list[Diagnostic]:
    return [diagnostic for diagnostic in found if diagnostic.severity == "error"]
