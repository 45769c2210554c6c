"""Infers the shapes of a whole document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NoReturn, final

import msgspec

from pnne_nb.compiler.ir.program import Ref
from pnne_nb.compiler.ir.snapshot import GraphSnapshot, read
from pnne_nb.compiler.shapes.scope import Scope, Symbols
from pnne_nb.compiler.shapes.symbolic import Abstract, Meta
from pnne_nb.compiler.shapes.trial import Outcome, trials
from pnne_nb.errors import CompileError, Diagnostic, ShapeError, UnknownPortError, answers_misuse, near, shown
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.node import named_shape
from pnne_nb.graph.schema.values import Value


@final
class TensorSpec(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Shape and element type of a tensor.

    Attributes:
        shape: Sizes: numbers, or expressions in the names that Inputs use, such as ``"N"`` and ``"H//2"``;
            ``"?"`` where none was found.
        dtype: Name of the element type, e.g. ``"float32"``.
        named: The same for a picture of an import, with names for the sizes that its proof varied; None without such.
    """

    shape: tuple[int | str, ...]
    dtype: str
    named: tuple[int | str, ...] | None = None

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
    return _Tensors(shapes.tensors)


class _Tensors(dict[str, TensorSpec]):
    def __missing__(self, port: object) -> NoReturn:
        raise UnknownPortError(
            f'There is no port {shown(port)}. Write pn.infer_shapes(graph)["fc.output"].{near(port, self)}'
        )


def infer(graph: NodeGraph, snapshots: dict[str, GraphSnapshot] | None = None, *, named: bool = False) -> Shapes:
    """Return all shapes that can be inferred, for a picture with the names of an import's free sizes, and the diagnostics.

    Raises:
        ArgumentError: If `graph` is no graph.
    """
    expect_graph(graph)
    snapshots = read(graph) if snapshots is None else snapshots
    root = Scope("", snapshots, "")
    with trials():
        root.update(snapshots, {}, symbols_of(snapshots[""]), snapshots[""].nodes)
        free = FreeScope()
        if named:
            free.update(snapshots)
    tensors: dict[str, TensorSpec] = {}
    items: dict[str, int] = {}
    resolved: dict[str, Mapping[str, Value]] = {}
    diagnostics: list[Diagnostic] = []
    for scope, name, outcome in walk(root):
        tensors.update(tensor_specs(scope, name, outcome, free))
        for port, value in outcome.outputs.items():
            if (count := value.items) is not None:
                items[f"{scope.prefix}{name}.{port}"] = count
        if outcome.resolved:
            resolved[f"{scope.prefix}{name}"] = outcome.resolved
        diagnostics += scope.diagnostics(name)
    if named:
        tensors = {port: TensorSpec(spec.named or spec.shape, spec.dtype) for port, spec in tensors.items()}
    return Shapes(tensors, items, resolved, diagnostics)


def walk(scope: Scope) -> Iterator[tuple[Scope, str, Outcome]]:
    """Yield the outcome of every node, nested ones after the node that contains them."""
    for name in scope.snapshot.order:
        outcome = scope.outcomes.get(name)
        if outcome is not None:
            yield scope, name, outcome
        if name in scope.children:
            yield from walk(scope.children[name])


def tensor_specs(
    scope: Scope, name: str, outcome: Outcome, free: FreeScope | None = None
) -> Iterator[tuple[str, TensorSpec]]:
    """Yield the tensors that a node returns, by path; named as in a scope with free sizes."""
    for port, value in outcome.outputs.items():
        shape, dtype = value.shape, value.dtype
        if shape is not None and dtype is not None:
            named = None if free is None else free.named(scope.prefix, Ref(name, port), value)
            yield f"{scope.prefix}{name}.{port}", TensorSpec(shape, dtype, named)


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


SHORT = 8
"""Letters of the longest expression in the shape of an import; the exact numbers of the example are shorter."""


