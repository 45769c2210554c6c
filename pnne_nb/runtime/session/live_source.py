"""The document that a training follows when it is edited: a model's graph or a training graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import NoneType
from typing import Any, final

import msgspec
from msgspec.structs import replace

from pnne_nb.compiler.weights.rename_log import former_paths, mark, paths_since, remember
from pnne_nb.compiler.weights.reuse import Former
from pnne_nb.errors import TrainingError, expect
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.node import split_port
from pnne_nb.runtime.distributed.transport.dataset_files import Drawing
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.objective.metric_choices import make_metrics
from pnne_nb.runtime.objective.metrics import load_metric, saved_metric
from pnne_nb.runtime.optim.optimizers import Asked, changed_options, set_group_options
from pnne_nb.runtime.session.live_edit import follow_model
from pnne_nb.runtime.setup.config import Config, require_undrawn
from pnne_nb.runtime.setup.precision import choose_device
from pnne_nb.runtime.training_graph.read import DrawnTraining, read_training
from pnne_nb.runtime.training_graph.split import category_of
from pnne_nb.telemetry.frames import AnomalyFrame


class LiveSource(ABC):
    """A document that a training follows when it is edited; the `drawing` is None if only the model has a graph."""

    drawing: Drawing | None = None

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._version = graph.version
        self._note_meaning()

    def _note_meaning(self) -> None:
        self._seen, self._differs = self._graph.version, False
        self._meaning = meaning(self._graph)

    @property
    @abstractmethod
    def document(self) -> str:
        """The model's graph as text, as the training last followed it, for checkpoints."""

    @property
    def changed(self) -> bool:
        """Whether there was a commit since the training last followed it."""
        return self._graph.version != self._version

    @property
    def edited(self) -> bool:
        """Whether its content changed since then, computed once per version; the layout does not count."""
        version = self._graph.version
        if version != self._seen:
            self._seen, self._differs = version, meaning(self._graph) != self._meaning
        return self._differs

    @abstractmethod
    def follow(self, loop: TrainingLoop, config: Config) -> AnomalyFrame | None:
        """Apply the document to a training between two steps; an error changes nothing.

        Returns:
            What happened, or None if the model computes what it did.

        Raises:
            CompileError: The graph is unfinished or wrong.
            TrainingError: The data or the optimizer does not fit what the graph has become.
        """


def meaning(graph: NodeGraph) -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """Return a document's content without its layout: by graph, its nodes by name, and the source of each target."""
    return {
        id: (
            {node.name: replace(node, position=None, collapsed=False) for node in graph.nodes},
            {edge.target: edge.source for edge in graph.edges},
        )
        for id, graph in graph.state().graphs.items()
    }


@final
class EditedGraph(LiveSource):
    """The graph that a model was compiled from."""

    def __init__(self, graph: NodeGraph) -> None:
        super().__init__(graph)
        self._document = graph.to_json()

    @property
    def document(self) -> str:
        return self._document

    def follow(self, loop: TrainingLoop, config: Config) -> AnomalyFrame | None:
        """Apply the graph to the model in training; see `LiveSource`."""
        version = self._graph.version
        former = former_paths(self._graph, loop.recipe.model)
        cut = follow_model(self._graph, loop, config, loop.recipe, former)
        self._version, self._document = version, self._graph.to_json()
        self._note_meaning()
        return cut


