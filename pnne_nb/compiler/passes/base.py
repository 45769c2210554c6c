"""What a pass is: one transformation of a document, with what it needs and what it promises."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, final

import torch
from torch import nn

from pnne_nb.compiler.faking import imitation
from pnne_nb.compiler.holding import module_paths
from pnne_nb.compiler.observing import Observer
from pnne_nb.compiler.passes.proving import Promise
from pnne_nb.compiler.passes.reports import Change, Gain
from pnne_nb.compiler.reading import Drawing, paths_of, read
from pnne_nb.compiler.verifying import copied, private_random_state
from pnne_nb.graph.document import NodeGraph


@final
class Subject:
    """What a pass works on.

    Attributes:
        graph: A copy of the document, which the pass may edit.
        model: What the document compiles to as it was given to the pass; not to be changed.
        args: Positional example inputs.
        kwargs: Those by name.
        drawings: The graphs of the document as they were given to the pass, each before those that use it; without
            what is inside of modules that run code of their own on it.
        prefixes: By graph, the paths of its uses with a dot after each.
    """

    def __init__(self, graph: NodeGraph, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.graph = graph
        self.model = model
        self.args = args
        self.kwargs = kwargs
        self._all: dict[str, Drawing] = read(graph)
        nodes = [node for drawing in self._all.values() for node in drawing.nodes.values()]
        boxes = {node.definition for node in nodes if node.is_box}
        self.drawings = {id: drawing for id, drawing in self._all.items() if id not in boxes}
        self.prefixes: dict[str, list[str]] = paths_of(self._all)
        self._attributes = {id: module_paths(drawing) for id, drawing in self._all.items()}

    def paths(self, graph: str, node: str) -> tuple[str, ...]:
        """Return where a node is seen from the root: once for each use of its graph."""
        return tuple(f"{prefix}{node}" for prefix in self.prefixes[graph])

    def module_path(self, path: str) -> str:
        """Return where the module or tensor of a node is in the model: with its owner, where it is shared."""
        names: list[str] = []
        drawing = self.drawings[""]
        for name in path.split("."):
            node = drawing.nodes[name]
            names.append(self._attributes[drawing.id][node.shares or name])
            drawing = self._all[node.definition or ""]
        return ".".join(filter(None, names))

    def owns(self, path: str) -> bool:
        """Whether the module or tensor of a node is its own, rather than one that it shares."""
        drawing = self.drawings[""]
        for name in path.split("."):
            node = drawing.nodes[name]
            if node.shares is not None:
                return False
            drawing = self._all[node.definition or ""]
        return True

    def is_called_by_code(self, id: str) -> bool:
        """Whether a graph is used inside of a module that runs code of its own: what it takes and gives is fixed."""
        users = [
            drawing.id for drawing in self._all.values() for node in drawing.nodes.values() if node.definition == id
        ]
        return any(user not in self.drawings for user in users)

    def module(self, path: str) -> nn.Module:
        """Return the module of a node, which it may share with others."""
        return self.model.get_submodule(self.module_path(path))

    @functools.cached_property
    def _observers(self) -> tuple[Observer, ...]:
        return tuple(observed(self.model, self.args, self.kwargs, train=train) for train in (True, False))

    def draws(self, graph: str, node: str) -> bool:
        """Whether a node, or something in it, draws random numbers, in training or in evaluation mode."""
        return any(self._is_among(observer.random, graph, node) for observer in self._observers)

    def writes(self, graph: str, node: str) -> bool:
        """Whether a node, or something in it, changes memory in place that is not its own: inputs, statistics."""
        return any(self._is_among(observer.writing, graph, node) for observer in self._observers)

    def is_pure(self, graph: str, node: str) -> bool:
        """Whether a node only gives results, and has no part in memory that is changed in place."""
        changed = any(self._is_among(observer.changed, graph, node) for observer in self._observers)
        return not (changed or self.draws(graph, node) or self.writes(graph, node))

    def _is_among(self, found: set[str], graph: str, node: str) -> bool:
        return any(path == each or each.startswith(f"{path}.") for path in self.paths(graph, node) for each in found)


@final
class Rewrite:
    """What a pass did to its subject's graph.

    Attributes:
        changes: What was changed; without any, the graph stays as it was.
        skipped: Why nodes that looked fit were left alone, by path.
        gains: What that gains, as far as it can be derived.
        tensors: New parameters and buffers of the new model, by name.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.skipped: dict[str, str] = {}
        self.gains: list[Gain] = []
        self.tensors: dict[str, torch.Tensor] = {}


class Pass(ABC):
    """One transformation of a document.

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
    def rewrite(self, subject: Subject) -> Rewrite:
        """Edit the subject's graph, and say what was done.

        Raises:
            PassError: If what was asked for cannot be done.
        """


def observed(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, train: bool) -> Observer:
    """Run a model without data, or on copies where it depends on data, and return what was seen."""
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
