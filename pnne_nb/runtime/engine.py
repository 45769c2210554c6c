"""`TrainingEngine`: one training in one background thread, with commands from any thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import NoneType
from typing import Any, Self, TypeVar, final, overload

import torch
from torch import nn

from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import answers_misuse, expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.habits import ARGUMENTS, Habits
from pnne_nb.process.progress_line import is_watched
from pnne_nb.runtime.checkpointing import files
from pnne_nb.runtime.checkpointing.files import read_resumption
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.data.tables import Given
from pnne_nb.runtime.distributed.launch.plan import LaunchPlan
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.engine_state import EngineState
from pnne_nb.runtime.monitoring.progress import ProgressBar
from pnne_nb.runtime.objective.losses import BY_TARGET, Loss
from pnne_nb.runtime.objective.metric_choices import MetricChoice
from pnne_nb.runtime.objective.metrics import Stateful
from pnne_nb.runtime.objective.objective import MonitorChoice
from pnne_nb.runtime.objective.step_logs import StepFunction
from pnne_nb.runtime.optim.optimizers import OptimizerChoice, set_options
from pnne_nb.runtime.optim.resolve import Options
from pnne_nb.runtime.optim.schedules import SchedulerChoice
from pnne_nb.runtime.session import training_registry
from pnne_nb.runtime.session.launch import launched, packed
from pnne_nb.runtime.session.live_source import EditedTraining
from pnne_nb.runtime.session.session import Session
from pnne_nb.runtime.session.waiting import Started, WaitInterrupted
from pnne_nb.runtime.setup.config import Config
from pnne_nb.runtime.setup.recipe import EveryChoice
from pnne_nb.telemetry.frames import ENDED
from pnne_nb.telemetry.probe import Cadence, Probe

_Function = TypeVar("_Function", bound=Callable[[Any], object])


@final
class TrainingEngine(EngineState):
    """Trains a model in a background thread, under control at every step.

    Commands may be given from any thread. Training halts, ends and lets others have the model between two
    steps only. In a notebook, it waits for a cell that uses the live model until that cell ends; elsewhere,
    use ``with engine.paused():``.

    Args:
        model: A graph, which is compiled with the weights that it came with, by an import, a package or `pn.load_weights`,
            or with fresh ones; or any ``nn.Module``, which is trained in place.
        train_data: ``(X, y)`` tensors, numpy arrays or pandas tables, such arrays by name, a ``Dataset``, or a
            ``DataLoader``. Batches hold the inputs in the model's order and the target last, or are mappings by
            parameter name. Targets may be names of classes. With `target`, a pandas ``DataFrame`` or the path of a
            CSV or Parquet file: columns of numbers are inputs, columns of texts one input for each of their values.
        val_data: The same for validation after each epoch; or a share of the training data, such as 0.2, that is taken
            from it by `seed`, with each class in the same share.
        loss: A loss of ``torch.nn`` by name or class, alone or with arguments, a function of output and target; None
            if the model returns its own loss. Unless one is given, the target decides: ``CrossEntropyLoss`` for numbers of
            classes, ``BCEWithLogitsLoss`` for floats of 0 and 1, and for whole ones with one output, ``MSELoss`` for other
            floats; the engine's repr says it. The ``weight`` of a loss of classes may be ``"balanced"``.
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
        target: The column of a table that the model is to tell.
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
        reuse: Other weights to start with than those of a graph, as in `pn.compile`: ``other_engine.model`` trains its
            weights on, None starts afresh.

    Attributes:
        channel: Every frame that watchers want, bounded.
        history: What was measured.
        device: Where the training runs.

    Raises:
        CompileError: The graph is unfinished or wrong.
        TrainingError: Something of the above cannot be; the message says what and why.
        ArgumentError: There is no such argument; the message says how it is spelled here.
    """

    @answers_misuse("pn.TrainingEngine(model, (X, y))", ARGUMENTS)
    def __init__(  # noqa: PLR0913,PLR0917  names and order are the contract, and nearly all have defaults
        self,
        model: nn.Module | NodeGraph,
        train_data: Given | None = None,
        val_data: Given | float | None = None,
        loss: Loss = BY_TARGET,
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
        stateful: Mapping[str, Stateful] | None = None,
        monitor: MonitorChoice = None,
        min_delta: float = 0.0,
        restore_best_weights: bool = False,
        max_to_keep: int | None = 3,
        target: str | None = None,
        reuse: Reuse = OWN,
    ) -> None:
        config = Config(
            loss=loss, optimizer=optimizer, scheduler=scheduler, metrics=metrics, epochs=epochs, batch_size=batch_size,
            shuffle=shuffle, device=str(device) if isinstance(device, torch.device) else device, precision=precision,
            grad_clip=grad_clip, accumulate=accumulate, seed=seed, num_workers=num_workers, deterministic=deterministic,
            parameter_groups=parameter_groups, step_function=step_function, early_stopping=early_stopping,
            validate_every=validate_every, checkpoint_every=checkpoint_every, stateful=stateful,
            monitor=monitor, min_delta=min_delta, restore_best_weights=restore_best_weights, max_to_keep=max_to_keep,
            target=target,
        )  # fmt: skip
        super().__init__(Session(model, train_data, val_data, config, checkpoint_dir, reuse))
        training_registry.add(self)

    @classmethod
    def from_graph(
        cls,
        graph: NodeGraph,
        data: Mapping[str, Any] | None = None,
        *,
        namespace: Mapping[str, Any] | None = None,
        reuse: Reuse = OWN,
        **options: Any,
    ) -> Self:
        """Make an engine of a training graph: Dataset, DataLoader, model, loss, optimizer and so on.

        The model is a Subgraph, or stands among the training nodes; ``engine.model`` is that model alone. A second
        DataLoader that leads to a Validation node gives the validation data.

        Args:
            graph: Its root holds the training nodes; it is not changed.
            data: What Dataset nodes with source ``"variable"`` find by name, e.g. ``{"mine": (X, y)}``.
            namespace: Where they look next, e.g. ``globals()``.
            reuse: As for `TrainingEngine`.
            options: Arguments of `TrainingEngine` that no node stands for, such as ``epochs`` and ``device``.

        Raises:
            ArgumentError: `graph` is no graph, `data` or `namespace` no mapping.
            TrainingError: The graph lacks something or has it twice; ``diagnostics`` lists every reason.
            CompileError: The model cannot be compiled.
        """
        source, arguments = EditedTraining.read(graph, data, namespace, options)
        engine = cls(**arguments, reuse=reuse, **options)
        engine._session.live_source = source
        return engine

    # In several processes

    def launch(self, nproc: int = 2, nnodes: int | str = 1, rdzv: str | None = None, **options: Any) -> TrainingGroup:
        """Train in several processes, started by torchrun, from where the training is to its last epoch.

        Buttons, history, events, checkpoints and `wait` are as after `start`. The processes share each batch, so that the
        gradients are those of one process. The live model has the group's weights whenever somebody looks at it (`model`,
        `paused`, a checkpoint), and at the end. Functions and objects among the engine's arguments are copied to the
        processes. What a step function returns is averaged; what else it changes, each process keeps for itself.

        Args:
            nproc: Processes on each machine; on GPUs, one for each.
            nnodes: Machines, or a range such as ``"1:4"``; on the others, somebody types the group's ``command``.
            rdzv: Where several machines meet: host and port of one of them.
            options: ``strategy``, ``sync_batch_norm``, ``backend``, ``max_restarts``, ``timeout``, ``directory``,
                ``imports``, and of DistributedDataParallel ``find_unused_parameters``, ``static_graph``,
                ``gradient_as_bucket_view``, ``bucket_cap_mb``; see `LaunchPlan`.

        Raises:
            TrainingError: An argument cannot be, something exists in this process only, or a training is under way.
            CompileError: The graph was edited and is unfinished or wrong.
        """
        return launched(self._session, LaunchPlan.of(nproc=nproc, nnodes=nnodes, rdzv=rdzv, **options))

    def launch_command(self, nproc: int = 2, nnodes: int | str = 1, rdzv: str | None = None, **options: Any) -> str:
        """Pack the training for `launch`, whose arguments it takes; returns the command to be typed on each machine.

        Checkpoints appear in the ``directory``; `load_checkpoint` reads the newest.
        """
        plan = LaunchPlan.of(nproc=nproc, nnodes=nnodes, rdzv=rdzv, **options)
        return packed(self._session, plan, listens=False).printed

    # Commands

    @property
    def exclusive(self) -> bool:
        """Whether training waits for every cell, not only for those that use the model."""
        return self._boundary.exclusive

    @exclusive.setter
    def exclusive(self, exclusive: bool) -> None:
        self._boundary.exclusive = exclusive

    @answers_misuse(
        "engine.start(); epochs=5 is an argument of the engine",
        Habits("arguments", "start"),
    )
    def start(self, *, process: bool = False) -> Started:
        """Train in the background.

        A new training makes ``epochs`` passes over the data. One that was stopped, or has failed, goes on where it was; a
        finished one makes ``epochs`` passes more; a halted one resumes; a running one is left alone. If the graph was
        edited meanwhile, the model follows, as in `resume`.

        In a process of its own the training is the same, on the CPU bit for bit. The first such start of a kernel takes some
        seconds. A step that crashes does not end the kernel, and the process ends with the kernel. It has a copy of model, data and
        functions: the live model follows whenever somebody looks at it (`model`, `paused`, a checkpoint) and at the end.

        Args:
            process: Whether the steps are made in a process of its own, not in a thread of this one.

        Returns:
            What can be waited for, as in ``engine.start().wait()``; a cell shows nothing of it.

        Raises:
            CompileError: The edited graph is unfinished or wrong; nothing has changed.
            CheckpointError: No checkpoint could be written into the ``checkpoint_dir``.
            TrainingError: Something cannot be handed to a process, or the training is under way in a thread.
        """
        expect(process, bool, "process", "True or False")
        self._execution.choose(process=process)
        self._session.go_on()
        return Started(self)

    def pause(self, *, wait: bool = True) -> None:
        """Halt after the running step, whatever `step` was asked for; without `wait`, return before that."""
        self._control.pause()
        self._control.wait_for_rest(wait=wait)

    @answers_misuse(
        'engine.resume() after a pause, and pn.TrainingEngine.resume_from("last.ckpt", net, data) for a file'
    )
    def resume(self) -> None:
        """Go on after `pause` or `step`.

        If the graph was edited meanwhile, the model follows: parameters that still fit keep their values and
        their optimizer state, wider ones keep what they had, new ones start fresh; ``history.anomalies`` says which.

        Raises:
            CompileError: The edited graph is unfinished or wrong; training stays paused, with the old model.
            TrainingError: Training has not been started, or has ended; or the data does not fit the new model.
        """
        self._session.require_alive()
        self._session.go_on()

    @answers_misuse("engine.step(10)")
    def step(self, n: int = 1, *, wait: bool = True) -> None:
        """Make `n` optimizer steps, at least 1, then halt; starts a training that is not under way.

        Without `wait`, return before they are made. `pause` halts before the last of them; an interrupt only ends the waiting.

        Raises:
            TrainingError: `n` is no positive number.
            CompileError: The graph was edited and is unfinished or wrong; see `resume`.
            BaseException: Whatever made a step fail, as for `wait`.
        """
        require_count("n", n, " engine.rewind(20) goes back.")
        self._session.go_on(n)
        self._control.wait_for_rest(wait=wait)
        if wait and self.error is not None:
            raise self.error

    def stop(self, *, wait: bool = True) -> None:
        """End after the running step; without `wait`, return before that. `start` goes on from there."""
        self._control.stop()
        self._control.wait_for_rest(wait=wait)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of training; an interrupt ends the waiting, not the training.

        In a notebook or a terminal, a line tells how far it is, and what is probably wrong, unless a dashboard does.

        Returns whether training has ended within `timeout` seconds; None waits for ever.

        Raises:
            TrainingError: Training was never started, or the loss became NaN or infinite.
            WaitInterrupted: The waiting was interrupted.
            BaseException: Whatever made the training fail, as it was raised.
        """
        expect(timeout, (int, float, NoneType), "timeout", "a number of seconds, or None")
        watched = bool(self._session.observers.entries)
        try:
            if watched or not is_watched(sys.stderr):
                return self._session.wait(timeout)
            with ProgressBar(sys.stderr, lambda: self.progress, lambda: float(self.history["loss"][-1])) as bar:
                ended = bar.while_waiting(self._session.wait, timeout)
        except KeyboardInterrupt:
            if self.state in ENDED:
                raise
            raise WaitInterrupted from None
        if ended and self.judge.verdict:
            sys.stderr.write(f"{self.judge.verdict}\n")
        return ended

    def __await__(self) -> Generator[Any, None, None]:
        return self._session.awaited().__await__()

    def snapshot(self) -> nn.Module:
        """Return a copy of the model as of the last step; the training goes on meanwhile, and does not touch it."""
        return self._session.snapshot()

    def paused(self) -> AbstractContextManager[nn.Module]:
        """Return a block with the model to itself, to look at or to change: ``with engine.paused() as model: ...``.

        Training waits between two steps meanwhile; its state stays what it is.
        """
        return self._session.lent()

    @answers_misuse(
        "engine.validate(); the data are the val_data=(X, y) that the engine was made with, engine.evaluate((X, y)) takes others"
    )
    def validate(self, *, wait: bool = True) -> dict[str, float]:
        """Validate now, between two steps; training waits, and goes on as if nothing was.

        Where the training has halted in the middle of a validation of its own, this makes the rest of it.

        Returns:
            ``"val_loss"`` and the metrics by name, as in `history` and `channel`; nothing without `wait`.

        Raises:
            TrainingError: There is no validation data, or this is inside a validation, in a metric say.
        """
        return self._session.requests.validate(wait=wait)

    @answers_misuse("engine.set_optimizer(lr=1e-4)")
    def set_optimizer(self, *, group: int | None = None, **options: Any) -> None:
        """Set options such as ``lr`` or ``weight_decay`` from the next step on, in every parameter group or in `group`.

        A schedule goes on from a new rate, with its steps in the same proportion.

        Raises:
            TrainingError: The optimizer has no such option or refuses it, or its schedule would replace it at once.
        """
        with self.paused():
            set_options(self._loop.recipe.optimizer, self._loop.recipe.schedule, options, group)

    # The steps before

    @property
    def rewind_memory(self) -> int:
        """Bytes that may be kept of the last steps for `rewind`; 0 keeps nothing."""
        return self._loop.ring.memory

    @rewind_memory.setter
    def rewind_memory(self, nbytes: int) -> None:
        expect(nbytes, int, "rewind_memory", "a number of bytes, or 0")
        self._loop.ring.memory = nbytes

    def rewind(self, steps: int = 20) -> None:
        """Stop, and be where the training was `steps` optimizer steps ago; `start` goes on from there.

        Weights, optimizer, random numbers and place in the data are as they were; on the CPU, bit for bit. The history
        ends there. The last 100 steps are kept where `rewind_memory` has room for them; not those of a group (`launch`). Those
        that a process of its own has made are made again in the kernel.

        Raises:
            TrainingError: That is too far, the data is gone, or the steps made again are not the same; the training is as
                before then.
        """
        self._session.go_back(steps)

    def skip_batch(self) -> None:
        """Leave out the batch of a `fault`; `start` goes on with the next one.

        Raises:
            TrainingError: No fault has ended the training in its last step.
        """
        self._session.skip_batch()

    # Checkpoints

    def save_checkpoint(self, path: str | Path | None = None, *, wait: bool = True) -> None:
        """Write everything that the rest of the training depends on, between two steps; without `wait`, return before that.

        Args:
            path: The file is replaced as a whole; one that was there before is kept as ``<path>.previous``. None
                writes the next one in the ``checkpoint_dir``.
            wait: See above.

        Raises:
            CheckpointError: It cannot be written, or there is no place for it.
        """
        expect(path, (str, Path, NoneType), "path", "the path of a file")
        self._session.requests.save(None if path is None else Path(path), wait=wait)

    def load_checkpoint(self, path: str | Path) -> None:
        """Be where a checkpoint of this training is, say one that a command of `launch_command` has written.

        Args:
            path: A checkpoint, or a directory, whose newest good one is meant.

        Raises:
            CheckpointError: None is whole, or it belongs to another training.
            TrainingError: A training is under way.
        """
        found = files.read_newest_good(path)
        self._session.resume(found.state, found.notes, epochs_changed=False)

    @classmethod
    def resume_from(
        cls,
        path: str | Path,
        model: nn.Module | NodeGraph | None = None,
        train_data: Given | None = None,
        val_data: Given | float | None = None,
        *,
        data: Mapping[str, Any] | None = None,
        namespace: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TrainingEngine:
        """Make an engine that continues a training; on the CPU, with the same data and versions, bit for bit.

        It is ``"idle"``; `start` makes the rest of the epochs: none if it was complete, so that a script may resume
        whatever is there. A training graph (`from_graph`) needs only the path, and what its Dataset nodes name.

        Args:
            path: A checkpoint, or a directory, whose newest is meant; where it is damaged, the one before, with a warning.
            model: The same model; not needed if it was a graph.
            train_data: The same data; `val_data` likewise.
            val_data: The same validation data.
            data: The variables of a training graph, as for `from_graph`; `namespace` likewise.
            namespace: See `from_graph`.
            options: Arguments of `TrainingEngine` that have changed, or that no file can hold, such as functions.

        Raises:
            CheckpointError: No checkpoint is whole, it is of a later version or does not fit, or an argument is missing.
        """
        resumption = read_resumption(path, model, options, drawn=train_data is None)
        engine: TrainingEngine
        # The checkpoint has the weights.
        reuse: Reuse = None if isinstance(resumption.model, NodeGraph) else OWN
        if train_data is not None:
            engine = cls(resumption.model, train_data, val_data, reuse=reuse, **resumption.arguments)
        else:
            assert isinstance(resumption.model, NodeGraph), "without data, it is the drawing that is read"
            engine = cls.from_graph(resumption.model, data, namespace=namespace, reuse=reuse, **resumption.arguments)
        engine._session.resume(resumption.state, resumption.notes, epochs_changed="epochs" in options)
        return engine

    # Observers

    @overload
    def on(self, event: str, function: Callable[[Any], object], *, waits: bool = True) -> Callable[[], None]: ...

    @overload
    def on(self, event: str, *, waits: bool = True) -> Callable[[_Function], _Function]: ...

    def on(self, event: str, function: Callable[[Any], object] | None = None, *, waits: bool = True) -> Any:
        """Call `function` with the frame of each event of one kind; ``@engine.on("epoch")`` does so with what follows it.

        The kinds are ``"step"``, ``"epoch_start"``, ``"epoch"``, ``"state"``, ``"anomaly"`` and ``"checkpoint"``. The
        function runs in the training thread, between two steps; what it raises fails the training. (A stall is told by
        another thread, because the training's is held up.)

        Args:
            event: ``"step"``, ``"epoch_start"``, ``"epoch"``, ``"state"``, ``"anomaly"`` or ``"checkpoint"``.
            function: Takes the frame.
            waits: Whether a training in a process of its own waits for the function too, after each step, epoch or
                checkpoint. Otherwise it goes on, and the function is called a moment later.

        Returns:
            A function that ends this; as a decorator, the decorated function.

        Raises:
            TrainingError: There is no such event.
        """
        if function is not None:
            return self._reports.listeners.add(event, function, waits=waits)

        def added(function: _Function) -> _Function:
            self._reports.listeners.add(event, function, waits=waits)
            return function

        return added

    def add_probe(self, probe: Probe, cadence: Cadence | None = None) -> Callable[[], None]:
        """Let `probe` observe steps at `cadence` (ten a second unless told otherwise).

        Its frames go to `channel`. Returns a function that removes it.
        """
        return self._session.observers.add(probe, cadence or Cadence())