@final
class EditedTraining(LiveSource):
    """A training graph, in which the model, losses, metrics and the optimizer's settings may be edited.

    Its Dataset nodes find the `variables`; it was `drawn` so when the engine was made.
    """

    def __init__(self, graph: NodeGraph, variables: Mapping[str, Any], drawn: DrawnTraining) -> None:
        super().__init__(graph)
        self.drawing = Drawing.of(graph, variables)
        self._variables = variables
        self._drawn = drawn
        self._fixed = _fixed(graph)
        self._mark = mark(graph)

    @classmethod
    def read(
        cls,
        graph: NodeGraph,
        data: Mapping[str, Any] | None,
        namespace: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> tuple[EditedTraining, dict[str, Any]]:
        """Read a training graph; returns it with the engine's arguments from its nodes.

        Args:
            graph: Its root holds the training nodes; it is not changed.
            data: What its Dataset nodes find by name.
            namespace: Where they look next.
            options: The other arguments of the engine.

        Raises:
            ArgumentError: `graph` is no graph, `data` or `namespace` no mapping.
            TrainingError: The graph lacks something or has it twice, or a node stands for one of the options.
            CompileError: The model cannot be compiled.
        """
        require_undrawn(options)
        expect_graph(graph)
        for name, variables in (("data", data), ("namespace", namespace)):
            expect(variables, (Mapping, NoneType), name, "a mapping from variable names to data")
        seed, device = options.get("seed", 0), choose_device(str(options.get("device", "auto")))
        variables = {**(namespace or {}), **(data or {})}
        drawn = read_training(graph, variables, seed=seed, device=device)
        return cls(graph, variables, drawn), drawn.arguments()

    @property
    def document(self) -> str:
        return self._drawn.model.to_json()

    def follow(self, loop: TrainingLoop, config: Config) -> AnomalyFrame | None:
        """Apply the graph to the training; see `LiveSource`."""
        version = self._graph.version
        if self.drawing is not None and self._graph.to_json() == self.drawing.graph:
            # Edited and undone.
            self._version = version
            return None
        self._require_same_data()
        recipe = loop.recipe
        drawn = read_training(self._graph, self._variables, seed=config.seed, device=recipe.device)
        self._require_same_batches(drawn)
        options = changed_options(recipe.optimizer, recipe.schedule, _asked(self._drawn), _asked(drawn))
        metrics, val_metrics = (make_metrics(drawn.metrics, recipe.device) for _ in range(2))
        for name, metric in metrics.items():
            if name in recipe.metrics:
                load_metric(metric, saved_metric(recipe.metrics[name]))
        new = msgspec.structs.replace(recipe, loss=drawn.loss, metrics=metrics, val_metrics=val_metrics)
        groups = msgspec.structs.replace(config, parameter_groups=drawn.parameter_groups)
        # The model is taken out of the drawing again; the drawing knows what became of its nodes.
        remember(recipe.model, drawn.model)
        cut = follow_model(drawn.model, loop, groups, new, self._former(drawn.block))
        for number, changes in enumerate(options):
            set_group_options(recipe.optimizer, recipe.schedule, number, changes)
        self._version, self._drawn, self.drawing = version, drawn, Drawing.of(self._graph, self._variables)
        self._mark = mark(self._graph)
        self._note_meaning()
        return cut

    def _former(self, block: str) -> Former:
        """Return the former paths of the layers of the model, which is now the node `block`."""
        paths = paths_since(self._graph, self._mark)
        now, before = (f"{name}." if name else "" for name in (block, self._drawn.block))
        return {
            path.removeprefix(now): was.removeprefix(before) if was is not None and was.startswith(before) else None
            for path, was in paths.items()
            if path.startswith(now)
        }

    def _require_same_data(self) -> None:
        now = _fixed(self._graph)
        changed = sorted(name for name in {*now, *self._fixed} if now.get(name) != self._fixed.get(name))
        if changed:
            raise TrainingError(
                f"The data and the scheduler of a training under way cannot be edited, and {', '.join(changed)} "
                f"{'was' if len(changed) == 1 else 'were'}: undo that, or make a new engine."
            )

    def _require_same_batches(self, drawn: DrawnTraining) -> None:
        before, now = self._drawn.train_data.collate_fn, drawn.train_data.collate_fn
        if before != now:
            raise TrainingError(
                "The edited graph takes other parts of the data than the training under way: connect the loader as "
                "it was, or make a new engine."
            )


_FIXED = frozenset({"Dataset", "DataLoader", "Validation"})


def _fixed(graph: NodeGraph) -> dict[str, Any]:
    """Return the parts that a running training cannot change: nodes by name, with settings and inputs."""
    nodes = {
        name: node for name, node in graph.nodes.items() if node.type in _FIXED or category_of(node) == "Scheduler"
    }
    fed: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in graph.edges:
        target = split_port(edge.target)[0]
        if target in fed:
            fed[target].append(f"{edge.source} {edge.target}")
    return {name: (node.type, dict(node.properties), sorted(fed[name])) for name, node in nodes.items()}


def _asked(drawn: DrawnTraining) -> Asked:
    return drawn.optimizer, drawn.parameter_groups or {}
