"""Runs one process of a group; torchrun starts ``pnne_nb.worker``.

It opens what the engine has packed into the directory, and trains in step with the others. If an engine is at the
other end of the line, each step waits for its verdict; a group that was started by hand trains to the end.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, final

import msgspec
import torch

from pnne_nb.errors import CheckpointError, PnneError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.parent import die_with
from pnne_nb.runtime.checkpointing import files
from pnne_nb.runtime.data.sources import Share
from pnne_nb.runtime.distributed.launch.strategies import STRATEGIES, strategy
from pnne_nb.runtime.distributed.remote_probes import Measure, Ordered
from pnne_nb.runtime.distributed.step.group import JointStep, ProcessGroup
from pnne_nb.runtime.distributed.step.sharding import ReducedMetric, sharded
from pnne_nb.runtime.distributed.step.sync_batch_norm import join_batch_norms
from pnne_nb.runtime.distributed.transport import worker_messages
from pnne_nb.runtime.distributed.transport.connection import ADDRESS, Lifeline, find_launcher
from pnne_nb.runtime.distributed.transport.dataset_files import unpack
from pnne_nb.runtime.distributed.transport.pickled_objects import Luggage, tie, unpacked
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.loop.fault_replay import NotFiniteError
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import EpochEnded, Event, Judged, Stepped
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.setup.config import Config
from pnne_nb.runtime.setup.models import as_module, input_shapes
from pnne_nb.runtime.setup.recipe import Recipe, as_every
from pnne_nb.runtime.thread.rng import PrivateRandomness, key_of
from pnne_nb.runtime.training_graph.read import read_training

_SAVE_EVERY = 60.0
"""Seconds between two checkpoints in a long epoch; more where writing one takes more than a hundredth of that."""
_LARGEST = (1 << 32) - (1 << 16)
"""Bytes that a message can carry."""


@final
class Worker:
    """The training of this process.

    `measure` makes the probes that the engine orders. When a failure has left a checkpoint of the state just before it,
    `saved` is True.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        group: ProcessGroup,
        lifeline: Lifeline | None,
        luggage: Luggage,
        measure: Measure,
    ) -> None:
        self.saved = False
        self._group = group
        self._lifeline = lifeline
        # Of those that the engine hears, the first speaks for all; without an engine, the first of all.
        heard = group.sum([float(lifeline is not None and rank == group.rank) for rank in range(group.count)])
        self._leads = group.rank == (heard.index(1.0) if any(heard) else 0)
        self._strategy = strategy(options.strategy, options.ddp)
        self._last_epoch: int = options.epochs
        self._kept = files.read_newest_good(options.directory).state
        self._kept["last_epoch"] = self._last_epoch
        # What one process would use, for all of this machine's together.
        torch.set_num_threads(max(1, self._kept["threads"] // int(os.environ["LOCAL_WORLD_SIZE"])))
        given = self._kept["config"]
        self._checkpoints = files.CheckpointDirectory(options.directory, given["max_to_keep"])
        self._seed: int = given["seed"]
        self._save_every = as_every("checkpoint_every", given["checkpoint_every"])
        self._history = History()
        self._history.load_state_dict(self._kept["history"])
        recipe, self._randomness = self._recipe(options, luggage)
        self._ordered = Ordered(measure, self._tell)
        self.loop = TrainingLoop(
            recipe, self._randomness, self._ordered.observers, deterministic=given["deterministic"]
        )
        self._saved_at, self._cost = 0.0, 0.0
        self._refused = False
        self._load(self._kept)

    def _recipe(self, options: argparse.Namespace, luggage: Luggage) -> tuple[Recipe, PrivateRandomness]:
        group, state = self._group, self._kept
        device = torch.device(f"cuda:{torch.cuda.current_device()}" if options.device == "cuda" else "cpu")
        train, val, drawing = unpack(options.directory, luggage)
        graph = None if state["graph"] is None else NodeGraph.from_json(state["graph"])
        model = luggage.model if graph is None else as_module(graph, self._seed, reuse=None).model
        assert model is not None
        # That the data fits the model, the engine has seen; here are parts of its batches.
        expected = () if graph is None else tuple((name, None) for name, _ in input_shapes(graph))
        joint = JointStep(model) if "step_function" in state["missing"] else None
        if options.sync_batch_norm:
            join_batch_norms(model, group)
        trained = self._strategy.prepare(model, device, joint)
        given = {**state["config"], "device": str(device)}
        if luggage.arguments is not None:
            given |= tie(luggage.arguments, model)
        if drawing is not None:
            training = NodeGraph.from_json(drawing.graph)
            drawn = read_training(training, drawing.variables, seed=self._seed, device=device)._asdict()
            train, val = drawn["train_data"], drawn["val_data"]
            given |= {name: drawn[name] for name in state["missing"]}
        assert train is not None
        config = Config(**given)
        sources = config.open_data(train, val)
        share = Share(group.rank, group.count)
        mine = [None if source is None else sharded(source, share, group) for source in sources]
        assert mine[0] is not None
        recipe = config.recipe(model, mine[0], mine[1], expected)
        counting = [
            {name: ReducedMetric(metric, group, first=group.rank == 0) for name, metric in metrics.items()}
            for metrics in (recipe.metrics, recipe.val_metrics)
        ]
        randomness = PrivateRandomness(self._seed, device)
        recipe = msgspec.structs.replace(
            recipe, metrics=counting[0], val_metrics=counting[1], peers=group, trained=trained
        )
        if joint is not None:
            assert config.step_function is not None
            recipe = msgspec.structs.replace(recipe, step=joint.made_by_all(config.step_function, trained))
        return recipe, randomness

    # In step with the others

    def run(self) -> None:
        """Train to the end, or until the engine stops it.

        Raises:
            NotFiniteError: In every process at once; a checkpoint of the state before that step is written.
        """
        self._tell(worker_messages.Ready(self.loop.steps))
        try:
            for event in self._events():
                self._report(event)
        except NotFiniteError:
            self.saved = self._save().written
            raise
        kept = self._save(needed=True)
        if self._lifeline is None and not kept.written:
            raise CheckpointError(
                "The last checkpoint could not be written: what was trained since the newest one is lost."
            )
        self._tell(worker_messages.Ended(kept))

    def _events(self) -> Iterator[Event]:
        events = self.loop.events(self._last_epoch)
        try:
            while self._verdict() is worker_messages.Verdict.GO:
                if self._group.rank > 0:
                    # Each process draws its own random numbers. They follow from seed, step and rank, so a restart repeats them.
                    self._randomness.reseed(key_of(self._seed, self.loop.steps, self._group.rank))
                event = next(events, None)
                if event is None:
                    return
                yield event
        finally:
            events.close()

    def _report(self, event: Event) -> None:
        saved = False
        match event:
            case Stepped(frame=step):
                self._history.record(step)
                saved = self._save_every.after_step(step.step)
            case EpochEnded(frame=epoch):
                self._history.record(epoch)
                saved = self._save_every.after_epoch(epoch.epoch)
            case Judged(frame=judged):
                self._history.record(judged)
            case _:
                pass
        saved = saved and self._save().written
        self._tell(worker_messages.Happened(event, self.loop.steps, self.loop.epoch, self.loop.position, saved))

    def _tell(self, message: worker_messages.FromWorker) -> None:
        if self._lifeline is not None and self._leads:
            self._lifeline.tell(message)

    def _verdict(self) -> worker_messages.Verdict:
        """Return whether to go on or to stop; saves and loads on the way."""
        while True:
            # The others say GO, which is 0 and changes nothing in the sum.
            own, asked = self._wanted() if self._leads else (worker_messages.Verdict.GO, False)
            kept = worker_messages.Kept(written=True)
            match worker_messages.Verdict(int(self._group.sum([float(own)])[0])):
                case worker_messages.Verdict.SAVE:
                    kept = self._save(needed=True)
                case worker_messages.Verdict.LOAD:
                    self._load(files.read_newest_good(self._checkpoints.directory).state)
                case verdict:
                    return verdict
            if asked:
                self._tell(worker_messages.Obeyed(kept))

    def _wanted(self) -> tuple[worker_messages.Verdict, bool]:
        if time.monotonic() - self._saved_at > max(_SAVE_EVERY, 100 * self._cost):
            return worker_messages.Verdict.SAVE, False
        if self._lifeline is None:
            return worker_messages.Verdict.GO, False
        while isinstance(heard := self._lifeline.hear(), worker_messages.Orders):
            self._ordered.follow(heard, self.loop.recipe.model, lambda: self.loop.recipe.precision.scale)
        return heard, True

    # Checkpoints

    def _load(self, state: dict[str, Any]) -> None:
        recipe = self.loop.recipe
        self.loop.load_state_dict(self._strategy.scatter(state["loop"], recipe.model, recipe.optimizer))
        self._saved_at = time.monotonic()

    def _save(self, *, needed: bool = False) -> worker_messages.Kept:
        """Write a checkpoint; the training goes on if that fails, and if it is `needed`, the engine takes over the contents."""
        began = time.monotonic()
        loop = self._strategy.gather(self.loop.state_dict())
        state = {**self._kept, "loop": loop, "history": self._history.state_dict()}
        fault = self._written(state) if self._group.rank == 0 else ""
        # Nobody goes on, or says that it is done, before the file is there, or is known not to be.
        refused = self._group.sum([float(bool(fault))])[0] > 0
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - began
        if refused:
            self._tell_of(self._group.told(fault))
        self._refused = refused
        if not (refused and needed and self._lifeline is not None and self._group.rank == 0):
            return worker_messages.Kept(written=not refused)
        content = files.content_of(state)
        return worker_messages.Kept(written=False, content=content if len(content) < _LARGEST else b"")

    def _written(self, state: Mapping[str, Any]) -> str:
        """Write a checkpoint; return why it could not be written, or an empty text."""
        try:
            self._checkpoints.save(self.loop.steps, state)
        except CheckpointError as error:
            if not files.is_refused(error):
                raise
            newest = self._checkpoints.newest
            goes_on = "there is none" if newest is None else f"{newest.name} is the newest"
            return (
                f"{error} The processes train on, and try again when the next one is due; until then, {goes_on}, where all "
                "begin again if one of them dies."
            )
        return ""

    def _tell_of(self, fault: str) -> None:
        """Report a failed checkpoint once, until one is written again."""
        if self._refused:
            return
        self._tell(worker_messages.Refused(self.loop.steps, fault))
        if self._lifeline is None and self._leads:
            warnings.warn(fault, stacklevel=1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One process of a training that an engine has packed.")
    parser.add_argument("directory", type=Path, help="what the engine has packed")
    parser.add_argument("--strategy", choices=STRATEGIES, default="ddp")
    parser.add_argument("--backend", default="gloo", help="carries the gradients")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--epochs", type=int, required=True, help="the last epoch to make")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds to wait for the others without an engine")
    parser.add_argument("--sync-batch-norm", action="store_true", help="let it see all parts of a batch")
    parser.add_argument("--ddp", type=json.loads, default={}, help="options of DistributedDataParallel, as JSON")
    parser.add_argument("--import", dest="imports", action="append", default=[], help="module to import first")
    return parser.parse_args()


def main(measure: Measure) -> NoReturn:
    """Take part in a training, and end the process with an exit status for torchrun; `measure` makes the engine's probes."""
    options = _options()
    launcher = find_launcher(str(options.directory))
    die_with(launcher.pid)
    rank, address = int(os.environ["RANK"]), os.environ.get(ADDRESS)
    lifeline = None if address is None else Lifeline(address, launcher)
    if lifeline is not None:
        lifeline.tell(worker_messages.Hello(rank, os.getpid(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))))
    worker = None
    status = 0
    try:
        for name in options.imports:
            import_module(name)
        if options.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        luggage = Luggage() if lifeline is None else unpacked(lifeline.receive())
        group = ProcessGroup(options.backend, None if lifeline is not None else options.timeout)
        worker = Worker(options, group, lifeline, luggage, measure)
        worker.run()
        group.close()
    except BaseException as error:  # noqa: BLE001  it is told, and the process ends
        if lifeline is not None:
            lifeline.tell(_broken(rank, error, worker))
        traceback.print_exc()
        status = 1
    _leave(status)


def _leave(status: int) -> NoReturn:
    """End the process without the interpreter's shutdown.

    Threads of gloo may still hold tensors of the last exchange. Where they drop them while the interpreter goes, the
    process aborts (pytorch/pytorch#179291): a training that had ended well was begun again, by one machine alone.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _broken(rank: int, error: BaseException, worker: Worker | None) -> worker_messages.Broke:
    return worker_messages.Broke(
        rank=rank,
        kind=type(error).__name__,
        message=str(error) if isinstance(error, PnneError) else in_brief(error),
        diagnostics=list(error.diagnostics) if isinstance(error, PnneError) else [],
        doing="starting" if worker is None else worker.loop.doing,
        fetching=worker is not None and worker.loop.fetching,
        trace="".join(traceback.format_exception(error)),
        saved=worker is not None and worker.saved,
        found=isinstance(error, NotFiniteError) and error.fault is not None,
    )
