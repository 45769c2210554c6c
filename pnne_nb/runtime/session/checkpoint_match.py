"""Compares a checkpoint with the training that resumes from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pnne_nb.errors import CheckpointError, PnneError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.optim.optimizers import changed_options, set_group_options
from pnne_nb.runtime.session.live_source import meaning
from pnne_nb.runtime.setup.config import Config, is_plain
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.telemetry.frames import AnomalyFrame

_NO_GRAPH: tuple[dict[str, Any], dict[str, str]] = ({}, {})


def kinds_of(recipe: Recipe) -> dict[str, str | None]:
    """Return the class names of the optimizer and the scheduler, whose states other classes cannot load."""
    return {
        "optimizer": type(recipe.optimizer).__name__,
        "scheduler": None if recipe.schedule is None else type(recipe.schedule.scheduler).__name__,
    }


def load(
    state: Mapping[str, Any], before: Mapping[str, Any], loop: TrainingLoop, history: History, config: Config
) -> None:
    """Resume a training from the `state` that a checkpoint holds; on an error, it gets back what it holds `before`.

    Options of the optimizer that the configuration sets now override those of the checkpoint.

    Raises:
        CheckpointError: The checkpoint belongs to another training.
    """
    _require_same_kinds(state, loop.recipe, config)
    try:
        loop.load_state_dict(state["loop"])
        _set_changed_options(state["config"], loop.recipe, config)
        history.load_state_dict(state["history"])
    except Exception as error:
        loop.load_state_dict(before["loop"])
        history.load_state_dict(before["history"])
        if isinstance(error, PnneError):
            raise
        raise CheckpointError(f"The checkpoint does not fit this training: {in_brief(error)}") from error


def differences(
    state: Mapping[str, Any], loop: TrainingLoop, config: Config, document: str | None
) -> list[AnomalyFrame]:
    """Return notices for a training that resumes with other data, or another graph (as text), than the checkpoint's."""
    graph = None if document is None else _other_graph(state["graph"], document, loop.steps)
    return [found for found in (_other_order(state, loop, config), graph) if found is not None]


def _require_same_kinds(state: Mapping[str, Any], recipe: Recipe, config: Config) -> None:
    """Raise an error if the checkpoint has another optimizer or scheduler."""
    kinds = state["kinds"]
    for what, kind in kinds_of(recipe).items():
        before, was, now = kinds.get(what), state["config"].get(what), getattr(config, what)
        other_schedule = what == "scheduler" and was is not None and is_plain(now) and was != now
        if before is not None and kind is not None and (before != kind or other_schedule):
            raise CheckpointError(
                f"The checkpoint holds the state of {_called(before, was)}, with which {_called(kind, now)} cannot go "
                f"on: give the same {what}, or leave it out. To train the weights on with another one, make a new "
                "engine of the model that resume_from(...).model gives."
            )


def _set_changed_options(before: Mapping[str, Any], recipe: Recipe, config: Config) -> None:
    """Set the optimizer's options of the new configuration; they override those of the checkpoint."""
    was, now = before.get("optimizer"), config.optimizer
    if was is None or not is_plain(now):
        return
    asked = [(was, before.get("parameter_groups") or {}), (now, config.parameter_groups or {})]
    for number, changes in enumerate(changed_options(recipe.optimizer, recipe.schedule, *asked)):
        set_group_options(recipe.optimizer, recipe.schedule, number, changes)


def _other_order(state: Mapping[str, Any], loop: TrainingLoop, config: Config) -> AnomalyFrame | None:
    """Return a notice about data in another order: in mid-epoch, examples would be repeated or left out."""
    before = state["config"]
    changes = {name: (before.get(name), getattr(config, name)) for name in ("batch_size", "shuffle", "seed")}
    changes["batches in an epoch"] = state["batches"], loop.recipe.train.size
    told = [
        f"{name}: {now} now, {was} before"
        for name, (was, now) in changes.items()
        if None not in {was, now} and was != now
    ]
    if not told or loop.position == 0:
        return None
    message = (
        f"The data comes in another order than in the epoch that the checkpoint was written in ({'; '.join(told)}): the "
        f"rest of epoch {loop.epoch} has examples that were there before, and leaves others out. Later epochs are whole."
    )
    hint = "With the same data, batch_size, shuffle and seed it goes on exactly."
    return AnomalyFrame(loop.steps, "data-changed", message, hint=hint)


def _other_graph(before: str | None, document: str, step: int) -> AnomalyFrame | None:
    """Return a notice about a graph, as text, whose weights fit but whose computation differs."""
    if before is None or before == document:
        return None
    was, now = (meaning(NodeGraph.from_json(text)) for text in (before, document))
    changed = [
        f"{id}.{name}".lstrip(".")
        for id in {**was, **now}
        for name in {**was.get(id, _NO_GRAPH)[0], **now.get(id, _NO_GRAPH)[0]}
        if was.get(id, _NO_GRAPH)[0].get(name) != now.get(id, _NO_GRAPH)[0].get(name)
    ]
    if not changed and was == now:
        return None
    message = (
        f"The model is another graph than the one that the checkpoint was written with: {', '.join(changed[:5])}"
        f"{' and others' * (len(changed) > 5)}{'' if changed else 'its connections'} changed. It goes on with the same "
        "weights, and computes something else."
    )
    hint = "resume_from without a model takes the graph that the checkpoint holds."
    return AnomalyFrame(step, "graph-changed", message, hint=hint)


def _called(kind: str, asked: Any) -> str:
    """Return the name of an optimizer or a scheduler, with its options if they are known."""
    return kind if asked is None or not is_plain(asked) else repr(asked)
