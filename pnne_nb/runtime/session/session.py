"""`Session`: the parts of one training, the commands that concern all of them, and its thread."""

from __future__ import annotations

import asyncio
import copy
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, final

from torch import nn

from pnne_nb.compiler.analysis.example_inputs import argument_names, spread_inputs
from pnne_nb.compiler.weights.rename_log import documents_of
from pnne_nb.compiler.weights.tensor_file import unpack
from pnne_nb.compiler.weights.weight_source import Reuse, keep_latest, weakly
from pnne_nb.diagnosis.fault import Fault
from pnne_nb.errors import CheckpointError, TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.runtime.checkpointing.files import CheckpointDirectory, packed
from pnne_nb.runtime.data.tables import Given, TableReader
from pnne_nb.runtime.data.workers import WorkerDiedError
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.faults.fault_location import drop_locals, node_of
from pnne_nb.runtime.loop.fault_replay import NotFiniteError
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.step_ring import MEMORY
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.optim.optimizers import require_no_strays
from pnne_nb.runtime.session.announcer import Announcer
from pnne_nb.runtime.session.checkpoint_match import differences, kinds_of, load
from pnne_nb.runtime.session.checkpoint_schedule import CheckpointSchedule
from pnne_nb.runtime.session.execution import Execution, Executor
from pnne_nb.runtime.session.live_source import EditedGraph, LiveSource
from pnne_nb.runtime.session.notices import Notices
from pnne_nb.runtime.session.requests import Requests
from pnne_nb.runtime.session.rewind import Rewind
from pnne_nb.runtime.session.training_registry import require_own
from pnne_nb.runtime.setup.config import Config, choose_loss
from pnne_nb.runtime.setup.devices import placed_paths, settle
from pnne_nb.runtime.setup.models import as_module, input_shapes, make_weights
from pnne_nb.runtime.setup.precision import choose_device
from pnne_nb.runtime.setup.recipe import as_every
from pnne_nb.runtime.thread.boundary import Boundary, between_steps, without_hooks
from pnne_nb.runtime.thread.cell_mode import enter_cell, unwatched
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.control import Control, Verdict
from pnne_nb.runtime.thread.determinism import switches
from pnne_nb.runtime.thread.step_lock import StopWantedError
from pnne_nb.runtime.thread.thread import start_training_thread, threads_for_training
from pnne_nb.runtime.training_process.handover import Handover
from pnne_nb.runtime.training_process.training_process import TrainingProcess
from pnne_nb.telemetry.frames import ENDED, AnomalyFrame, StateFrame, TrainingState

LEAVING: Final = 10.0
"""Seconds that a training which has ended may take to tell its listeners, before the next one is started all the same."""


