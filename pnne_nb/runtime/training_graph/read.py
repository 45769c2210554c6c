"""Reads a training graph, from Dataset to Scheduler, as the arguments of a `TrainingEngine`.

The graph is taken apart at the loss: what the losses and what comes after them compute from the model's outputs and
the targets is the objective; what leads there is the model. Both are graphs, and compiled as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from pnne_nb.compiler import compile as compile_graph
from pnne_nb.compiler.weights.weight_source import inherit
from pnne_nb.errors import Diagnostic, TrainingError, near
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.schema.registry import registry
from pnne_nb.runtime.data.batches import as_batch, expect_shapes, has_sequences
from pnne_nb.runtime.data.datasets import DatasetNode
from pnne_nb.runtime.objective.metric_choices import MetricChoice, NamedMetric
from pnne_nb.runtime.objective.objective import Objective, WeighedLoss
from pnne_nb.runtime.optim.optimizers import OptimizerChoice
from pnne_nb.runtime.optim.resolve import Options
from pnne_nb.runtime.optim.schedules import Interval, SchedulerChoice
from pnne_nb.runtime.setup.models import input_shapes
from pnne_nb.runtime.thread.rng import seeded_globals
from pnne_nb.runtime.training_graph.split import (
    LOADED,
    Collate,
    End,
    Parts,
    Place,
    by_port,
    category_of,
    cut,
    extract,
    is_tensor_node,
)


class DrawnTraining(NamedTuple):
    """The contents of a training graph.

    Its `block` is the Subgraph node that the model is, or an empty text if the model is drawn among the training nodes.
    """

    model: NodeGraph
    train_data: DataLoader[Any]
    val_data: DataLoader[Any] | None
    loss: Callable[[Any, Any], Tensor]
    optimizer: OptimizerChoice
    scheduler: SchedulerChoice
    metrics: Sequence[MetricChoice]
    parameter_groups: Mapping[str, Options] | None
    block: str

    def arguments(self) -> dict[str, Any]:
        """Return it as the arguments of a `TrainingEngine`."""
        return {name: value for name, value in self._asdict().items() if name != "block"}


def read_training(graph: NodeGraph, variables: Mapping[str, Any], *, seed: int, device: torch.device) -> DrawnTraining:
    """Read a training graph.

    Args:
        graph: Its root holds the training nodes; it is not changed.
        variables: What Dataset nodes with source "variable" find by name.
        seed: For what draws random numbers while examples are looked at.
        device: Where losses compute.

    Raises:
        TrainingError: The graph is unfinished or says two things at once; ``diagnostics`` lists every reason.
        CompileError: The model that is drawn cannot be compiled.
    """
    return _Reading(graph).training(variables, seed, device)


@final
class _Reading:
    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._nodes: Mapping[str, Node] = dict(graph.nodes)
        self._into: dict[str, dict[str, End]] = {name: {} for name in self._nodes}
        self._out_of: dict[End, list[End]] = {}
        for edge in graph.edges:
            source, target = split_port(edge.source), split_port(edge.target)
            self._into[target[0]][target[1]] = source
            self._out_of.setdefault(source, []).append(target)
        self._schedules = DrawnSchedules(self._nodes, self._into)
        self._faults: list[Diagnostic] = []

    def training(self, variables: Mapping[str, Any], seed: int, device: torch.device) -> DrawnTraining:
        loaders = [name for name in self._of_type("DataLoader") if self._feeds_tensors(name)]
        optimizers = self._of_category("Optimizer")
        validations = self._of_type("Validation")
        schedulers = [name for name in self._of_category("Scheduler") if not self._out_of.get((name, "scheduler"))]
        losses = self._losses(optimizers)
        self._check(loaders, optimizers, validations, schedulers, losses)
        self._raise()
        (loader,), (optimizer,) = loaders, optimizers
        metrics = self._of_type("Metric")
        ends = [*(source for source, _ in losses), *(self._into[name][port] for name in metrics for port in _COMPARED)]
        parts = Parts(self._nodes, self._into, loader, ends)
        if "input" not in parts.inputs:
            self._fault("no-input", "The model gets no samples.", loader, "Connect its input to the model's.")
            self._raise()
        model, place = self._model(parts)
        (block,) = parts.model if model is not None else ("",)
        data = self._data(loader, variables, _first_shape(model, parts))
        collate = Collate(parts.inputs, parts.compared)
        if model is None:
            outer = {(parts.loader, port): port for port in parts.inputs}
            model = cut(self._graph, self._graph.name, parts.model, outer, parts.crossing)
        inherit(model, self._graph, block)
        first = _first(data, collate, seed)
        if first is not None:
            _shape_inputs(model, first, "T" if has_sequences(data) else None)
        train = self._loader(loader, data, collate)
        val = None
        for name in validations:
            other = self._into[name]["loader"][0]
            val = self._loader(other, self._data(other, variables, _first_shape(model, parts)), collate)
        for shown in (train, *(() if val is None else (val,))):
            batch = _first(shown.dataset, collate, seed)
            if batch is not None:
                expect_shapes(as_batch(batch, wants_target=True), input_shapes(model))
        weights = [weight for _, weight in losses]
        return DrawnTraining(
            model,
            train,
            val,
            WeighedLoss(self._objective(parts, [source for source, _ in losses], place, device), weights),
            self._optimizer(optimizer),
            self._schedules.choice(schedulers[0]) if schedulers else None,
            self._metrics(metrics, parts, place, device),
            self._groups(optimizer),
            block,
        )

    # What is missing

    def _check(
        self,
        loaders: list[str],
        optimizers: list[str],
        validations: list[str],
        schedulers: list[str],
        losses: list[tuple[End, float]],
    ) -> None:
        self._faults += [found for found in self._graph.diagnostics() if found.severity == "error"]
        self._one(
            loaders, "DataLoader", " whose samples go into the model", "Add a Dataset and a DataLoader.", "no-data"
        )
        self._one(optimizers, "optimizer", "", "Add one, such as AdamW.", "no-optimizer")
        if not losses:
            self._fault(
                "no-loss",
                "The graph has no loss, so there is nothing to make smaller.",
                hint="Add one, such as CrossEntropyLoss, and connect it to the optimizer.",
            )
        if len(validations) > 1:
            self._several("Validation nodes", validations, "Keep one.")
        if len(schedulers) > 1:
            self._several("schedulers", schedulers, "Combine them in a SequentialLR or a ChainedScheduler.")
        self._faults += self._schedules.faults()

    def _one(self, names: list[str], what: str, which: str, hint: str, code: str) -> None:
        if not names:
            self._fault(code, f"The graph has no {what}{which}.", hint=hint)
        elif len(names) > 1:
            self._several(f"{what}s", names, "Keep one of them in this graph.")

    def _several(self, what: str, names: list[str], hint: str) -> None:
        self._fault("ambiguous", f"There are {len(names)} {what}: {', '.join(names)}.", names[1], hint)

    def _fault(self, code: str, message: str, node: str | None = None, hint: str | None = None) -> None:
        self._faults.append(Diagnostic(code=code, message=message, node=node, hint=hint))

    def _raise(self) -> None:
        if self._faults:
            lines = "\n".join(f"  {found}" for found in self._faults)
            raise TrainingError(f"The graph {self._graph.name!r} cannot be trained:\n{lines}", self._faults)

    # Reading nodes

    def _of_type(self, type: str) -> list[str]:
        return [name for name, node in self._nodes.items() if node.type == type]

    def _of_category(self, category: str) -> list[str]:
        return [name for name, node in self._nodes.items() if category_of(node) == category]

    def _feeds_tensors(self, loader: str) -> bool:
        return any(
            is_tensor_node(self._nodes[target]) or self._nodes[target].type in ("Metric", "Loss")
            for port in LOADED
            for target, _ in self._out_of.get((loader, port), ())
        )

    def _losses(self, optimizers: list[str]) -> list[tuple[End, float]]:
        wired = [source for name in optimizers for port, source in self._into[name].items() if port.startswith("loss_")]
        if not wired:
            # Drawn, but not connected to the optimizer: what else could it be for?
            wired = [(name, "loss") for name in self._of_type("Loss")]
        if not wired:
            last = [name for name in self._of_category("Loss") if not self._out_of.get((name, "output"))]
            wired = [(name, registry[self._nodes[name].type].outputs[0].name) for name in last]
        terms = []
        for source in wired:
            node = self._nodes[source[0]]
            if node.type != "Loss":
                terms.append((source, 1.0))
            elif "input" in self._into[node.name]:
                weight = node.properties.get("weight", 1.0)
                terms.append(
                    (self._into[node.name]["input"], float(weight) if isinstance(weight, (int, float)) else 1.0)
                )
        return terms

    def _optimizer(self, name: str) -> OptimizerChoice:
        node = self._nodes[name]
        return node.type, dict(node.properties)

    def _groups(self, optimizer: str) -> dict[str, Options] | None:
        groups: dict[str, Options] = {}
        for _, (name, _) in by_port(self._into[optimizer]):
            node = self._nodes[name]
            if node.type != "ParameterGroup":
                continue
            given = dict(node.properties)
            pattern, options = str(given.pop("pattern", "*")), given.pop("options", None) or {}
            if not isinstance(options, Mapping):
                raise TrainingError(
                    f"{name}: options must be a dict by name, such as {{'momentum': 0.9}}, not {options!r}."
                )
            if pattern in groups:
                raise TrainingError(f"{name}: there are two groups for the pattern {pattern!r}. Keep one.")
            own = {key: value for key, value in given.items() if value is not None}
            groups[pattern] = {**own, **{str(key): value for key, value in options.items()}}
        return groups or None

    def _metrics(self, names: list[str], parts: Parts, place: Place, device: torch.device) -> list[MetricChoice]:
        made: dict[str, NamedMetric] = {}
        for name in names:
            choice = str(self._nodes[name].properties.get("metric", "accuracy"))
            ends = [self._into[name][port] for port in _COMPARED]
            metric = NamedMetric(choice, name, self._objective(parts, ends, place, device))
            made[name if choice in made else choice] = metric
        return list(made.items())

    # Data

    def _data(self, loader: str, variables: Mapping[str, Any], sample: tuple[int | str, ...] | None) -> Dataset[Any]:
        node = self._nodes[self._into[loader]["dataset"][0]]
        if node.type != "Dataset":
            raise TrainingError(f"{loader}: its dataset comes from {node.name}, a {node.type}, instead of a Dataset.")
        settings: dict[str, Any] = dict(node.properties)
        return DatasetNode(node.name, **settings).open(variables, sample)

    def _loader(self, name: str, data: Dataset[Any], collate: Collate) -> DataLoader[Any]:
        given: dict[str, Any] = dict(self._nodes[name].properties)
        given.pop("mask", None)
        if given.get("batch_size", 1) is None:
            raise TrainingError(f"{name}: batch_size is None; training needs a number of examples.")
        if isinstance(data, IterableDataset) and given.pop("shuffle", None):
            raise TrainingError(f"{name}: an IterableDataset decides about its order itself: set shuffle to False.")
        workers = given.get("num_workers", 0)
        return DataLoader(data, collate_fn=collate, persistent_workers=workers > 0, **given)

    # Model and objective

    def _model(self, parts: Parts) -> tuple[NodeGraph | None, Place]:
        """Return the model, if it is one nested graph, and the places of its outputs."""
        if len(parts.model) == 1:
            (name,) = parts.model
            node = self._nodes[name]
            if node.definition is not None and not node.is_box:
                model = extract(self._graph, node.definition, name)
                outputs = [n.name for n in model.nodes.values() if n.type == "Output"]
                inputs = [n.name for n in model.nodes.values() if n.type == "Input"]
                parts.inputs = tuple(self._into[name][port][1] for port in inputs)
                return model, Place({(name, output): index for index, output in enumerate(outputs)}, len(outputs))
        return None, Place({end: index for index, end in enumerate(parts.crossing)}, len(parts.crossing))

    def _objective(self, parts: Parts, ends: list[End], place: Place, device: torch.device) -> Objective:
        """Return the objective that computes `ends` from the outputs of the model and of the loader."""
        inner: set[str] = set()
        outer: dict[End, str] = {}
        pending = list(ends)
        while pending:
            end = pending.pop()
            name = end[0]
            if name == parts.loader or name in parts.model:
                outer.setdefault(end, f"outer{len(outer)}")
            elif name not in inner:
                inner.add(name)
                pending += self._into[name].values()
        graph = cut(self._graph, "objective", inner, outer, ends)
        module = compile_graph(graph, reuse=None).to(device)
        trainable = sorted({name.partition(".")[0] for name, _ in module.named_parameters()})
        if trainable:
            raise TrainingError(
                f"{', '.join(trainable)}: it has weights of its own and computes the loss, where no optimizer reaches "
                "it. Move it into the model's Subgraph, with the target as another input."
            )
        picks = [
            (0, place.outputs[end]) if end in place.outputs else (1, parts.compared.index(end[1])) for end in outer
        ]
        return Objective(module, tuple(picks), place.count)


_COMPARED = ("input", "target")


def _shape_inputs(model: NodeGraph, first: tuple[Any, ...], length: str | None) -> None:
    """Give the shapes of the first example to Input nodes that have none: sizes left "auto" follow from them.

    The `length` of sequences is not that of the first, but free by that name.
    """
    inputs = [node for node in model.nodes.values() if node.type == "Input"]
    for node, value in zip(inputs, first, strict=False):
        if isinstance(value, Tensor) and node.properties.get("shape") is None:
            sizes = value.shape[1:] if length is None else (length, *value.shape[2:])
            model.set(node, shape=("N", *sizes), dtype=str(value.dtype).removeprefix("torch."))


def _first_shape(model: NodeGraph | None, parts: Parts) -> tuple[int | str, ...] | None:
    """Return the shape of the Input node that the loader's samples go into, where it says."""
    if model is None or "input" not in parts.inputs:
        return None
    return input_shapes(model)[parts.inputs.index("input")][1]


