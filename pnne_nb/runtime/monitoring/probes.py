"""Calls probes at their cadence, those of `register_probe` too, and measures what observing costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import SupportsFloat, TypeAlias, TypeVar, final

import torch
from torch import nn

from pnne_nb.errors import ArgumentError, expect, registers, shown
from pnne_nb.process.random_state import preserved_random_state
from pnne_nb.telemetry.frames import AnomalyFrame, CostFrame, Frame, MeasureFrame
from pnne_nb.telemetry.overhead import Overhead, PairedOverhead
from pnne_nb.telemetry.probe import Cadence, Concluding, Probe, Timed, Toll

_COST_EVERY = 1.0
"""Seconds between two reports of the cost."""

_UNWATCHED: AbstractContextManager[None] = nullcontext()


@final
class Observers:
    """The probes of one training, whose frames `publish` takes.

    Each probe keeps within its own budget, and all of them together within the largest budget: two observers of one
    training cost no more than one. Probes that had to wait run in the same step as the others that are due by then.

    Probes are added and removed from any thread; everything else happens in the training thread.

    Attributes:
        publish: The argument, for frames that come from another process.
        muted: Whether probes are off because steps are repeated.
    """

    def __init__(self, publish: Callable[[Sequence[Frame]], None]) -> None:
        self.publish = publish
        self.muted = False
        self._probes: dict[object, tuple[Probe, Cadence]] = {}  # each use is one operation in C
        self._toll = Toll()
        self._timing = _Timing(self._toll)
        self._quiet_until = float("inf")  # no step before then (seconds, monotonic) is observed or timed
        self._paid = float("-inf")  # when the last observation is paid for (seconds, monotonic)
        self._since: float | None = None  # when the first step was observed
        self._observed = 0
        self._reported = float("-inf")

    @property
    def entries(self) -> tuple[tuple[Probe, Cadence], ...]:
        return tuple(self._probes.values())

    def add(self, probe: Probe, cadence: Cadence) -> Callable[[], None]:
        """Add a probe; returns the function that removes it."""
        if not self._probes:
            # Rate and share leave out the time without probes.
            self._observed, self._reported = 0, float("-inf")
            self._since, self._toll.paired = None, PairedOverhead()
        key = object()
        self._probes[key] = probe, cadence
        self._quiet_until = float("-inf")

        def remove() -> None:
            self._probes.pop(key, None)

        return remove

    def watching(self, step: int) -> AbstractContextManager[Watched | None]:
        """Observe one step with every probe that is due; yields None if none is."""
        # Most steps, which may take half a millisecond, run only the next two lines.
        now = time.monotonic()
        if now < self._quiet_until or self.muted:
            return _UNWATCHED
        probes = self.entries
        due = [entry for entry in probes if entry[1].due(now)] if now >= self._paid else None
        if due:
            return self._observing(due, step, now)
        if probes and now >= self._toll.next_bare:
            return self._timing.of(now)
        next_due = min((cadence.next_due for _, cadence in probes), default=float("inf"))
        self._quiet_until = min(max(next_due, self._paid), self._toll.next_bare) if probes else float("inf")
        return _UNWATCHED

    @contextmanager
    def looking(self, look: Probe, step: int) -> Iterator[Watched | None]:
        """Observe one step with a probe of the training's own, which counts against no budget; not while steps are repeated."""
        if self.muted:
            yield None
            return
        watched = Watched([look], step)
        try:
            yield watched
        finally:
            frames = watched.close()
        self.publish(frames)
        for probe, error in watched.failed:
            self._give_up(probe, error, step)

    @contextmanager
    def _observing(self, due: Sequence[tuple[Probe, Cadence]], step: int, started: float) -> Iterator[Watched]:
        if self._since is None:
            self._since = started
        began = time.thread_time()
        watched = Watched([probe for probe, _ in due], step)
        try:
            yield watched
        finally:
            frames = watched.close()
        publishing = time.thread_time()
        self.publish(frames)
        now = time.thread_time()
        cost = self._toll.observed(now - began, watched.seconds + now - publishing)
        ended = time.monotonic()
        for _, cadence in due:
            cadence.spent(cost / len(due))
        self._paid = started + cost / max(cadence.budget for _, cadence in self.entries or due)
        self._observed += 1
        self.publish(self._cost_frames(step, ended))
        for probe, error in watched.failed:
            self._give_up(probe, error, step)

    def conclude(self, step: int) -> None:
        """Publish what probes have gathered; the training pauses or ends after `step`."""
        for probe, _ in self.entries:
            if isinstance(probe, Concluding):
                try:
                    frames = probe.conclude()
                except Exception as error:  # noqa: BLE001  as in a step
                    self._give_up(probe, error, step)
                else:
                    self.publish(frames)

    def _give_up(self, probe: Probe, error: Exception, step: int) -> None:
        for key, (other, _) in tuple(self._probes.items()):
            if other is probe:
                self._probes.pop(key, None)
        what = f"{type(probe).__name__} failed and was removed: {type(error).__name__}: {error}"
        self.publish([AnomalyFrame(step=step, kind="probe-failed", message=what)])

    def cost(self, now: float) -> Overhead:
        """Estimate the cost of observing from the first observed step to `now` (seconds, monotonic).

        The pause after the last observation counts in full, as in `Cadence.elapsed`.
        """
        return Overhead(0.0) if self._since is None else self._toll.paired.over(max(now, self._paid) - self._since)

    def _cost_frames(self, step: int, now: float) -> list[Frame]:
        elapsed = now - self._reported
        if elapsed < _COST_EVERY:
            return []
        cost = self.cost(now)
        # The first report has counted nothing yet: it gives the planned rate.
        planned = max((cadence.rate for _, cadence in self.entries), default=0.0)
        rate = self._observed / elapsed if math.isfinite(elapsed) else planned
        self._observed, self._reported = 0, now
        return [CostFrame(step=step, share=cost.share, frames_per_second=rate, margin=cost.margin)]


