"""Defines how measurement meets training: `Probe` says when it is called, `Cadence` how often, `Toll` what it costs.

``runtime`` calls probes and ``inspector`` makes them; neither imports the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Generic, Protocol, TypeVar, final, runtime_checkable

import msgspec

from pnne_nb.telemetry.frames import Frame, Quantity
from pnne_nb.telemetry.overhead import PairedOverhead


class Probe(Protocol):
    """Observes single training steps. All methods run in the training thread, in this order."""

    def open(self, step: int) -> None:
        """Attach what is needed; called before the forward pass of an observed step."""

    def gradients_ready(self) -> None:
        """Measure gradients; called after the last backward of the step, unscaled, before clipping."""

    def updated(self) -> None:
        """Measure updates; called after the optimizer's step."""

    def close(self) -> Sequence[Frame]:
        """Detach everything and return what was measured; called in every case, also after an error."""


@runtime_checkable
class Timed(Protocol):
    """A probe that knows what its hooks take inside a step."""

    @property
    def hooked(self) -> float:
        """Seconds of processor time that its hooks took since `open`."""


@runtime_checkable
class Concluding(Protocol):
    """A probe that has something to say when a training ends."""

    def conclude(self) -> Sequence[Frame]:
        """Return what has not been published yet; called in the training thread, between two steps."""


_Wrapped = TypeVar("_Wrapped", bound=Probe)


class Wrapping(ABC, Generic[_Wrapped]):
    """A probe that observes as another one does, and makes something else of what that has measured.

    Args:
        probe: What measures.
    """

    def __init__(self, probe: _Wrapped) -> None:
        self._probe = probe

    @abstractmethod
    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Take what was measured in one step, and return what to publish."""

    @final
    def open(self, step: int) -> None:
        """Attach what the probe needs."""
        self._probe.open(step)

    @final
    def gradients_ready(self) -> None:
        """Let the probe measure gradients."""
        self._probe.gradients_ready()

    @final
    def updated(self) -> None:
        """Let the probe measure updates."""
        self._probe.updated()

    @final
    @property
    def hooked(self) -> float:
        """What the hooks of the probe took, as far as it knows."""
        probe: object = self._probe
        return probe.hooked if isinstance(probe, Timed) else 0.0

    @final
    def close(self) -> Sequence[Frame]:
        """Detach everything; returns what `take` makes of the frames of the step."""
        return self.take(self._probe.close())


class Watch(msgspec.Struct, frozen=True):
    """What a probe measures, in plain values: another process that trains the same layers can do it in its place.

    Attributes:
        layers: Quantities by layer.
        gradient_norms: Whether to measure the norms of all gradients.
        histograms_of: Layers whose histograms are wanted; None for all.
        statistics_of: The same for statistics.
        bins: Of each histogram.
    """

    layers: dict[str, tuple[Quantity, ...]]
    gradient_norms: bool
    histograms_of: frozenset[str] | None
    statistics_of: frozenset[str] | None
    bins: int


@runtime_checkable
class Portable(Protocol):
    """A probe that can also observe a training in other processes."""

    @property
    def watch(self) -> Watch:
        """What to measure, as of now; asked for from any thread."""

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Take what was measured elsewhere in one step, and return what to publish, as `close` does."""


