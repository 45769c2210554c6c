"""`Subject`: a copy of the model to export, with the document's description of its inputs and outputs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler import from_module
from pnne_nb.compiler.analysis.device_rule import on_cpu, unplaced
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.module.pickled_model import graph_of
from pnne_nb.compiler.pipeline.compile import made
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import CompileError, Diagnostic, ExportError, expect, near, shown
from pnne_nb.export.formats.base import TensorInfo, with_fixed
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN, OwnWeights
from pnne_nb.graph.model.node import Node

Shape = tuple[int | str, ...]
Sizes = Mapping[str, Any]
"""By the name of a size: a number, which fixes it, or the pair (smallest, largest). By the name of an input: its shape."""


@runtime_checkable
class HasModel(Protocol):
    """An engine."""

    @property
    def model(self) -> nn.Module: ...


@runtime_checkable
class HasExamples(Protocol):
    """An engine with data of its own."""

    def examples(self, count: int) -> Any:
        """Return the first examples of its data as one batch, or None."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is exported.

    Attributes:
        model: A copy in eval mode on the CPU.
        inputs: The arguments of ``forward``; a name in a shape is a size that should stay free.
        outputs: The names of the results.
        limits: The smallest and the largest value of free sizes, where the caller said so.
        graph: The document, if there is one.
        notes: What a person should know.
        seen: The whole numbers of the data, by the name of the input.
        imported: The values of the free sizes that a module was imported with, to which its drawing may be bound.
    """

    model: nn.Module
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[str, ...]
    limits: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    graph: NodeGraph | None = None
    notes: tuple[str, ...] = ()
    seen: Mapping[str, Tensor] = field(default_factory=dict)
    imported: Mapping[str, int] = field(default_factory=dict)


def subject_of(given: object, batch: Sequence[Tensor] | None, sizes: Sizes | None, reuse: Reuse = OWN) -> Subject:
    """Return what is exported.

    Args:
        given: A graph, a module, or an engine.
        batch: One batch of inputs, if there is data.
        sizes: What the caller says of sizes.
        reuse: Other weights than those of a graph.

    Raises:
        ArgumentError: `reuse` is given for something else than a graph, or nothing of it fits.
        ExportError: The graph is unfinished, its weights are gone, nothing tells the inputs, or `sizes` says something that
            cannot be.
    """
    if isinstance(given, NodeGraph):
        graph = copy.copy(given)
        return _of_graph(graph, reuse, batch, sizes, _without_nothing(graph))
    if not isinstance(reuse, OwnWeights):
        expect(given, NodeGraph, "graph", "a NodeGraph where reuse= is given", "A module has its weights already.")
    model = given if isinstance(given, nn.Module) else given.model if isinstance(given, HasModel) else None
    if isinstance(model, torch.jit.ScriptModule):
        raise ExportError("A scripted or traced module has no graph left to export: give the module it was made from.")
    if not isinstance(model, nn.Module):
        raise ExportError(f"Give a NodeGraph, an nn.Module or an engine to export, not {shown(given)}.")
    drawn = graph_of(model)
    if drawn is not None:
        return _of_graph(drawn, model, batch, sizes, _without_nothing(drawn), of_model=True)
    return _of_module(model, batch, sizes)


def input_names(given: object) -> tuple[str, ...] | None:
    """Return the names of the inputs, in order; None if the object cannot be exported."""
    if isinstance(given, NodeGraph):
        return tuple(node.name for node in given.nodes.values() if node.type == "Input")
    model = given if isinstance(given, nn.Module) else given.model if isinstance(given, HasModel) else None
    if model is None:
        return None
    loaded = loader.loaded_from(model)
    if loaded is not None:
        return tuple(entry.node for entry in loaded.generated.sections[""][1].program.entries)
    parameters = list(inspect.signature(model.forward).parameters.values())
    required = [each for each in parameters if each.default is each.empty]
    names = tuple(each.name for each in required if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD))
    # Models of libraries have a default for every argument; the first one is what they are called with.
    return names or tuple(each.name for each in parameters if each.kind == each.POSITIONAL_OR_KEYWORD)[:1]


def _of_graph(
    graph: NodeGraph,
    weights: Reuse,
    batch: Sequence[Tensor] | None,
    sizes: Sizes | None,
    notes: Sequence[str],
    *,
    of_model: bool = False,
) -> Subject:
    graph = unplaced(graph)
    nodes = [node for node in graph.nodes.values() if node.type == "Input"]
    outputs = tuple(node.name for node in graph.nodes.values() if node.type == "Output")
    try:
        model, whose, fresh, _ = made(graph, weights, "run")
    except CompileError as error:
        raise ExportError(f"The graph cannot be exported: {error.message}", error.diagnostics) from error
    if of_model and isinstance(weights, nn.Module):
        if list(model.state_dict()) != list(weights.state_dict()):
            model = copy.deepcopy(weights)  # it has been changed since it was compiled: parametrised, pruned
    elif whose:
        unknown = f" Those of {', '.join(fresh)} are initial ones: they are not there." if fresh else ""
        notes = (*notes, f"The weights are those of {whose}.{unknown}")
    else:
        notes = (*notes, "The graph holds no trained weights: the file has initial ones.")
    if not outputs:
        raise ExportError("The graph has no Output node, so that a file would give nothing: add one.")
    inputs = tuple(_info(node, position, batch, sizes or {}) for position, node in enumerate(nodes))
    return _settled(model, inputs, outputs, sizes or {}, graph, tuple(notes))


def _info(node: Node, position: int, batch: Sequence[Tensor] | None, sizes: Sizes) -> TensorInfo:
    """Return the description of an Input node, with the shape of the data if the node has none."""
    dtype = str(node.properties.get("dtype") or "float32")
    shape = node.properties.get("shape")
    tensor = batch[position] if batch is not None and position < len(batch) else None
    declared = sizes.get(node.name)
    if isinstance(declared, (tuple, list)):
        return TensorInfo(node.name, dtype, tuple(declared))
    if not isinstance(shape, tuple):
        if tensor is None:
            message = f"The Input {node.name!r} has no shape, so that no example can be made."
            hint = f"Give it one, or pass data=..., or sizes={{{node.name!r}: ('N', ...)}}."
            raise ExportError(f"{message} {hint}", [Diagnostic("no-example", message, node.name, hint=hint)])
        return TensorInfo(node.name, _dtype(tensor), ("N", *tensor.shape[1:]) if tensor.ndim else ())
    if node.origin is not None and shape:
        # An imported node has the shape of the example: how many samples that had says nothing about a batch.
        return TensorInfo(node.name, dtype, ("N", *_sizes(shape)[1:]))
    return TensorInfo(node.name, dtype, _sizes(shape))


def _of_module(net: nn.Module, batch: Sequence[Tensor] | None, sizes: Sizes | None) -> Subject:
    net = on_cpu(net)
    names = input_names(net) or ()
    declared = {
        name: tuple(shape)
        for name, shape in (sizes or {}).items()
        if isinstance(shape, (tuple, list)) and name in names
    }
    data = batch is not None
    if batch is None and declared:
        shapes = [declared[name] for name in names if name in declared]
        batch = [torch.randn([n if isinstance(n, int) else 3 + axis for axis, n in enumerate(each)]) for each in shapes]
    if batch is None:
        raise ExportError(
            f"The inputs of {type(net).__name__} are unknown: pass data=..., or the shape of each argument: "
            f"sizes={{{names[0] if names else 'x'!r}: ('N', 3, 32, 32)}}."
        )
    try:
        with torch.no_grad():
            graph = from_module(net, args=tuple(tensor.clone() for tensor in batch))
    except CompileError as error:
        refused = [each for each in error.diagnostics if each.code == "bad-inputs"]
        if data and refused:
            raise ExportError(f"The model does not take the data: {error.message}", refused) from error
        note = f"Nodes are not compared one by one, because the module has no drawing: {error.message}"
        inputs = tuple(
            TensorInfo(name, _dtype(tensor), declared.get(name, ("N", *tensor.shape[1:]) if tensor.ndim else ()))
            for name, tensor in zip(names, batch, strict=False)
        )
        return _settled(copy.deepcopy(net), inputs, (), sizes or {}, None, (note,))
    subject = _of_graph(graph, net, batch, sizes, _without_nothing(graph), of_model=True)
    imported = {
        size: found
        for info, tensor in zip(subject.inputs, batch, strict=False)
        for size, found in zip(info.shape, tensor.shape, strict=False)
        if isinstance(size, str)
    }
    return replace(subject, imported=imported)


def _without_nothing(graph: NodeGraph) -> tuple[str, ...]:
    """Remove results of an imported module that are None, such as a loss without targets, which no file can hold.

    Returns:
        What to say about it.
    """
    sources = {target.rpartition(".")[0]: source.rpartition(".")[0] for source, target in graph.edges}
    outputs = [node for node in graph.nodes.values() if node.type == "Output"]
    nothing = [
        node
        for node in outputs
        if node.origin is not None
        and graph[sources[node.name]].type == "Constant"
        and graph[sources[node.name]].properties.get("value") is None
    ]
    if len(nothing) == len(outputs):
        return ()
    names = [node.name for node in nothing]
    graph.remove(*names)
    return tuple(f"The result {name} of the module is None, and no file holds it: it is left out." for name in names)


def _settled(
    model: nn.Module,
    inputs: tuple[TensorInfo, ...],
    outputs: tuple[str, ...],
    sizes: Sizes,
    graph: NodeGraph | None,
    notes: tuple[str, ...],
) -> Subject:
    """Apply the caller's sizes."""
    free = {size for info in inputs for size in info.shape if isinstance(size, str)}
    names = {info.name for info in inputs}
    fixed: dict[str, int] = {}
    limits: dict[str, tuple[int, int | None]] = {}
    for name, said in sizes.items():
        if name in names and isinstance(said, (tuple, list)):
            continue
        if name not in free:
            raise ExportError(
                f"sizes names {shown(name)}, and no input has such a size.{near(name, free | names)} "
                f"The free sizes are {', '.join(sorted(free)) or 'none'}."
            )
        match said:
            case bool():
                raise ExportError(f"The size {name} is a number, or a pair (smallest, largest), not {said}.")
            case int() if said > 0:
                fixed[name] = said
            case (int() as smallest, int() | None as largest) if smallest > 0 and (
                largest is None or smallest < largest
            ):
                limits[name] = smallest, largest
            case _:
                raise ExportError(
                    f"The size {name} is a number above 0, which fixes it, or a pair (smallest, largest) of such "
                    f"numbers, not {shown(said)}."
                )
    model = model.cpu().eval().requires_grad_(False)
    return Subject(model, with_fixed(inputs, fixed), outputs, limits, graph, notes)