def _first(data: Any, collate: Collate, seed: int) -> tuple[Any, ...] | None:
    """Return a batch of the first example for its shapes; None if reading it would consume it."""
    if isinstance(data, IterableDataset):
        return None
    with seeded_globals(seed):
        fetch = getattr(data, "__getitems__", None)
        return collate([data[0]] if fetch is None else fetch([0]))


_INTERVAL = "interval"
"""The property of a node that is no argument of its scheduler."""


@final
class DrawnSchedules:
    """The scheduler nodes among the `nodes` of a training graph; `into` has what is wired to the ports of each."""

    def __init__(self, nodes: Mapping[str, Node], into: Mapping[str, Mapping[str, End]]) -> None:
        self._nodes = nodes
        self._into = into

    def choice(self, name: str) -> SchedulerChoice:
        """Return the scheduler argument of a `TrainingEngine` for the outermost node `name`.

        Raises:
            TrainingError: A function that a node names is not registered.
        """
        node, every = self._nodes[name], self._interval(name)
        if not self._combined(name) and "lr_lambda" not in node.properties:
            settings = self._settings(name)
            return (node.type, settings) if every is None else (node.type, settings, every)
        self._maker(name)

        def build(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
            made: torch.optim.lr_scheduler.LRScheduler = self._maker(name)(optimizer)
            return made

        return build if every is None else (build, every)

    def faults(self) -> Iterator[Diagnostic]:
        """Yield the errors of the drawing: a combined scheduler must not also act alone."""
        for outer in self._nodes:
            for name in self._combined(outer):
                own, every = self._interval(name), self._interval(outer) or "epoch"
                if own is not None and own != every:
                    yield Diagnostic(
                        code="interval-unused",
                        message=f"Its interval is {own!r}, but it moves with {outer}, after every {every}.",
                        node=name,
                        hint=f"Set the interval of {outer}, and none here.",
                    )

    def _interval(self, name: str) -> Interval | None:
        every: Any = self._nodes[name].properties.get(_INTERVAL)
        found: Interval | None = every
        return found

    def _settings(self, name: str) -> dict[str, Any]:
        return {key: value for key, value in self._nodes[name].properties.items() if key != _INTERVAL}

    def _combined(self, name: str) -> list[str]:
        return [source for port, (source, _) in by_port(self._into[name]) if port.startswith("schedulers_")]

    def _maker(self, name: str) -> Callable[[torch.optim.Optimizer], Any]:
        """Return a function that makes a scheduler, after the schedulers that it combines."""
        kind = self._nodes[name].type
        made_by: Any = registry[kind].torch
        settings = self._settings(name)
        if "lr_lambda" in settings:
            settings["lr_lambda"] = _registered_function(name, str(settings["lr_lambda"]))
        inner = [self._maker(source) for source in self._combined(name)]

        def build(optimizer: torch.optim.Optimizer) -> Any:
            made = [make(optimizer) for make in inner]
            # A ChainedScheduler takes the schedulers alone first, a SequentialLR the optimizer.
            arguments = (
                ([made, optimizer] if kind == "ChainedScheduler" else [optimizer, made]) if inner else [optimizer]
            )
            try:
                return made_by(*arguments, **settings)
            except (TypeError, ValueError, AttributeError) as error:
                raise TrainingError(f"{name}: the scheduler {kind} refuses its arguments: {error}.") from error

        return build


def _registered_function(node: str, name: str) -> Callable[..., Any]:
    spec = registry.get(name)
    if spec is None or spec.kind != "function" or not callable(spec.torch):
        known = [known.type for known in registry.values() if known.target.startswith("registered.")]
        raise TrainingError(
            f"{node}: lr_lambda is {name!r}, which is no registered function.{near(name, known)} "
            "Register one with pn.register_node: from the epoch to the factor of the learning rate."
        )
    return spec.torch
