"""Infers the shapes of a whole document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

import msgspec

from pnne_nb.compiler.ir.snapshot import GraphSnapshot, read
from pnne_nb.compiler.shapes.scope import Scope, Symbols
from pnne_nb.compiler.shapes.trial import Outcome, trials
from pnne_nb.errors import CompileError, Diagnostic, ShapeError, answers_misuse
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.schema.values import Value


@final
class TensorSpec(msgspec.Struct, frozen=True):
    """Shape and element type of a tensor.

    Attributes:
        shape: Sizes: numbers, or expressions in the names that Inputs use, such as ``"N"`` and ``"H//2"``;
            ``"?"`` where none was found.
        dtype: Name of the element type, e.g. ``"float32"``.
    """

    shape: tuple[int | str, ...]
    dtype: str

    def __str__(self) -> str:
        comma = "," if len(self.shape) == 1 else ""
        return f"({', '.join(map(str, self.shape))}{comma}){'' if self.dtype == 'float32' else f' {self.dtype}'}"


@final
class Shapes(msgspec.Struct, frozen=True):
    """Result of shape inference on a document.

    Attributes:
        tensors: By output port path, ``"block.conv1.output"``.
        items: How many items a tuple or list has, by output port path.
        resolved: Inferred values of ``"auto"`` properties, by node path.
        diagnostics: What does not fit, in order of execution.
    """

    tensors: dict[str, TensorSpec]
    items: dict[str, int]
    resolved: dict[str, Mapping[str, Value]]
    diagnostics: list[Diagnostic]


@answers_misuse("pn.infer_shapes(graph); the Input nodes have the shapes")
def infer_shapes(graph: NodeGraph) -> dict[str, TensorSpec]:
    """Return the shape and element type at every output port, by path (``"block.conv1.output"``).

    Each node's real torch code is tried on the meta device, without data. Sizes that Inputs give as names are
    carried through as expressions. Ports whose value is no tensor, or cannot be known without data, are left out.

    Args:
        graph: The document; what is unfinished in it is left out.

    Returns:
        Shape and dtype by port, e.g. ``TensorSpec(("N", 6, "H//2"), "float32")``.

    Raises:
        ShapeError: If shapes or element types do not fit; ``diagnostics`` lists every place.
    """
    shapes = infer(graph)
    wrong = [diagnostic for diagnostic in shapes.diagnostics if diagnostic.severity == "error"]
    if wrong:
        raise failure(graph.name, wrong, ShapeError)
    return shapes.tensors


def infer(graph: NodeGraph, snapshots: dict[str, GraphSnapshot] | None = None) -> Shapes:
    """Return all shapes that can be inferred, and the diagnostics.

    Raises:
        ArgumentError: If `graph` is no graph.
    """
    expect_graph(graph)
    snapshots = read(graph) if snapshots is None else snapshots
    root = Scope("", snapshots, "")
    with trials():
        root.update(snapshots, {}, symbols_of(snapshots[""]), snapshots[""].nodes)
    tensors: dict[str, TensorSpec] = {}
    items: dict[str, int] = {}
    resolved: dict[str, Mapping[str, Value]] = {}
    diagnostics: list[Diagnostic] = []
    for scope, name, outcome in walk(root):
        tensors.update(tensor_specs(scope, name, outcome))
        for port, value in outcome.outputs.items():
            if (count := value.items) is not None:
                items[f"{scope.prefix}{name}.{port}"] = count
        if outcome.resolved:
            resolved[f"{scope.prefix}{name}"] = outcome.resolved
        diagnostics += scope.diagnostics(name)
    return Shapes(tensors, items, resolved, diagnostics)


def walk(scope: Scope) -> Iterator[tuple[Scope, str, Outcome]]:
    """Yield the outcome of every node, nested ones after the node that contains them."""
    for name in scope.snapshot.order:
        outcome = scope.outcomes.get(name)
        if outcome is not None:
            yield scope, name, outcome
        if name in scope.children:
            yield from walk(scope.children[name])


def tensor_specs(scope: Scope, name: str, outcome: Outcome) -> Iterator[tuple[str, TensorSpec]]:
    """Yield the tensors that a node returns, by path."""
    for port, value in outcome.outputs.items():
        shape, dtype = value.shape, value.dtype
        if shape is not None and dtype is not None:
            yield f"{scope.prefix}{name}.{port}", TensorSpec(shape, dtype)


def symbols_of(snapshot: GraphSnapshot) -> Symbols:
    """Return trial values of every symbolic size of the outermost Inputs."""
    found: dict[str, tuple[int, ...]] = {}
    for name in snapshot.inputs:
        shape = snapshot.nodes[name].properties.get("shape")
        if isinstance(shape, tuple):
            for axis, size in enumerate(shape):
                if isinstance(size, str) and size not in found:
                    found[size] = probe_values(axis, len(shape), len(found))
    # Two trials determine one unknown; several need a third, which tells them apart.
    return found if len(found) > 1 else {name: values[:2] for name, values in found.items()}


def probe_values(axis: int, rank: int, index: int) -> tuple[int, int, int]:
    """Return three trial values for a symbolic size.

    Recurrent layers are unrolled in a trial, so that a size that may be a sequence is short. One that may be an image or
    a signal is divisible, and long enough for deep strided networks.

    Args:
        axis: Its axis in the Input.
        rank: How many axes that Input has.
        index: How many symbols have been given values before.
    """
    if (rank >= 4 and axis >= 2) or (rank == 3 and axis == 2):
        return 256 + 64 * index, 320 + 128 * index, 448 + 192 * index
    return 6 + 2 * index, 7 + 3 * index, 9 + 5 * index


def batch_of(snapshot: GraphSnapshot) -> str | None:
    """Return the symbol of the batch size: the first symbolic size at axis 0 of an outermost Input, or None."""
    shapes = (snapshot.nodes[name].properties.get("shape") for name in snapshot.inputs)
    return next(
        (shape[0] for shape in shapes if isinstance(shape, tuple) and shape and isinstance(shape[0], str)), None
    )


def failure(name: str, diagnostics: list[Diagnostic], error: type[CompileError] = CompileError) -> CompileError:
    """Return the exception that lists `diagnostics`."""
    if len(diagnostics) == 1:
        return error(str(diagnostics[0]), diagnostics)
    listed = "\n".join(f"  - {diagnostic}" for diagnostic in diagnostics)
    return error(f"{name!r} has {len(diagnostics)} problems:\n{listed}", diagnostics)