@final
class _Timing:
    """Times an unobserved step. A class, because a generator's code would have to be fetched into the caches again."""

    def __init__(self, toll: Toll) -> None:
        self._toll = toll
        self._now = self._began = 0.0

    def of(self, now: float) -> _Timing:
        """Return the block for the step that starts at `now`."""
        self._now = now
        return self

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self._toll.bare(time.thread_time() - self._began, self._now)


@final
class Watched:
    """The probes that observe the step under way.

    Attributes:
        seconds: Processor time of the training thread that they took so far.
        failed: Probes that raised, with what they raised; training goes on without them.
    """

    def __init__(self, probes: Sequence[Probe], step: int) -> None:
        self.seconds = 0.0
        self.failed: list[tuple[Probe, Exception]] = []
        self._frames: list[Frame] = []
        self._open = list(probes)
        self._each(lambda probe: probe.open(step))

    def gradients_ready(self) -> None:
        """Let the probes measure gradients: after the last backward of the step, unscaled, before clipping."""
        self._each(lambda probe: probe.gradients_ready())

    def updated(self) -> None:
        """Let the probes measure updates: after the optimizer's step."""
        self._each(lambda probe: probe.updated())

    def close(self) -> list[Frame]:
        """Detach every probe and return what they measured."""
        self.seconds += sum(probe.hooked for probe in self._open if isinstance(probe, Timed))
        self._each(lambda probe: self._frames.extend(probe.close()))
        self._open = []
        return self._frames

    def _each(self, call: Callable[[Probe], None]) -> None:
        began = time.thread_time()
        for probe in tuple(self._open):
            try:
                call(probe)
            except Exception as error:  # noqa: BLE001  whoever watches must not end the training; it is reported
                self.failed.append((probe, error))
                self._open.remove(probe)
                with suppress(Exception):
                    probe.close()
        self.seconds += time.thread_time() - began


Measure: TypeAlias = Callable[[nn.Module], Mapping[str, SupportsFloat]]
Registered = TypeVar("Registered", bound=Measure)

_measures: dict[str, Measure] = {}


def register_probe(title: str) -> Callable[[Registered], Registered]:
    """Return a decorator that adds a measure, which every dashboard that is made from now on measures and draws.

    What is decorated takes the model that trains and returns numbers by name. It is called after the backward pass of an
    observed step, without recording gradients, within the share of the time that a dashboard may take::

        @pn.register_probe("Norm of the weights")
        def weight_norms(model):
            return {name: float(weight.norm()) for name, weight in model.named_parameters()}

    It may read weights and ``.grad``, and must not change them. Random numbers that it draws are put back. A measure that
    raises is told among the findings and left out. Registering a title again replaces it. A training in a
    process of its own is not measured, because the process does not know the function.

    Args:
        title: The heading of its plot.

    Raises:
        ArgumentError: `title` is no text, or what is decorated cannot be called.
    """
    expect(title, str, "title", "the heading of the plot", 'Write @pn.register_probe("Norm of the weights").')
    return registers(lambda measure: _measures.update({title: measure}), "takes the model")


def measuring(model: nn.Module) -> dict[str, MeasureProbe]:
    """Return a probe of `model` for each registered measure, by title."""
    return {title: MeasureProbe(title, measure, model) for title, measure in _measures.items()}


@final
class MeasureProbe:
    """Calls a measure in each observed step, until it fails."""

    def __init__(self, title: str, measure: Measure, model: nn.Module) -> None:
        self._title = title
        self._measure: Measure | None = measure
        self._model = model
        self._step = 0
        self._frame: Frame | None = None

    def open(self, step: int) -> None:
        """Note the step."""
        self._step, self._frame = step, None

    def gradients_ready(self) -> None:
        """Measure."""
        if self._measure is None:
            return
        try:
            with torch.no_grad(), preserved_random_state():
                found: object = self._measure(self._model)
            if not isinstance(found, Mapping):
                raise ArgumentError(f"It returns {shown(found)}, not numbers by name.")
            self._frame = MeasureFrame(
                self._step, self._title, {str(name): float(value) for name, value in found.items()}
            )
        except Exception as error:  # noqa: BLE001  # whatever it raises, the training goes on
            self._measure = None
            said = f"The measure {self._title!r} is left out, because it failed: {type(error).__name__}: {error}"
            self._frame = AnomalyFrame(self._step, "measure-failed", said)

    def updated(self) -> None:
        """Do nothing."""

    def close(self) -> Sequence[Frame]:
        """Return what was measured."""
        return () if self._frame is None else (self._frame,)
