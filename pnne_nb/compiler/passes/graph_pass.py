"""Defines a pass: one transformation of a document, its requirements and its promise."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from torch import nn

from pnne_nb.compiler.analysis.nested_values import copied
from pnne_nb.compiler.analysis.observe import Observer
from pnne_nb.compiler.ir.snapshot import GraphSnapshot, paths_of, read
from pnne_nb.compiler.lowering.attributes import module_paths
from pnne_nb.compiler.passes.equivalence import Promise
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.compiler.shapes.fake_tensors import imitation
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.ops import Connect, Disconnect, Op
from pnne_nb.process.random_state import private_random_state


@final
class PassSubject:
    """The document and model that a pass works on.

    Attributes:
        graph: A copy of the document, which the pass may edit.
        model: What the document compiles to as it was given to the pass; not to be changed.
        args: Positional example inputs.
        kwargs: Those by name.
        snapshots: The graphs of the document as they were given to the pass, each before those that use it; without
            what is inside modules that run code of their own on it.
        prefixes: By graph, the paths of its uses with a dot after each.
    """

    def __init__(self, graph: NodeGraph, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.graph = graph
        self.model = model
        self.args = args
        self.kwargs = kwargs
        self._all: dict[str, GraphSnapshot] = read(graph)
        nodes = [node for snapshot in self._all.values() for node in snapshot.nodes.values()]
        boxes = {node.definition for node in nodes if node.is_box}
        self.snapshots = {id: snapshot for id, snapshot in self._all.items() if id not in boxes}
        self.prefixes: dict[str, list[str]] = paths_of(self._all)
        self._attributes = {id: module_paths(snapshot) for id, snapshot in self._all.items()}

    def paths(self, graph: str, node: str) -> tuple[str, ...]:
        """Return the paths of a node from the root, one for each use of its graph."""
        return tuple(f"{prefix}{node}" for prefix in self.prefixes[graph])

    def walk(self, id: str = "", prefix: str = "") -> Iterator[tuple[str, Node]]:
        """Yield each node with its path, in the order in which the nodes run; blocks before what is inside them."""
        for name in self.snapshots[id].order:
            node = self.snapshots[id].nodes[name]
            yield f"{prefix}{name}", node
            if node.definition in self.snapshots and node.definition is not None:
                yield from self.walk(node.definition, f"{prefix}{name}.")

    def module_path(self, path: str) -> str:
        """Return the path of a node's module or tensor in the model; for a shared one, that of its owner."""
        names = (self._attributes[id][node.shares or node.name] for id, node in self._along(path))
        return ".".join(filter(None, names))

    def owns(self, path: str) -> bool:
        """Return whether a node owns its module or tensor, rather than sharing it."""
        return all(node.shares is None for _, node in self._along(path))

    def _along(self, path: str) -> Iterator[tuple[str, Node]]:
        """Yield the graphs and nodes along a path."""
        snapshot = self.snapshots[""]
        for name in path.split("."):
            node = snapshot.nodes[name]
            yield snapshot.id, node
            snapshot = self._all[node.definition or ""]

    def is_called_by_code(self, id: str) -> bool:
        """Return whether opaque code calls a graph, so that its inputs and outputs are fixed."""
        boxes = [snapshot for snapshot in self._all.values() if snapshot.id not in self.snapshots]
        return any(node.definition == id for snapshot in boxes for node in snapshot.nodes.values())

    def module(self, path: str) -> nn.Module:
        """Return the module of a node, its own or a shared one."""
        return self.model.get_submodule(self.module_path(path))

    @functools.cached_property
    def _observers(self) -> tuple[Observer, ...]:
        return tuple(observed(self.model, self.args, self.kwargs, train=train) for train in (True, False))

    def draws(self, graph: str, node: str) -> bool:
        """Return whether a node uses random numbers in either mode."""
        return any(self._is_among(observer.random, graph, node) for observer in self._observers)

    def writes(self, graph: str, node: str) -> bool:
        """Return whether a node changes memory in place that is not its own: inputs, statistics."""
        return any(self._is_among(observer.writing, graph, node) for observer in self._observers)

    def is_pure(self, graph: str, node: str) -> bool:
        """Return whether a node has no effect beside its results."""
        changed = any(self._is_among(observer.changed, graph, node) for observer in self._observers)
        return not (changed or self.draws(graph, node) or self.writes(graph, node))

    def _is_among(self, found: set[str], graph: str, node: str) -> bool:
        return any(path == each or each.startswith(f"{path}.") for path in self.paths(graph, node) for each in found)


@final
@dataclass(eq=False, repr=False)
class Rewrite:
    """The changes of a pass to a graph.

    Attributes:
        changes: What was changed; without any, the graph stays as it was.
        skipped: Why nodes that looked fit were left alone, by path.
        gains: What that gains, as far as it can be derived.
        tensors: New parameters and buffers of the new model, by name.
    """

    changes: list[Change] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    gains: list[Gain] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


class Pass(ABC):
    """A transformation of a document.

    Attributes:
        promise: What it leaves equal; proved on example inputs after each use.
        timed: Whether the gain is measured by running both models.
    """

    promise: ClassVar[Promise] = Promise()
    timed: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the pass."""
        return type(self).__name__

    @abstractmethod
    def rewrite(self, subject: PassSubject) -> Rewrite:
        """Edit the subject's graph, and return the changes.

        Raises:
            PassError: If what was asked for cannot be done.
        """


def observed(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, train: bool) -> Observer:
    """Run a model on fake tensors, or on copies if it depends on data, and return the record."""
    try:
        with imitation(model, (args, dict(kwargs))) as (twin, given):
            return _run(twin.train(train), *given)
    except Exception:  # noqa: BLE001  # a model that looks at its data cannot run without
        twin, given = copy.deepcopy(model), copied((args, dict(kwargs)))
        with private_random_state():
            return _run(twin.train(train), *given)


def _run(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Observer:
    observer = Observer()
    with torch.no_grad(), observer:
        model(*args, **kwargs)
    return observer


def rewire(subject: PassSubject, graph: str, sources: dict[str, str]) -> None:
    """Connect all consumers of outputs (``"node.port"``, the keys of `sources`) to other outputs."""
    ops: list[Op] = []
    for source, target in subject.graph.graphs[graph].edges:
        if source in sources:
            ops += [Disconnect(source, target, graph), Connect(sources[source], target, graph)]
    subject.graph.apply(ops)


def remove(subject: PassSubject, graph: str, names: Iterable[str]) -> None:
    """Remove nodes, and definitions without a use."""
    prefix = subject.prefixes[graph][0]
    paths = [f"{prefix}{name}" for name in names]
    if paths:
        subject.graph.remove(*paths)


def consumers(subject: PassSubject, graph: str, node: str) -> list[tuple[str, str]]:
    """Return the consumers of a node as (node, port), once for each edge."""
    return [split_port(edge.target) for edge in subject.graph.graphs[graph].consumers(node)]


def borrowed(subject: PassSubject, graph: str) -> set[str]:
    """Return the nodes whose module or tensors other nodes share."""
    found: set[str] = set()
    for node in subject.snapshots[graph].nodes.values():
        if node.shares is not None:
            found.add(node.shares)
        if node.of:
            found.add(node.of.partition(".")[0])
    return found