@final
class FreeScope:
    """A document with names for free sizes, kept up to date.

    Attributes:
        scopes: Its scopes by prefix; none if every size is that of the example, or has a name anyway.
    """

    def __init__(self) -> None:
        self.scopes: dict[str, Scope] = {}
        self._symbols: Symbols = {}

    def update(self, snapshots: Mapping[str, GraphSnapshot]) -> None:
        """Follow the document; to be called within `trials`."""
        known, symbols = _with_free_sizes(snapshots)
        root = self.scopes.get("")
        if root is None or symbols != self._symbols:
            root, dirty = Scope("", known, ""), {*known[""].nodes}
        else:
            dirty = root.redraw(known[""]) | {name for name, node in known[""].nodes.items() if node.definition}
        self._symbols = symbols
        if symbols:
            self.scopes[""] = root  # which goes on where it was given up
            root.update(known, {}, symbols, dirty)
        self.scopes = {scope.prefix: scope for scope in root.whole()} if symbols else {}

    def named(self, prefix: str, ref: Ref, value: Abstract) -> tuple[int | str, ...] | None:
        """Return the shape of a value at a port with names; None if it has none, or is not the value of the example."""
        other = self.scopes[prefix].value(ref) if prefix in self.scopes else None
        shape = other.shape if other is not None else None
        if other is None or shape is None or other.at(0) != value.at(0):
            return None
        seen = [each.shape for n in range(1 + len(self._symbols)) if isinstance(each := other.at(n), Meta)]
        named = (
            size if isinstance(size, int) else _in_papers(size, sizes, self._symbols)
            for size, sizes in zip(shape, zip(*seen, strict=True), strict=True)
        )
        return tuple(named) if any(isinstance(size, str) for size in shape) else None


def _with_free_sizes(snapshots: Mapping[str, GraphSnapshot]) -> tuple[Mapping[str, GraphSnapshot], Symbols]:
    """Return an import with names for the sizes that its proof varied, and trial values of these; none where it did not.

    The first trial is the example; each of the others has another size in place of one of its own, as in the proof.
    """
    nodes = dict(snapshots[""].nodes)
    free: dict[str, tuple[int, int]] = {}
    for name in snapshots[""].inputs:
        node, shape = nodes[name], nodes[name].properties.get("shape")
        if not isinstance(shape, tuple) or any(isinstance(size, str) for size in shape):
            return snapshots, {}
        for size, other in zip(shape, named_shape(node), strict=True):
            if isinstance(size, int) and isinstance(other, str) and node.origin is not None:
                free[other] = size, dict(filter(None, node.origin.sizes))[other]
        nodes[name] = msgspec.structs.replace(node, properties={**node.properties, "shape": named_shape(node)})
    values = {name: (own, *(new if each == name else own for each in free)) for name, (own, new) in free.items()}
    return {**snapshots, "": msgspec.structs.replace(snapshots[""], nodes=nodes)}, values


def _in_papers(text: str, seen: Sequence[int], symbols: Symbols) -> str:
    """Return a size as papers write it: ``H/8`` where each size of the proof gives that; ``~7`` if it has no short form.

    Args:
        text: The exact expression, ``(H + 7)//8``, or ``"?"``.
        seen: The size in each trial.
        symbols: The trial values; each trial after the first has another value of one of them.
    """
    ways = [(name, values[0], values[n]) for n, (name, values) in enumerate(symbols.items(), 1) if seen[n] != seen[0]]
    if text != "?" and len(ways) == 1:
        [(name, own, new)] = ways
        ratio = Fraction(seen[0], own)
        if ratio * new in seen:
            whole = name if ratio.numerator == 1 else f"{ratio.numerator}*{name}"
            return whole if ratio.denominator == 1 else f"{whole}/{ratio.denominator}"
    if found := re.fullmatch(r"\(?(\w+)(?: \+ (\d+))?\)?//(\d+)", text):
        rounded = {0: "⌊⌋", int(found[3]) - 1: "⌈⌉"}.get(int(found[2] or 0))
        text = f"{rounded[0]}{found[1]}/{found[3]}{rounded[1]}" if rounded else text
    return text if text != "?" and len(text) <= SHORT else f"~{seen[0]}"


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