def _sizes(shape: tuple[object, ...]) -> Shape:
    return tuple(size if isinstance(size, int) else str(size) for size in shape)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def plain_result(model: nn.Module, result: object) -> Any:
    """Return a model's result in containers that every exporter knows: data classes become dictionaries.

    If it holds other containers, or None, the model is changed: from now on it gives the values in order, without None.

    Args:
        model: A copy that belongs to the export alone.
        result: Of one call of it.
    """
    if any(leaf is None or _entries(leaf) is not None for leaf in pytree.tree_leaves(result)):
        model.register_forward_hook(_in_order)
    return _plain(result)


def _in_order(_model: nn.Module, _args: object, result: object) -> Any:
    values = tuple(leaf for leaf in pytree.tree_leaves(_plain(result)) if leaf is not None)
    return values[0] if len(values) == 1 else values


def _plain(result: object) -> Any:
    def opened(leaf: object) -> Any:
        entries = _entries(leaf)
        return leaf if entries is None else {name: _plain(value) for name, value in entries.items()}

    return pytree.tree_map(opened, result)


def _entries(leaf: object) -> Mapping[str, Any] | None:
    """Return the named contents of a leaf that is a container unknown to torch."""
    if is_dataclass(leaf) and not isinstance(leaf, type):
        return {each.name: getattr(leaf, each.name) for each in fields(leaf)}
    return {str(name): value for name, value in leaf.items()} if isinstance(leaf, Mapping) else None
