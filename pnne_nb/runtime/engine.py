"""The training engine: one training, one background thread, commands from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import NoneType
from typing import Any, Self, final

import torch
from torch import nn

from pnne_nb.errors import TrainingError, expect
from pnne_nb.frames import ProgressFrame, TrainingState
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.probe import Cadence, Probe
from pnne_nb.runtime import checkpoint, under_way
from pnne_nb.runtime.blueprint import EditedTraining
from pnne_nb.runtime.by_name import Options
from pnne_nb.runtime.cadence import EveryChoice
from pnne_nb.runtime.config import Config, require_undrawn
from pnne_nb.runtime.data import Data, require_count
from pnne_nb.runtime.distributed.plan import Plan
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.failures import in_brief
from pnne_nb.runtime.goal import MonitorChoice
from pnne_nb.runtime.launch import launched, packed
from pnne_nb.runtime.logged import StepFunction
from pnne_nb.runtime.metrics import MetricChoice, Saved
from pnne_nb.runtime.needs import MemoryNeeds, needs_of
from pnne_nb.runtime.objectives import Loss
from pnne_nb.runtime.optimizers import OptimizerChoice, set_options
from pnne_nb.runtime.precision import choose_device
from pnne_nb.runtime.resuming import read_resumption
from pnne_nb.runtime.schedules import SchedulerChoice
from pnne_nb.runtime.training import Training
from pnne_nb.runtime.training_graph import read_training


@final
class TrainingEngine:
    """Trains a model in a background thread, under control at every step.

    Commands may be given from any thread. Training halts, ends and lets others have the model between two
    steps only. In a notebook, it waits for a cell that uses the live model until that cell ends; elsewhere,
    use ``with engine.paused():``.

    Args:
        model: A graph, which is compiled, or any ``nn.Module``, which is trained in place.
        train_data: ``(X, y)`` tensors, numpy arrays or pandas tables, such arrays by name, a ``Dataset``, or a
            ``DataLoader``. Batches hold the inputs in the model's order and the target last, or are mappings by
            parameter name.
        val_data: The same for validation after each epoch.
        loss: A loss of ``torch.nn`` by name or class, alone or with arguments, a function of output and target; None
            if the model returns its own loss.
        optimizer: An optimizer of ``torch.optim`` by name or class, alone or with arguments, a function of the
            parameters, or an optimizer.
        scheduler: Likewise of ``torch.optim.lr_scheduler``; ``"step"`` behind it moves it after every step, not epoch.
        metrics: Names, torchmetrics, or functions; counted over each epoch. One may say several numbers by name.
        epochs: Passes over the data that one `start` makes.
        batch_size: Examples in a batch, unless a ``DataLoader`` decides.
        shuffle: Whether each epoch has an order of its own, unless a ``DataLoader`` decides.
        device: ``"auto"`` (the accelerator if there is one), ``"cpu"``, ``"cuda:0"`` …
        precision: ``"32"``, ``"bf16"``, or ``"16"`` (with scaled gradients).
        grad_clip: Largest norm of all gradients together, or None.
        accumulate: Batches that make up one optimizer step.
        seed: Decides about order, initial weights of a graph, and every random number of the training.
        checkpoint_dir: Where to keep a checkpoint of each epoch and of the end, or None.
        num_workers: Processes that load a ``Dataset``.
        parameter_groups: Optimizer options by pattern of parameter names, e.g. ``{"*.bias": {"weight_decay": 0}}``.
        step_function: Replaces forward pass and loss: a function of model and batch that returns the loss, or a mapping
            with it as ``"loss"``; other numbers in it are recorded by their names, and ``"output"`` and ``"target"``
            are what the metrics compare. With ``loss=None``, the model may return the same.
        early_stopping: End after so many epochs without an improvement; ``best.ckpt`` has the best.
        restore_best_weights: Whether the model has its best weights back when the training is over: after the last
            epoch, or early; not when it was stopped, so that it can go on. A copy of the weights is kept for it.
        validate_every: So many epochs, ``(500, "steps")``, or None for the end only; it changes nothing else.
        checkpoint_every: Likewise; the best, and where the training ends or is stopped, are kept in any case.
        max_to_keep: How many of the latest checkpoints stay in the directory, beside the best; None for all.
        deterministic: Whether an operation without a deterministic version fails instead of running.
        stateful: What else a step function changes and a checkpoint must hold, by name: objects with ``state_dict`` and
            ``load_state_dict``, such as the second optimizer of a GAN.
        monitor: What an improvement is, and a plateau: a number of an epoch, as in ``("val_accuracy", "max")``; otherwise
            the validation loss, without validation data the training loss.
        min_delta: How much better is an improvement.

    Attributes:
        channel: Every frame that watchers want, bounded.
        history: What was measured.
        device: Where the training runs.

    Raises:
        CompileError: The graph is unfinished or wrong.
        TrainingError: Something of the above cannot be; the message says what and why.
    """

    def __init__(  # noqa: PLR0917  the order is part of the contract
        self,
        model: nn.Module | NodeGraph,
        train_data: Data | None = None,
        val_data: Data | None = None,
        loss: Loss = "CrossEntropyLoss",
        optimizer: OptimizerChoice = ("AdamW", {"lr": 1e-3}),
        scheduler: SchedulerChoice = None,
        metrics: Sequence[MetricChoice] = ("accuracy",),
        epochs: int = 5,
        batch_size: int = 64,
        shuffle: bool = True,
        device: str | torch.device = "auto",
        precision: str = "32",
        grad_clip: float | None = None,
        accumulate: int = 1,
        seed: int = 0,
        checkpoint_dir: str | Path | None = None,
        *,
        num_workers: int = 0,
        parameter_groups: Mapping[str, Options] | None = None,
        step_function: StepFunction | None = None,
        early_stopping: int | None = None,
        validate_every: EveryChoice = 1,
        checkpoint_every: EveryChoice = 1,
        deterministic: bool = False,
        stateful: Mapping[str, Saved] | None = None,
        monitor: MonitorChoice = None,
        min_delta: float = 0.0,
        restore_best_weights: bool = False,
        max_to_keep: int | None = 3,
    ) -> None:
        config = Config(
            loss=loss, optimizer=optimizer, scheduler=scheduler, metrics=metrics, epochs=epochs, batch_size=batch_size,
            shuffle=shuffle, device=str(device) if isinstance(device, torch.device) else device, precision=precision,
            grad_clip=grad_clip, accumulate=accumulate, seed=seed, num_workers=num_workers, deterministic=deterministic,
            parameter_groups=parameter_groups, step_function=step_function, early_stopping=early_stopping,
            validate_every=validate_every, checkpoint_every=checkpoint_every, stateful=stateful,
            monitor=monitor, min_delta=min_delta, restore_best_weights=restore_best_weights, max_to_keep=max_to_keep,
        )  # fmt: skip
        training = self._training = Training(model, train_data, val_data, config, checkpoint_dir)
        self._loop, self._control, self._shared = training.loop, training.control, training.shared
        self._work, self._reports = training.work, training.reports
        self.device = self._loop.recipe.device
        self.channel = self._reports.channel
        self.history = self._reports.history
        under_way.add(self)

    @classmethod
    def from_graph(
        cls,
        graph: NodeGraph,
        data: Mapping[str, Any] | None = None,
        *,
        namespace: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Make an engine of a training that is drawn: Dataset, DataLoader, model, loss, optimizer and so on.

        The model is a Subgraph, or drawn among the training nodes; ``engine.model`` is that model alone. A second
        DataLoader that leads to a Validation node gives the validation data.

        Args:
            graph: Its root holds the training nodes; it is not changed.
            data: What Dataset nodes with source ``"variable"`` find by name, e.g. ``{"mine": (X, y)}``.
            namespace: Where they look next, e.g. ``globals()``.
            options: Arguments of `TrainingEngine` that no node stands for, such as ``epochs`` and ``device``.

        Raises:
            ArgumentError: `graph` is no graph, `data` or `namespace` no mapping.
            TrainingError: The graph lacks something or says it twice; ``diagnostics`` lists every reason.
            CompileError: The model that is drawn cannot be compiled.
        """
        require_undrawn(options)
        expect_graph(graph)
        for name, variables in (("data", data), ("namespace", namespace)):
            expect(variables, (Mapping, NoneType), name, "a mapping from variable names to data")
        seed, device = options.get("seed", 0), choose_device(str(options.get("device", "auto")))
        variables = {**(namespace or {}), **(data or {})}
        drawn = read_training(graph, variables, seed=seed, device=device)
        engine = cls(**drawn.arguments(), **options)
        engine._training.blueprint = EditedTraining(graph, variables, drawn)
        return engine

    def __repr__(self) -> str:
        return f"TrainingEngine({type(self._training.model).__name__}, state={self.state!r})"

    # In several processes

    def launch(self, nproc: int = 2, nnodes: int | str = 1, rdzv: str | None = None, **options: Any) -> TrainingGroup:
        """Train in several processes, started by torchrun, from where the training is to its last epoch.

        Everything else is as after `start`: buttons, history, events, checkpoints, `wait`. The processes share each
        batch, so that the gradients are those of one process. Whenever the training ends or is looked at (`model`,
        `paused`, a checkpoint), the live model has the weights of the group.

        Functions and objects among the engine's arguments are handed to the processes as copies, in which the model
        that they mention is the one that is trained. What a step function returns is averaged over the processes; what
        else it changes, each process keeps for itself.

        Args:
            nproc: Processes on each machine; on GPUs, one for each.
            nnodes: Machines, or a range such as ``"1:4"``; on the others, somebody types the group's ``command``.
            rdzv: Where several machines meet: host and port of one of them.
            options: ``strategy``, ``sync_batch_norm``, ``backend``, ``max_restarts``, ``timeout``, ``directory``,
                ``imports``; see `Plan`.

        Raises:
            TrainingError: An argument cannot be, something exists in this process only, or a training is under way.
            CompileError: The graph was edited and is unfinished or wrong.
        """
        return launched(self._training, Plan.of(nproc=nproc, nnodes=nnodes, rdzv=rdzv, **options))

    def launch_command(self, nproc: int = 2, nnodes: int | str = 1, rdzv: str | None = None, **options: Any) -> str:
        """Pack the training for `launch`, and return the command that trains it, to be typed on each machine.

        Checkpoints appear in the ``directory``; `load_checkpoint` reads the newest. For arguments and errors, see
        `launch`.
        """
        plan = Plan.of(nproc=nproc, nnodes=nnodes, rdzv=rdzv, **options)
        return packed(self._training, plan, listens=False).printed

    # What is so

    @property
    def state(self) -> TrainingState:
        """``"idle"``, ``"running"``, ``"paused"``, ``"finished"``, ``"stopped"`` or ``"failed"``."""
        return self._control.state

    @property
    def error(self) -> BaseException | None:
        """What made the training fail, or None."""
        return self._work.error

    @property
    def model(self) -> nn.Module:
        """The live model; in a notebook cell, training waits from here to the end of the cell."""
        self._shared.use()
        if self._work.group is not None:
            with self._control.visit("a look at the model"):
                self._work.sync()
        return self._training.model

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The live optimizer; `set_optimizer` changes its settings safely."""
        return self._loop.recipe.optimizer

    @property
    def epochs(self) -> int:
        """The last epoch that the training under way will make."""
        return self._work.last_epoch

    @property
    def module(self) -> nn.Module:
        """The live model without a turn at it: for the names of its layers, and for probes; do not run it."""
        return self._training.model

    @property
    def gradient_scale(self) -> float:
        """The factor that gradients have inside a backward pass: of the scaler with ``precision="16"``, otherwise 1."""
        return self._loop.recipe.precision.scale

    @property
    def exclusive(self) -> bool:
        """Whether training waits for every cell, not only for those that use the model."""
        return self._shared.exclusive

    @exclusive.setter
    def exclusive(self, exclusive: bool) -> None:
        self._shared.exclusive = exclusive

    @property
    def waiting_for(self) -> str | None:
        """What a running training waits for between two steps or before the first one, in words, or None."""
        group = self._work.group
        if group is not None and self.state == "running" and group.waiting_for is not None:
            return group.waiting_for
        return self._control.waiting_for

    @property
    def edited(self) -> bool:
        """Whether the graph says something else than what is in training: to resume after a pause takes it in."""
        return self._training.edited

    @property
    def progress(self) -> ProgressFrame:
        """How far training has come."""
        return self._work.progress

    @property
    def memory_needs(self) -> MemoryNeeds:
        """What the training takes of its device's memory, without running it; a start warns where there is less."""
        return needs_of(self._loop.recipe)

    # Commands

    def start(self) -> None:
        """Train in the background.

        A new training makes ``epochs`` passes over the data. One that was stopped, or has failed, goes on
        where it was; a finished one makes ``epochs`` passes more; a halted one resumes; a running one is
        left alone. If the graph was edited meanwhile, the model follows, as in `resume`.

        Raises:
            CompileError: The edited graph is unfinished or wrong; nothing has changed.
            CheckpointError: No checkpoint could be written into the ``checkpoint_dir``.
        """
        self._training.go_on()

    def pause(self, *, wait: bool = True) -> None:
        """Halt after the running step.

        Args:
            wait: Return only when training has halted; a button passes False.
        """
        self._control.pause()
        self._control.wait_for_rest(wait=wait)

    def resume(self) -> None:
        """Go on after `pause` or `step`.

        If the graph was edited meanwhile, the model follows: parameters that still fit keep their values and
        their optimizer state, new ones start fresh, and ``history.cuts`` tells the step.

        Raises:
            CompileError: The edited graph is unfinished or wrong; training stays paused, with the old model.
            TrainingError: Training has not been started, or has ended; or the data does not fit the new model.
        """
        if not self._control.alive:
            failed = f" ({in_brief(self.error)})" if self.error is not None else ""
            raise TrainingError(f"There is nothing to resume: the training is {self.state}{failed}. Call start().")
        self._training.go_on()

    def step(self, n: int = 1, *, wait: bool = True) -> None:
        """Make `n` optimizer steps, then halt; starts a training that is not under way.

        Args:
            n: Number of steps, at least 1.
            wait: Return only when they are made; a button passes False.

        Raises:
            TrainingError: `n` is no positive number.
            CompileError: The graph was edited and is unfinished or wrong; see `resume`.
            BaseException: Whatever made a step fail, as for `wait`.
        """
        require_count("n", n)
        self._training.go_on(n)
        self._control.wait_for_rest(wait=wait)
        if wait and self.error is not None:
            raise self.error

    def stop(self, *, wait: bool = True) -> None:
        """End after the running step; `start` goes on from there.

        Args:
            wait: Return only when training has ended; a button passes False.
        """
        self._control.stop()
        self._control.wait_for_rest(wait=wait)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of training; an interrupt ends the waiting, not the training.

        Returns whether training has ended within `timeout` seconds; None waits for ever.

        Raises:
            TrainingError: Training was never started, or the loss became NaN or infinite.
            BaseException: Whatever made the training fail, as it was raised.
        """
        expect(timeout, (int, float, NoneType), "timeout", "a number of seconds, or None")
        return self._training.wait(timeout)

    def __await__(self) -> Generator[Any, None, None]:
        return self._training.awaited().__await__()

    def paused(self) -> AbstractContextManager[nn.Module]:
        """A block with the model to itself, to look at or to change: ``with engine.paused() as model: ...``.

        Training waits between two steps meanwhile; its state stays what it is.
        """
        return self._training.lent()

    def validate(self, *, wait: bool = True) -> dict[str, float]:
        """Validate now, between two steps; training waits, and goes on as if nothing was.

        Where the training has halted in the middle of a validation of its own, this makes the rest of it.

        Args:
            wait: Return only when it is done; a button passes False, and gets nothing.

        Returns:
            ``"val_loss"`` and the metrics by name; the same go to `history` and to `channel`.

        Raises:
            TrainingError: There is no validation data, or this is inside of a validation, in a metric say.
        """
        return self._work.validate(wait=wait)

    def set_optimizer(self, *, group: int | None = None, **options: Any) -> None:
        """Set options such as ``lr`` or ``weight_decay`` from the next step on, in every parameter group or in `group`.

        A schedule goes on from a new rate, with its steps in the same proportion.

        Raises:
            TrainingError: The optimizer has no such option or refuses it, or its schedule would replace it at once.
        """
        with self.paused():
            set_options(self.optimizer, self._loop.recipe.schedule, options, group)

    # Checkpoints

    def save_checkpoint(self, path: str | Path | None = None, *, wait: bool = True) -> None:
        """Write everything that the rest of the training depends on, as between two steps.

        Args:
            path: The file is replaced as a whole; one that was there before is kept as ``<path>.previous``. None
                writes the next one in the ``checkpoint_dir``.
            wait: Return only when it is written; a button passes False.

        Raises:
            CheckpointError: It cannot be written, or there is no place for it.
        """
        expect(path, (str, Path, NoneType), "path", "the path of a file")
        self._work.save(None if path is None else Path(path), wait=wait)

    def load_checkpoint(self, path: str | Path) -> None:
        """Be where a checkpoint of this training is, say one that a command of `launch_command` has written.

        Args:
            path: A checkpoint, or a directory, whose newest good one is meant.

        Raises:
            CheckpointError: None is whole, or it belongs to another training.
            TrainingError: A training is under way.
        """
        found = checkpoint.read_newest_good(path)
        self._training.resume(found.state, found.notes, epochs_changed=False)

    @classmethod
    def resume_from(
        cls,
        path: str | Path,
        model: nn.Module | NodeGraph | None = None,
        train_data: Data | None = None,
        val_data: Data | None = None,
        *,
        data: Mapping[str, Any] | None = None,
        namespace: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TrainingEngine:
        """An engine that continues a training; on the CPU, with the same data and versions, bit for bit.

        It is ``"idle"``; `start` makes the rest of the epochs: none if it was complete, so that a script may resume
        whatever is there. A drawn training (`from_graph`) needs only the path, and what its Dataset nodes name.

        Args:
            path: A checkpoint, or a ``checkpoint_dir``, whose newest is meant. If it is damaged, the one before
                is used, with a warning.
            model: The same model; not needed if it was a graph.
            train_data: The same data.
            val_data: The same validation data.
            data: The variables of a drawn training, as for `from_graph`.
            namespace: Likewise.
            options: Arguments of `TrainingEngine` that are different now, or that no file can hold: functions
                and objects given as loss, optimizer and so on.

        Raises:
            CheckpointError: No checkpoint is whole, it is of a later version or does not fit, or an argument is missing.
        """
        resumption = read_resumption(path, model, options, drawn=train_data is None)
        engine: TrainingEngine
        if train_data is not None:
            engine = cls(resumption.model, train_data, val_data, **resumption.arguments)
        else:
            assert isinstance(resumption.model, NodeGraph), "without data, it is the drawing that is read"
            engine = cls.from_graph(resumption.model, data, namespace=namespace, **resumption.arguments)
        engine._training.resume(resumption.state, resumption.notes, epochs_changed="epochs" in options)
        return engine

    # Who watches

    def on(self, event: str, function: Callable[[Any], object]) -> Callable[[], None]:
        """Call `function` with the frame at each ``"step"``, ``"epoch"``, ``"state"``, ``"anomaly"`` or ``"checkpoint"``.

        It runs in the training thread, between two steps; what it raises fails the training. (A stall is told by
        another thread: the training's is held up.) Returns a function that ends this.

        Raises:
            TrainingError: There is no such event.
        """
        return self._reports.listeners.add(event, function)

    def add_probe(self, probe: Probe, cadence: Cadence | None = None) -> Callable[[], None]:
        """Let `probe` observe steps at `cadence` (ten a second unless told otherwise).

        Its frames go to `channel`. Returns a function that removes it.
        """
        return self._training.observers.add(probe, cadence or Cadence())
