"""`Rewind`: takes a training back to an earlier step, or past a faulty batch."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import closing
from typing import final

import torch

from pnne_nb.diagnosis.fault import Fault
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.faults.error_messages import in_a_sentence
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Stepped
from pnne_nb.runtime.loop.step_ring import STEPS, copied
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.session.execution import Execution
from pnne_nb.runtime.thread.control import Control
from pnne_nb.telemetry.frames import AnomalyFrame

SAME = 1e-3
"""Losses that differ by less, relative to them, may be of the same steps on a device that sums in another order each time:
1e-7 at first, which grows with each step."""

REWOUND = "rewound"
"""Kind of the event that says that the training went back."""


@final
class Rewind:
    """Goes back in a training that does not run; `threads` returns how many threads torch uses for it."""

    def __init__(
        self, control: Control, execution: Execution, reports: Reports, observers: Observers, threads: Callable[[], int]
    ) -> None:
        self._control = control
        self._execution = execution
        self._reports = reports
        self._observers = observers
        self._threads = threads
        self._gap = 0.0

    def back(self, steps: int) -> None:
        """Return to the state `steps` optimizer steps ago: bit for bit on the CPU, and with ``deterministic=True``.

        Kernels of other devices may sum in another order each time. There, losses that are as near as that explains count
        as the same, and the event says how far they are apart.

        Raises:
            TrainingError: That is too far, or the steps cannot be made again as they were; the training is as before then.
        """
        require_count("steps", steps)
        loop = self._execution.loop
        self._require_here()
        loop.ring.forget_unless_at(loop.steps)
        target = loop.steps - steps
        kept = loop.ring.before(target)
        if target < 0 or kept is None:
            raise TrainingError(self._too_far(steps))
        failed: list[BaseException] = []
        # Sums have other last bits with another number of threads, and that is set for a thread.
        thread = threading.Thread(target=self._in_thread, args=(target, failed), name="pnne-rewind", daemon=True)
        with self._control.visit("a rewind"):
            thread.start()
            thread.join()
        if failed:
            raise failed[0]
        loop.ring.cut(target)
        self._reports.history.cut(target, loop.epoch)
        said = f"The training went back {steps} step{'s' * (steps != 1)}, to step {target}"
        if self._gap:
            said += (
                f", not bit for bit on this device ({loop.recipe.device}): losses of steps made again differ by up to "
                f"{self._gap:.1e}. deterministic=True makes them equal"
            )
        self._reports.announce(AnomalyFrame(target, REWOUND, f"{said}."))

    def without(self, fault: Fault | None) -> None:
        """Continue with the batch after the one of a fault.

        Raises:
            TrainingError: No fault has ended the training, or it has gone on since.
        """
        loop = self._execution.loop
        self._require_here()
        if fault is None or loop.steps != fault.step - 1:
            raise TrainingError("There is no batch to leave out: no fault has ended the training in its last step.")
        at = fault.batch - 1
        first = loop.position
        loop.skip(at - first + 1 if fault.stage == "data" else fault.batches)
        self._reports.announce(
            AnomalyFrame(
                loop.steps, "batch-skipped", f"Batch {fault.batch} of epoch {fault.epoch} is left out.", fault.node
            )
        )

    def _require_here(self) -> None:
        if not self._execution.executor.is_here:
            raise TrainingError("The training is under way in other processes: stop() it before it goes back.")

    def _too_far(self, steps: int) -> str:
        loop = self._execution.loop
        ring, reached = loop.ring, loop.steps
        if not ring.snapshots:
            if ring.needed:
                return (
                    f"Nothing is kept to go back to: a snapshot of this training takes {ring.needed / 2**20:,.0f} MB, and "
                    f"engine.rewind_memory allows {ring.memory / 2**20:,.0f} MB. Load a checkpoint, or raise it."
                )
            return (
                "Nothing is kept to go back to: no step was made since the training was loaded, edited or made, or a group of "
                "processes (launch()) has made the last ones, or a process that was killed. Load a checkpoint."
            )
        first = ring.snapshots[0].step
        return (
            f"rewind({steps}) would go to step {reached - steps}, and the steps since step {first} are kept: at most "
            f"{reached - first} can be taken back ({STEPS} are kept where memory allows). Load a checkpoint before that."
        )

    def _in_thread(self, target: int, failed: list[BaseException]) -> None:
        torch.set_num_threads(self._threads())
        loop = self._execution.loop
        now = copied(loop.state_dict())
        self._observers.muted = True
        try:
            self._replay(loop, target)
        except BaseException as error:  # noqa: BLE001  raised in the thread that has asked for it
            loop.load_state_dict(now)
            if not isinstance(error, TrainingError):
                told = TrainingError(
                    f"The steps before cannot be made again: {in_a_sentence(error)} The training is as it was."
                )
                told.__cause__ = error
                error = told
            failed.append(error)
        finally:
            self._observers.muted = False

    def _replay(self, loop: TrainingLoop, target: int) -> None:
        snapshot = loop.ring.before(target)
        assert snapshot is not None
        last, ring, self._gap = loop.epoch, loop.ring, 0.0
        losses = {step: ring.loss_of(step) for step in range(snapshot.step + 1, target + 1)}
        loop.load_state_dict(copied(snapshot.state))
        # An optimizer that ended early is not to end earlier now.
        events = loop.events(last)
        with ring.rest(), closing(events):
            while loop.steps < target:
                event = next(events, None)
                if event is None:
                    raise TrainingError(
                        f"The data of step {loop.steps + 1} is gone: a loader that is read only once cannot be read again. "
                        "The training is as it was. Load a checkpoint, or give a dataset that can be read by number."
                    )
                if isinstance(event, Stepped):
                    self._require_same(event.frame.step, losses[event.frame.step], event.frame.loss)

    def _require_same(self, step: int, was: float | None, found: float) -> None:
        if was is None or was == found:
            return
        self._gap = max(self._gap, abs(found - was))
        if self._execution.loop.repeats or not math.isclose(found, was, rel_tol=SAME, abs_tol=SAME):
            raise TrainingError(
                f"Step {step} made again has the loss {found!r}, and had {was!r} (difference {abs(found - was):.3g}): a "
                "forward pass that is not the same each time, data that cannot be read again, or a model that a cell has "
                "changed. The training is as it was. deterministic=True names operations that are to blame."
            )