@final
class Session:
    """The parts of one training, and the run of its thread from the first step to the last.

    For the arguments and the errors that they lead to, see `TrainingEngine`.

    Attributes:
        live_source: What the model is made from, if that can be edited.
        error: What made the training fail, or None; the local variables of the calls that failed are gone.
        failed_at: Path of the node that did, or None.
        execution: Knows what makes the steps.
        control: Where commands and the training thread meet.
        boundary: Keeps others from the live model while a step changes it.
        reports: Take the news.
        observers: The probes.
        announcer: Tells what a step, or an epoch, has led to.
        requests: What is done between two steps.
        loss_choice: The name of the loss, and why it was chosen if none was given.
        start: Whose weights the model of a graph starts with; empty if they were drawn.
    """

    def __init__(
        self,
        model: nn.Module | NodeGraph,
        train_data: Given | None,
        val_data: Given | float | None,
        config: Config,
        checkpoint_dir: str | Path | None,
        reuse: Reuse = OWN,
    ) -> None:
        config.check()
        self.reader = TableReader(config.target)
        if config.step_function is None and isinstance(model, nn.Module | NodeGraph):
            names = argument_names(model)
            train_data, val_data = spread_inputs(train_data, names), spread_inputs(val_data, names)
        train, val = config.open_data(*self.reader.parts(train_data, val_data, config.seed))
        self.model, self.start, _, _ = as_module(model, config.seed, reuse)
        self.live_source: LiveSource | None = EditedGraph(model) if isinstance(model, NodeGraph) else None
        compares = config.loss is not None and config.step_function is None
        make_weights(self.model, train, config.seed, wants_target=compares, calls=config.step_function is None)
        # A loss is chosen by what the model gives, which may be for its device alone.
        settle(self.model, choose_device(config.device), placed_paths(model))
        self.config, self.loss_choice = choose_loss(config, self.model, train)
        config = self.config
        recipe = config.recipe(self.model, train, val, input_shapes(model), placed_paths(model))
        self.error: BaseException | None = None
        self.failed_at: str | None = None
        self.reports = Reports()
        self.reports.judge.watch(self.model)
        self.observers = Observers(self.reports.publish)
        self.loop = TrainingLoop.of(recipe, config.seed, self.observers, deterministic=config.deterministic)
        self.loop.check_data()
        self.loop.ring.memory = MEMORY
        self.control = Control(self._state_changed)
        self.loop.turn.is_over = lambda: self.control.stopping
        self.loop.disturbances.in_cell = lambda: cells.open and not self.control.awaited
        self.boundary = Boundary(self.model, self.control, self._tell_of_use, lambda: self.loop.recipe.beside)
        self.execution = Execution(self.loop, self.control)
        self._notices = Notices(self.execution, self.reports)
        kept = None if checkpoint_dir is None else CheckpointDirectory(checkpoint_dir, config.max_to_keep)
        self.checkpoint_dir = None if kept is None else kept.directory
        self._checkpoints = CheckpointSchedule(
            kept,
            as_every("checkpoint_every", config.checkpoint_every),
            self.state_dict,
            self.execution,
            self.reports,
            self._notices,
        )
        self.announcer = Announcer(
            self.execution, self.reports, self._notices, self._checkpoints, self.control.stepped, config.epochs
        )
        self.requests = Requests(self.control, self.execution, self.reports, self._checkpoints)
        self._rewind = Rewind(self.control, self.execution, self.reports, self.observers, lambda: self._threads)
        self._stalls = self.execution.stall_watch(self.reports.announce)
        self._threads = threads_for_training()
        self._has_boundary = threading.Event()
        self._rest_only = False

    # Commands

    def go_on(self, steps: int | None = None) -> None:
        """Follow edits of the graph, take the model back from cells, and continue; starts a thread or a process if needed.

        It halts after so many `steps`; with None, it runs on.

        Raises:
            CompileError: The edited graph is unfinished or wrong; nothing has changed.
            TrainingError: It cannot be followed, or not be handed to a process.
        """
        self.follow_edits()
        require_no_strays(self.loop.recipe.optimizer)
        if self.control.state in ENDED and not self.control.in_training_thread():
            # The thread before tells its listeners that it has ended; taken for a running one, this start would be lost.
            self.control.wait_for_end(LEAVING)
        if not self.control.alive:
            in_process = self.execution.in_process
            require_own(self.model, in_process=in_process)
            executor = self._process() if in_process else self.loop
            # Packing uses the model: the cell gives it back first.
            self._let_go()
            self.launch(steps, executor)
            return
        if steps is None:
            self.control.resume()
        else:
            self.control.allow(steps)
        self._let_go()

    def _let_go(self) -> None:
        """Take the model back from the calling cell, with its modes."""
        if self.boundary.is_open:
            self.loop.restore_modes()
        self.boundary.let_go()

    def require_alive(self) -> None:
        """Raise an error unless a training runs or is paused.

        Raises:
            TrainingError: None is.
        """
        if not self.control.alive:
            state, failed = self.control.state, f" ({in_brief(self.error)})" if self.error is not None else ""
            raise TrainingError(f"There is nothing to resume: the training is {state}{failed}. Call start().")

    def launch(self, steps: int | None, executor: Executor) -> None:
        """Start a training thread, unless there is one already, for the `executor` that makes the steps.

        It halts after so many `steps`; with None, it runs on.

        Raises:
            CheckpointError: Its checkpoints could not be written.
            TrainingError: This process was forked while the training was under way.
        """
        self._require_own_process()
        self._checkpoints.require_room()
        before = self.control.state
        try:
            if not self.control.launch(steps):
                return
            self.execution.executor = executor
            self._keep_weights()
            self.renew()
            control = self.control
            start_training_thread(self.run, control.stop, control.wait_for_end, self._threads)
        except BaseException:
            if self.control.abandon(before):
                self.execution.executor = self.loop
            raise
        # Once the model has it, nobody meets a step.
        self._has_boundary.wait()
        enter_cell()

    def renew(self) -> None:
        """Prepare a new run: forget an earlier failure, and after the last epoch add as many epochs again.

        Until the run begins, doing this again changes nothing: a training is packed for other processes and then launched.
        But not in the first run after a checkpoint was loaded, which makes the rest: a script that resumes what was
        killed after its last checkpoint does not train again.
        """
        self.error = None
        self.announcer.busy = False
        self._has_boundary.clear()
        self._notices.renew()
        if not self._rest_only:
            self.loop.be_patient()
            if self.loop.epoch > self.announcer.last_epoch:
                self.announcer.last_epoch = self.loop.epoch - 1 + self.config.epochs

    def _process(self) -> TrainingProcess:
        config, checkpoints = self.config, self._checkpoints
        checkpoints.require_room()
        if not self._rest_only:
            # As every new run does, and before the process is told what was best so far.
            self.loop.be_patient()
        every = None if checkpoints.directory is None else checkpoints.every
        last_epoch = self.announcer.last_epoch
        memory = self.loop.ring.memory
        manner = Handover(config.seed, self._threads, config.deterministic, every, last_epoch, switches(), memory)
        return TrainingProcess(self.loop, self.control, self.reports, self.observers, manner)

    def follow_edits(self) -> None:
        """Apply edits of the graph between two steps.

        Raises:
            CompileError: It is unfinished or wrong; nothing has changed.
            TrainingError: It cannot be followed.
        """
        source = self.live_source
        if source is None or not source.changed:
            return
        if self.execution.executor.is_group:
            raise TrainingError(
                "The graph was edited while a group of processes trains it: stop() the group, and launch() it again."
            )
        with self.control.visit("an edit of the graph"), self.boundary.lent(), self.execution.executor.lend():
            cut = source.follow(self.loop, self.config)
            self.reports.judge.watch(self.model)
            if cut is not None:
                self.reports.announce(cut)

    def wait(self, timeout: float | None) -> bool:
        """Wait until no training runs, for at most `timeout` seconds; return whether none runs.

        Raises:
            TrainingError: There never was one, or the caller is a part of it.
            BaseException: Whatever made it fail.
        """
        if self.control.state == "idle":
            raise TrainingError("There is nothing to wait for: call start() first.")
        if self.control.in_a_step():
            raise TrainingError(
                "wait() would never return: this is inside a step or a callback of a training, which waits for you."
            )
        with self.control.awaiting():
            self._let_go()
            if not self.control.wait_for_end(timeout):
                return False
        if self.error is not None:
            raise self.error
        return True

    async def awaited(self) -> None:
        """Wait in an event loop, which goes on meanwhile; see `wait`."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tell(frame: StateFrame) -> None:
            if frame.state in ENDED:
                loop.call_soon_threadsafe(ended.set)

        remove = self.reports.listeners.add("state", tell)
        try:
            with self.control.awaiting():
                if self.control.state not in {"idle", *ENDED}:
                    self._let_go()
                    await ended.wait()
        finally:
            remove()
        self.wait(None)

    @contextmanager
    def lent(self) -> Iterator[nn.Module]:
        """Lend the live model to this block; its changes count as intended."""
        with (
            self.control.visit("a block that looks at the model"),
            self.boundary.lent(),
            self.execution.executor.lend(),
        ):
            with unwatched():
                yield self.model
            self.loop.ring.touch()

    @contextmanager
    def at_rest(self) -> Iterator[nn.Module]:
        """Lend the live model to this block, to be read between two steps."""
        self.sync()
        with between_steps(self.model):
            yield self.model

    def sync(self) -> None:
        """Update the live model to the last step, where that is made elsewhere."""
        if not self.execution.executor.is_here:
            with self.control.visit("a look at the model"), self.boundary.lent():
                self.execution.executor.sync()

    def _keep_weights(self) -> None:
        """Let the document of the model know that its latest weights are here."""
        session, model = weakref.ref(self), weakly(self.model)

        def hold() -> AbstractContextManager[nn.Module | None]:
            found = session()
            return model() if found is None else found.at_rest()

        for graph in documents_of(self.model):
            keep_latest(graph, "trained", "a training of this graph", hold)

    def snapshot(self) -> nn.Module:
        """Return a copy of the model as of the last step."""
        with self.control.visit("a copy of the model"), self.boundary.lent():
            self.execution.executor.sync()
            return without_hooks(copy.deepcopy(self.model))

    # The steps before

    @property
    def fault(self) -> Fault | None:
        """The non-finite value that ended the training, or None."""
        return self.error.fault if isinstance(self.error, NotFiniteError) else None

    def go_back(self, steps: int) -> None:
        """Stop, and return to the state `steps` steps ago; see `Rewind.back`."""
        self.control.stop()
        self.control.wait_for_rest()
        self._rewind.back(steps)
        self._rest()

    def skip_batch(self) -> None:
        """Continue after the batch of the fault; see `Rewind.without`."""
        self._rewind.without(self.fault)
        self._rest()

    def _rest(self) -> None:
        self.error = None
        self._rest_only = True
        self.control.end("stopped", self._keep)

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the contents of a checkpoint.

        Raises:
            TrainingError: This process was forked while the training was under way.
        """
        self._require_own_process()
        source = self.live_source
        drawing = None if source is None else source.drawing
        return {
            "loop": self.execution.executor.state_dict(),
            "history": self.reports.history.state_dict(),
            "config": self.config.plain(),
            "kinds": kinds_of(self.loop.recipe),
            "missing": list(self.config.objects()),
            "graph": None if source is None else source.document,
            "drawing": None if drawing is None else drawing.graph,
            "last_epoch": self.announcer.last_epoch,
            "threads": self._threads,
            "batches": self.loop.recipe.train.size,
        }

    def _require_own_process(self) -> None:
        if self.control.forked:
            raise TrainingError(
                "This process was forked while the training was under way: the training goes on in the process that was "
                "forked, and the model here may be from the middle of a step. Command the engine there; here, "
                "TrainingEngine.resume_from() makes another one from a checkpoint."
            )

    def resume(self, state: dict[str, Any], notes: Iterable[tuple[str, str]], *, epochs_changed: bool) -> None:
        """Resume from a `state_dict`, and report its notices.

        Args:
            state: From a checkpoint.
            notes: Kind and message of what its reader has to say.
            epochs_changed: Whether the last epoch is the one that is asked for now.

        Raises:
            CheckpointError: It belongs to another training; this one is as before.
            TrainingError: The training is under way.
        """
        for _, message in notes:
            # Whoever calls the engine.
            warnings.warn(message, stacklevel=3)
        if self.control.alive:
            raise TrainingError(f"The training is {self.control.state}: stop() it before loading a checkpoint.")
        load(state, unpack(*packed(self.state_dict())), self.loop, self.reports.history, self.config)
        self.loop.ring.clear()
        self._keep_weights()
        self.reports.judge.recall(self.reports.history.frames())
        # The number of threads changes the last bits of a sum.
        self._threads = state["threads"]
        self._rest_only = True
        if not epochs_changed:
            self.announcer.last_epoch = state["last_epoch"]
        document = None if self.live_source is None else self.live_source.document
        told = [AnomalyFrame(self.loop.steps, kind, message) for kind, message in notes]
        for frame in [*differences(state, self.loop, self.config, document), *told]:
            self.reports.announce(frame)

    # The training thread

    def run(self) -> None:
        """Train until the end, a stop or a failure; never raises."""
        if not self.control.claim():
            return
        self._rest_only = False
        self._end(self._run())

    def _run(self) -> TrainingState:
        executor = self.execution.executor
        try:
            try:
                if executor.is_here:
                    self.boundary.open()
                self.control.woken = executor.halt
            finally:
                self._has_boundary.set()
            self._stalls.start()
            try:
                self._notices.before_first_step()
                state = self._train(executor)
                if state != "failed":
                    self.reports.conclude()
            except StopWantedError:
                state = "stopped"
            self._save_last()
        except BaseException as error:  # noqa: BLE001  it is kept, shown, and raised again by wait()
            self._keep(error)
            if isinstance(error, NotFiniteError):
                self._conclude_failure()
            return "failed"
        return state

    def _conclude_failure(self) -> None:
        try:
            self.reports.conclude()
        except Exception as error:  # noqa: BLE001  a listener may fail, too
            self._keep(error)

    def _train(self, executor: Executor) -> TrainingState:
        stalls, events = self._stalls, executor.events(self.announcer.last_epoch)
        try:
            while executor.at_work or self._boundary() == "go":
                self.announcer.epoch_begins()
                stalls.began()
                event = next(events, None)
                self.control.made()
                stalls.ended()
                if event is None:
                    return "finished"
                self.announcer.tell(event)
            return "stopped"
        except WorkerDiedError as error:
            # The model is as after its last step. That is kept: a kernel that shuts down ends the workers first of all.
            if self.control.stopping:
                return "stopped"
            self._keep(error)
            return "failed"
        finally:
            events.close()
            self.observers.conclude(executor.steps)

    def _boundary(self) -> Verdict:
        self.boundary.yield_while(lambda: self.loop.disturbances.held)
        return self.control.boundary()

    def _save_last(self) -> None:
        self.announcer.busy = True
        try:
            self._checkpoints.at_end()
        except CheckpointError as error:
            error.add_note(
                "Nothing is lost: start() goes on from here and tries again; save_checkpoint(path) writes one elsewhere."
            )
            self._rest_only = True
            raise

    def _end(self, state: TrainingState) -> None:
        self._stalls.end()
        self.boundary.close()
        self.control.woken = lambda: None
        looked = self.announcer.look()
        self.execution.executor = self.loop
        self.reports.channel.put(self.announcer.progress, *looked)
        self.announcer.busy = True
        self.control.end(state, self._keep)

    def _keep(self, error: BaseException) -> None:
        """Keep the error that made the training fail; of several, the first."""
        if self.error is not None:
            self.error.add_note(f"And then: {in_brief(error)}")
            return
        told, in_step = in_brief(error), not self.announcer.busy
        error.add_note(f"While {self.execution.executor.doing}." if in_step else "Between two steps.")
        self.error = error
        try:
            self._notices.of_failure(error, told, in_step=in_step)
        except Exception as other:  # noqa: BLE001  whoever is told of a failure may fail, too
            self._keep(other)
        self.failed_at = node_of(error, self.model)
        drop_locals(error)

    def _tell_of_use(self, message: str, hint: str) -> None:
        self.reports.announce(AnomalyFrame(self.loop.steps, "model-kept", message, hint=hint))

    def _state_changed(self, state: TrainingState) -> None:
        self.announcer.rest()
        failed = state == "failed"
        self.reports.state_changed(state, self.error if failed else None, self.failed_at if failed else None)
