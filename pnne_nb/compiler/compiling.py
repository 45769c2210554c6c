"""Document → ``nn.Module``, and document → source: the front door of the compiler."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import final

import msgspec
from torch import nn

from pnne_nb.compiler import loader, trying
from pnne_nb.compiler.loader import Loaded
from pnne_nb.compiler.lowering import has_automatic, lower
from pnne_nb.compiler.program import Unit
from pnne_nb.compiler.reading import read
from pnne_nb.compiler.reusing import carry_over
from pnne_nb.compiler.running import attach
from pnne_nb.compiler.shapes import Shapes, TensorSpec, failure, infer
from pnne_nb.compiler.source import generate
from pnne_nb.errors import CompileError, Diagnostic, ShapeError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.registry import registry

Pass = Callable[[Unit], Unit]
"""A transformation of the lowered document that leaves its outputs equal."""


class Explanation(msgspec.Struct, frozen=True):
    """One line of generated source.

    Attributes:
        number: Counted from 1.
        text: The line.
        nodes: Paths of the nodes that it belongs to; several where a definition is used several times.
    """

    number: int
    text: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        nodes = f"    <- {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.number:4d}  {self.text}{nodes}"


_known: dict[int, tuple[weakref.ref[NodeGraph], int, Loaded]] = {}
"""The class of each document at one version; documents are not hashable, so they are found by identity."""


def _forget(_: object) -> None:
    _known.clear()
    trying.forget()


# A type that is registered anew gives documents that name it another meaning.
registry.observe(_forget)


@final
class TorchCompiler:
    """Compiles documents, with passes between lowering and source.

    Args:
        passes: Applied in order to the lowered document.
    """

    def __init__(self, passes: Iterable[Pass] = ()) -> None:
        self._passes = tuple(passes)

    def compile(self, graph: NodeGraph, reuse: nn.Module | None = None) -> nn.Module:
        """Return a new instance of the class that `graph` describes.

        Args:
            graph: The document; it is not changed.
            reuse: A model whose tensors are copied wherever name and shape still fit, together with their
                device, element type and ``requires_grad``, and with the training mode of its modules. It is
                not changed and shares nothing with the result. Opaque nodes take a copy of their module from it.

        Raises:
            CompileError: If the document is unfinished or wrong; ``diagnostics`` lists every reason.
            ShapeError: If a size left ``"auto"`` cannot be inferred because shapes do not fit.
        """
        loaded = self._load(graph)
        model = loaded.new(*self._opaque_modules(loaded, reuse))
        if reuse is not None:
            carry_over(reuse, model)
        return model

    def to_source(self, graph: NodeGraph) -> str:
        """Return the source of the class, stand-alone, with shapes in comments where they are known.

        Raises:
            CompileError: As `compile`.
        """
        shapes = infer(graph)
        unit = self._transformed(lower(graph, shapes.resolved))
        return generate(unit, _comments(graph, shapes)).text

    def _load(self, graph: NodeGraph) -> Loaded:
        known = _known.get(id(graph))
        if not self._passes and known is not None and known[0]() is graph and known[1] == graph.version:
            return known[2]
        version = graph.version
        resolved = {}
        if has_automatic(read(graph)):
            shapes = infer(graph)
            wrong = [diagnostic for diagnostic in shapes.diagnostics if diagnostic.severity == "error"]
            if wrong and not any(d.severity == "error" for d in graph.diagnostics()):
                raise failure(graph.name, wrong, ShapeError)
            resolved = shapes.resolved
        unit = self._transformed(lower(graph, resolved))
        loaded = loader.load(generate(unit), unit.objects)
        attach(loaded, graph)
        if not self._passes:
            identity = id(graph)
            _known[identity] = (weakref.ref(graph, lambda _: _known.pop(identity, None)), version, loaded)
        return loaded

    def _transformed(self, unit: Unit) -> Unit:
        for transform in self._passes:
            unit = transform(unit)
        return unit

    @staticmethod
    def _opaque_modules(loaded: Loaded, reuse: nn.Module | None) -> list[nn.Module]:
        modules: list[nn.Module] = []
        missing: list[Diagnostic] = []
        for path in loaded.generated.opaque:
            try:
                found = reuse.get_submodule(path) if reuse is not None else None
            except AttributeError:
                found = None
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
                modules.append(copy.deepcopy(found))
        if missing:
            raise failure(loaded.generated.name, missing)
        return modules


_default = TorchCompiler()


def compile(graph: NodeGraph, reuse: nn.Module | None = None) -> nn.Module:
    """Return a new instance of the class that `graph` describes; see `TorchCompiler.compile`."""
    return _default.compile(graph, reuse)


def to_source(graph: NodeGraph) -> str:
    """Return the PyTorch source of the class that `graph` describes; see `TorchCompiler.to_source`."""
    return _default.to_source(graph)


def explain(model: nn.Module) -> list[Explanation]:
    """Return the lines of a compiled model's source, each with the nodes that it belongs to.

    Raises:
        CompileError: If `model` is not a compiled model.
    """
    loaded = loader.loaded_from(model)
    if loaded is None:
        raise CompileError(f"{type(model).__name__} was not compiled from a graph, so no line of it belongs to a node.")
    generated = loaded.generated
    uses: dict[str, list[str]] = {definition: [] for definition in generated.classes}
    names = {cls: definition for definition, cls in generated.classes.items()}
    for path, module in model.named_modules(remove_duplicate=False):
        definition = names.get(type(module).__name__) if type(module).__module__ == loaded.module.__name__ else None
        if definition is not None:
            uses[definition].append(f"{path}." if path else "")
    explained = []
    for number, text in enumerate(generated.text.splitlines(), start=1):
        line = generated.lines.get(number)
        nodes = tuple(f"{prefix}{line.node}" for prefix in uses[line.definition]) if line is not None else ()
        explained.append(Explanation(number, text, nodes))
    return explained


def _comments(graph: NodeGraph, shapes: Shapes) -> dict[tuple[str, str], str]:
    """Return what to say at each node's line: its shapes, where they are the same in every use."""
    found: dict[tuple[str, str], set[str]] = {}
    by_node: dict[str, list[TensorSpec]] = {}
    for path, spec in shapes.tensors.items():
        by_node.setdefault(path.rpartition(".")[0], []).append(spec)
    for path, specs in by_node.items():
        prefix, _, name = path.rpartition(".")
        definition = graph[prefix].definition if prefix else ""
        if definition is not None:
            found.setdefault((definition, name), set()).add(", ".join(map(str, specs)))
    return {place: next(iter(texts)) for place, texts in found.items() if len(texts) == 1}
