"""One training, put together: what it is made from, its loop, its thread, its news. `engine` has the commands."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from torch import nn

from pnne_nb.errors import CheckpointError, PnneError, TrainingError
from pnne_nb.frames import AnomalyFrame, StateFrame, TrainingState
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.blueprint import Blueprint, EditedGraph, meaning
from pnne_nb.runtime.cadence import as_every
from pnne_nb.runtime.checkpoint import CheckpointDirectory
from pnne_nb.runtime.config import Config, is_plain
from pnne_nb.runtime.control import ENDED, Control
from pnne_nb.runtime.data import Data
from pnne_nb.runtime.determinism import Determinism
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.failures import in_brief
from pnne_nb.runtime.lazy import make_weights
from pnne_nb.runtime.loop import TrainingLoop
from pnne_nb.runtime.models import as_module, input_shapes
from pnne_nb.runtime.observers import Observers
from pnne_nb.runtime.optimizers import changed_options, set_group_options
from pnne_nb.runtime.packing import pack, unpack
from pnne_nb.runtime.placing import devices_of, placed_paths
from pnne_nb.runtime.randomness import PrivateRandomness
from pnne_nb.runtime.reports import Reports
from pnne_nb.runtime.sharing import SharedModel
from pnne_nb.runtime.thread import start_training_thread, threads_for_training
from pnne_nb.runtime.work import Work

_NO_GRAPH: tuple[dict[str, Any], dict[str, str]] = ({}, {})


@final
class Training:
    """The parts of one training, and what concerns all of them.

    Args:
        model: A graph, which is compiled, or a module.
        train_data: In any form.
        val_data: Likewise, or None.
        config: Everything else that is asked for.
        checkpoint_dir: Where to keep checkpoints, or None.

    Attributes:
        config: What is asked for.
        model: The live model.
        blueprint: What it is made from, if that can be edited.
        loop: Makes the steps.
        reports: Takes the news.
        observers: The probes.
        control: Where commands and the training thread meet.
        shared: Guards the live model.
        work: What the training thread does.

    Raises:
        CompileError: The graph is unfinished or wrong.
        TrainingError: An argument cannot be, or the data does not fit the model.
    """

    def __init__(
        self,
        model: nn.Module | NodeGraph,
        train_data: Data | None,
        val_data: Data | None,
        config: Config,
        checkpoint_dir: str | Path | None,
    ) -> None:
        config.check()
        train, val = config.open_data(train_data, val_data)
        self.model = as_module(model, config.seed)
        self.blueprint: Blueprint | None = EditedGraph(model) if isinstance(model, NodeGraph) else None
        compares = config.loss is not None and config.step_function is None
        make_weights(self.model, train, config.seed, wants_target=compares, calls=config.step_function is None)
        recipe = config.recipe(self.model, train, val, input_shapes(model), placed_paths(model))
        self.reports = Reports()
        self.observers = Observers(self.reports.publish)
        randomness = PrivateRandomness(config.seed, recipe.device, python=recipe.draws, more=devices_of(self.model))
        self.loop = TrainingLoop(recipe, randomness, self.observers)
        self.loop.check_data()
        self.control = Control(self._state_changed)
        self.shared = SharedModel(self.model, self.control)
        self.work = Work(
            self.loop,
            self.reports,
            self.shared,
            self.control,
            Determinism(recipe.device, wanted=config.deterministic),
            None if checkpoint_dir is None else CheckpointDirectory(checkpoint_dir, config.max_to_keep),
            as_every("checkpoint_every", config.checkpoint_every),
            self.state_dict,
            config.epochs,
        )
        self.config = config
        self._threads = threads_for_training()

    def launch(self, steps: int | None, group: TrainingGroup | None = None) -> bool:
        """Start a training thread.

        Args:
            steps: Halt after so many; None runs on.
            group: The processes that make the steps, if it is not the loop.

        Returns:
            False if there is one already.

        Raises:
            CheckpointError: Its checkpoints could not be written.
        """
        self.work.require_room()
        if not self.control.launch(steps):
            return False
        self.work.group = group
        self.work.renew(self.config.epochs)
        self.shared.watch_cell()
        start_training_thread(self.work.run, self.control.stop, self.control.wait_for_end, self._threads)
        self.work.wait_for_guards()
        return True

    def go_on(self, steps: int | None = None) -> None:
        """Follow edits of the graph, give the model back, and train on; starts a thread where there is none.

        Args:
            steps: Halt after so many; None runs on.

        Raises:
            CompileError: The edited graph is unfinished or wrong; nothing has changed.
            TrainingError: It cannot be followed.
        """
        self.follow_edits()
        self.shared.release()
        if not self.control.alive:
            self.launch(steps)
        elif steps is None:
            self.control.resume()
        else:
            self.control.allow(steps)

    @property
    def edited(self) -> bool:
        """Whether the graph says something else than what is in training."""
        return self.blueprint is not None and self.blueprint.edited

    def follow_edits(self) -> None:
        """Become what the graph says now, between two steps.

        Raises:
            CompileError: It is unfinished or wrong; nothing has changed.
            TrainingError: It cannot be followed.
        """
        blueprint = self.blueprint
        if blueprint is None or not blueprint.changed:
            return
        if self.work.group is not None:
            raise TrainingError(
                "The graph was edited while a group of processes trains it: stop() the group, and launch() it again."
            )
        with self.control.visit("an edit of the graph"):
            cut = blueprint.follow(self.loop, self.config)
            self.shared.edited()
            if cut is not None:
                self.reports.announce(cut)

    def wait(self, timeout: float | None) -> bool:
        """Wait until no training is under way, for `timeout` seconds at most; whether none is.

        Raises:
            TrainingError: There never was one, or the caller is a part of it.
            BaseException: Whatever made it fail.
        """
        if self.control.state == "idle":
            raise TrainingError("There is nothing to wait for: call start() first.")
        if self.control.in_a_step():
            raise TrainingError(
                "wait() would never return: this is inside of a step or a callback of a training, which waits for you."
            )
        self.shared.release()
        if not self.control.wait_for_end(timeout):
            return False
        if self.work.error is not None:
            raise self.work.error
        return True

    async def awaited(self) -> None:
        """The same in an event loop, which goes on meanwhile."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tell(frame: StateFrame) -> None:
            if frame.state in ENDED:
                loop.call_soon_threadsafe(ended.set)

        remove = self.reports.listeners.add("state", tell)
        try:
            if self.control.state not in {"idle", *ENDED}:
                await ended.wait()
        finally:
            remove()
        self.wait(None)

    @contextmanager
    def lent(self) -> Iterator[nn.Module]:
        """A block with the live model to itself; what it does to it counts."""
        with self.control.visit("a block that looks at the model"):
            self.work.sync()
            yield self.model
            self.shared.edited()
            if self.work.group is not None:
                self.work.group.push(self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        self.work.sync()
        blueprint = self.blueprint
        drawing = None if blueprint is None else blueprint.drawing
        return {
            "loop": self.loop.state_dict(),
            "history": self.reports.history.state_dict(),
            "config": self.config.plain(),
            "kinds": self._kinds(),
            "missing": list(self.config.objects()),
            "graph": None if blueprint is None else blueprint.document,
            "drawing": None if drawing is None else drawing.graph,
            "last_epoch": self.work.last_epoch,
            "threads": self._threads,
            "batches": self.loop.recipe.train.size,
        }

    def resume(self, state: dict[str, Any], notes: Iterable[tuple[str, str]], *, epochs_changed: bool) -> None:
        """Go on from a checkpoint that was read, see `load_state_dict`, and tell what there is to say of it."""
        for _, message in notes:
            # Whoever calls the engine.
            warnings.warn(message, stacklevel=3)
        self.load_state_dict(state, epochs_changed=epochs_changed)
        for kind, message in notes:
            self.reports.announce(AnomalyFrame(self.loop.steps, kind, message))

    def load_state_dict(self, state: dict[str, Any], *, epochs_changed: bool) -> None:
        """Go on from what `state_dict` returned, to the last epoch that is asked for now if `epochs_changed`.

        Raises:
            CheckpointError: It belongs to another training; this one is as before.
            TrainingError: The training is under way.
        """
        if self.control.alive:
            raise TrainingError(f"The training is {self.control.state}: stop() it before loading a checkpoint.")
        self._require_same_kinds(state)
        before = unpack(*pack(self.state_dict()))
        try:
            self.loop.load_state_dict(state["loop"])
            self._set_changed_options(state["config"])
            self.reports.history.load_state_dict(state["history"])
        except Exception as error:
            self.loop.load_state_dict(before["loop"])
            self.reports.history.load_state_dict(before["history"])
            if isinstance(error, PnneError):
                raise
            raise CheckpointError(f"The checkpoint does not fit this training: {in_brief(error)}") from error
        # The number of threads changes the last bits of a sum.
        self._threads = state["threads"]
        self.work.loaded = True
        if not epochs_changed:
            self.work.last_epoch = state["last_epoch"]
        self._tell_of_another_order(state)
        self._tell_of_another_graph(state["graph"])

    def _tell_of_another_order(self, state: Mapping[str, Any]) -> None:
        """In the middle of an epoch, another order of the data has some of it twice, and some not at all."""
        loop, config = self.loop, state["config"]
        changes = {name: (config.get(name), getattr(self.config, name)) for name in ("batch_size", "shuffle", "seed")}
        changes["batches in an epoch"] = state["batches"], loop.recipe.train.size
        told = [
            f"{name}: {now} now, {was} before"
            for name, (was, now) in changes.items()
            if None not in {was, now} and was != now
        ]
        if not told or loop.position == 0:
            return
        message = (
            f"The data comes in another order than the one that the checkpoint is in the middle of ({'; '.join(told)}): the "
            f"rest of epoch {loop.epoch} has examples that were there before, and leaves others out. Later epochs are whole."
        )
        hint = "With the same data, batch_size, shuffle and seed it goes on exactly."
        self.reports.announce(AnomalyFrame(loop.steps, "data-changed", message, hint=hint))

    def _tell_of_another_graph(self, before: str | None) -> None:
        """Its weights fit, or it would have been refused; what it makes of them, only the graph tells."""
        if before is None or self.blueprint is None or before == self.blueprint.document:
            return
        was, now = (meaning(NodeGraph.from_json(text)) for text in (before, self.blueprint.document))
        changed = [
            f"{id}.{name}".lstrip(".")
            for id in {**was, **now}
            for name in {**was.get(id, _NO_GRAPH)[0], **now.get(id, _NO_GRAPH)[0]}
            if was.get(id, _NO_GRAPH)[0].get(name) != now.get(id, _NO_GRAPH)[0].get(name)
        ]
        if not changed and was == now:
            return
        message = (
            f"The model is another graph than the one that the checkpoint was written with: {', '.join(changed[:5])}"
            f"{' and others' * (len(changed) > 5)}{'' if changed else 'its connections'} changed. It goes on with the same "
            "weights, and computes something else."
        )
        hint = "resume_from without a model takes the graph that the checkpoint holds."
        self.reports.announce(AnomalyFrame(self.loop.steps, "graph-changed", message, hint=hint))

    def _kinds(self) -> dict[str, str | None]:
        recipe = self.loop.recipe
        return {
            "optimizer": type(recipe.optimizer).__name__,
            "scheduler": None if recipe.schedule is None else type(recipe.schedule.scheduler).__name__,
        }

    def _require_same_kinds(self, state: Mapping[str, Any]) -> None:
        kinds = state["kinds"]
        for what, kind in self._kinds().items():
            before, was, now = kinds.get(what), state["config"].get(what), getattr(self.config, what)
            other_schedule = what == "scheduler" and was is not None and is_plain(now) and was != now
            if before is not None and kind is not None and (before != kind or other_schedule):
                raise CheckpointError(
                    f"The checkpoint holds the state of {_called(before, was)}, with which {_called(kind, now)} cannot go "
                    f"on: give the same {what}, or leave it out. To train the weights on with another one, make a new "
                    "engine of the model that resume_from(...).model gives."
                )

    def _set_changed_options(self, before: Mapping[str, Any]) -> None:
        """What is asked of the optimizer now counts more than what a checkpoint has kept."""
        was, now = before.get("optimizer"), self.config.optimizer
        if was is None or not is_plain(now):
            return
        recipe = self.loop.recipe
        asked = [(was, before.get("parameter_groups") or {}), (now, self.config.parameter_groups or {})]
        for number, changes in enumerate(changed_options(recipe.optimizer, recipe.schedule, *asked)):
            set_group_options(recipe.optimizer, recipe.schedule, number, changes)

    def _state_changed(self, state: TrainingState) -> None:
        self.work.rest()
        self.reports.state_changed(state, self.work.error if state == "failed" else None, self.model)


def _called(kind: str, asked: Any) -> str:
    """An optimizer or a scheduler, with its options where they are known."""
    return kind if asked is None or not is_plain(asked) else repr(asked)
