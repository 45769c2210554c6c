"""Reads the scheduler nodes of a training graph: a single one, or several that another combines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import torch

from pnne_nb.errors import Diagnostic, TrainingError, near
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.schema.registry import registry
from pnne_nb.runtime.optim.schedules import Interval, SchedulerChoice
from pnne_nb.runtime.training_graph.split import End, by_port

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