@final
class Cadence:
    """Decides which steps are observed: at most `hz` a second, at most `budget` of the running time.

    From the beginning of one observation to the next are ``1 / hz`` seconds on average, and at least ``cost / budget``:
    the share of time spent observing stays below `budget` however costly one observation is, and neither slow steps
    nor steps that do not divide the period make frames rarer than asked for.

    Args:
        hz: Observations a second at most; 0 stops observing.
        budget: Share of the running time that observing may take, in (0, 1].
    """

    def __init__(self, hz: float = 10.0, budget: float = 0.02) -> None:
        if not 0 < budget <= 1:
            raise ValueError(f"budget must be a share of the running time in (0, 1], not {budget!r}.")
        self.hz = hz
        self.budget = budget
        self._next = self._began = float("-inf")
        self._cost = 0.0
        self._since: float | None = None

    @property
    def next_due(self) -> float:
        """When an observation is next due, in seconds, monotonic; in the past if it is, and never at 0 observations a second."""
        return self._next if self.hz > 0 else float("inf")

    def due(self, now: float) -> bool:
        """Return whether the step that starts at `now` (seconds, monotonic) should be observed."""
        if self._since is None:
            self._since = now
        if self.hz <= 0 or now < self._next:
            return False
        self._began = now
        return True

    def spent(self, cost: float) -> None:
        """Record that observing the step that was last due took `cost` seconds more than a bare step."""
        self._cost += cost
        period = 1.0 / self.hz if self.hz > 0 else 0.0
        # From when it should have begun, as it may have waited for the step before; not to make up for what is missed.
        planned = self._next if self._began - self._next < period else self._began
        self._next = max(planned + period, self._began + cost / self.budget)

    @property
    def rate(self) -> float:
        """Observations a second, if each of them costs what the last one did; 0 before the first."""
        pause = self._next - self._began
        return 1.0 / pause if 0 < pause < float("inf") else 0.0

    def share(self, now: float) -> float:
        """Return the share of the time since the first step that observing took, 0 to 1.

        By what `spent` was told, which is what the pauses are made of; `PairedOverhead` estimates what it truly was.
        """
        return min(1.0, self._cost / self.elapsed(now)) if self._cost else 0.0

    def elapsed(self, now: float) -> float:
        """Return the seconds since the first step.

        The pause that an observation was paid for with counts as soon as it begins, so that the first one is not
        compared with the few milliseconds before it.
        """
        return 0.0 if self._since is None else max(now, self._next) - self._since


_REMEMBERED = 15
"""Steps of a kind that `Toll` looks at."""

_BARE_EVERY = 0.01
"""Seconds, at least, from one step that is not observed but timed to the next: to look at the clock takes time too."""


@final
class Toll:
    """What observing a step costs, from the times that observed and other steps take.

    All times are seconds of the training thread's own processor time: the clock on the wall would count what other
    programs take, and end the watching on a busy machine. What probes do not know that they cost (calling their hooks,
    the caches that they fill) shows only as a longer step. A single step's length says little, hence the medians: after
    one step that took long for reasons of its own, a mean would make observations rare for as long as it takes to
    forget it. And steps of a tenth of a second differ by more than watching them takes, hence what the median of the
    last fifteen may be off by chance, about two of its standard errors, is taken off; once `paired` has an interval, its
    lower end counts, which comes closer to the truth with every observed step.

    A step that takes no longer than the probes did, and follows the observed one, finds other data in the caches. It
    takes up to a quarter longer, and is a part of the cost.

    Attributes:
        paired: What all observed steps have cost.
    """

    def __init__(self) -> None:
        self.paired = PairedOverhead()
        self._bare: deque[float] = deque(maxlen=_REMEMBERED)
        # Nothing, until a few steps agree on something.
        self._longer: deque[float] = deque([0.0] * 3, maxlen=_REMEMBERED)
        self._warm = False
        self._next = float("-inf")
        self._just_known: float | None = None
        """What the probes took in the step before, if it was observed."""

    @property
    def next_bare(self) -> float:
        """When a step that is not observed should next be timed, in seconds, monotonic."""
        return self._next

    def wants_bare(self, now: float) -> bool:
        """Return whether the step that starts at `now` (seconds, monotonic) should be timed if it is not observed."""
        return now >= self._next

    def bare(self, seconds: float, now: float) -> None:
        """Take in a step that started at `now`, was not observed, and took `seconds`."""
        self._next = now + _BARE_EVERY
        known, self._just_known = self._just_known, None
        if known is not None and seconds <= known:
            self.paired.followed(seconds)
            return
        self._bare.append(seconds)
        self.paired.bare(seconds)

    def observed(self, seconds: float, known: float) -> float:
        """Return a step was observed, and took `seconds`, of which the probes are known to have taken `known`.

        Returns:
            What observing it cost. The first one pays for what is loaded and set up once, says nothing about the
            next, and counts as nothing.
        """
        if not self._warm:
            self._warm = True
            return 0.0
        self.paired.observed(seconds, known)
        # The next step is timed in any case.
        self._next, self._just_known = float("-inf"), known
        if self._bare:
            self._longer.append(seconds - median(self._bare) - known)
        unknown, margin = self.paired.unknown()
        if margin is not None:
            return known + max(0.0, unknown - margin)
        longer = median(self._longer)
        scatter = median(abs(one - longer) for one in self._longer)
        return known + max(0.0, longer - scatter)
