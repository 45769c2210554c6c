"""Probes that observe training steps: their methods (`Probe`), how often they run (`Cadence`) and what they cost (`Toll`).

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
    """A probe that measures the time of its own hooks."""

    @property
    def hooked(self) -> float:
        """Processor time of its hooks since `open`, in seconds."""


@runtime_checkable
class Concluding(Protocol):
    """A probe that reports something when a training ends."""

    def conclude(self) -> Sequence[Frame]:
        """Return what has not been published yet; called in the training thread, between two steps."""


_Wrapped = TypeVar("_Wrapped", bound=Probe)


class Wrapping(ABC, Generic[_Wrapped]):
    """A probe that runs another probe and converts its frames."""

    def __init__(self, probe: _Wrapped) -> None:
        self._probe = probe

    @abstractmethod
    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Convert the frames of one step into the frames to publish."""

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
        """Processor time of the probe's hooks, in seconds; 0 if the probe does not measure it."""
        probe: object = self._probe
        return probe.hooked if isinstance(probe, Timed) else 0.0

    @final
    def close(self) -> Sequence[Frame]:
        """Detach everything and return the converted frames of the step."""
        return self.take(self._probe.close())


class Watch(msgspec.Struct, frozen=True):
    """What a probe measures, in plain values, so that another process that trains the same layers can measure it.

    Attributes:
        layers: Quantities by layer.
        histograms_of: Layers whose histograms are wanted; None for all.
        statistics_of: Layers whose statistics are wanted; None for all.
    """

    layers: dict[str, tuple[Quantity, ...]]
    histograms_of: frozenset[str] | None
    statistics_of: frozenset[str] | None


@runtime_checkable
class Portable(Protocol):
    """A probe that can also observe a training in other processes."""

    @property
    def watch(self) -> Watch:
        """What to measure now; may be read from any thread."""

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Convert the frames that another process measured in one step into the frames to publish."""


@final
class Cadence:
    """Decides which steps are observed: at most `hz` a second, at most `budget` of the running time.

    Observations begin ``1 / hz`` seconds apart on average, and at least ``cost / budget`` seconds apart. A costly
    observation therefore stays within the budget, and slow steps do not make frames rarer than asked for.

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
        """When the next observation is due (seconds, monotonic); infinite at 0 observations a second."""
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
        # The planned start counts, since the observation may have waited for the step before; missed ones are not made up.
        planned = self._next if self._began - self._next < period else self._began
        self._next = max(planned + period, self._began + cost / self.budget)

    @property
    def rate(self) -> float:
        """Observations a second at the cost of the last one; 0 before the first."""
        pause = self._next - self._began
        return 1.0 / pause if 0 < pause < float("inf") else 0.0

    def share(self, now: float) -> float:
        """Return the share of the time since the first step that observing took, 0 to 1.

        This is the sum of the costs given to `spent`; `PairedOverhead` estimates the true share.
        """
        return min(1.0, self._cost / self.elapsed(now)) if self._cost else 0.0

    def elapsed(self, now: float) -> float:
        """Return the seconds since the first step, including the pause after the last observation in full.

        Otherwise the first observation would be compared with the few milliseconds before it.
        """
        return 0.0 if self._since is None else max(now, self._next) - self._since


_REMEMBERED = 15
"""Number of the latest observed and of the latest other steps whose times `Toll` keeps."""

_BARE_EVERY = 0.01
"""Least seconds between two unobserved steps that are timed: reading the clock takes time too."""


@final
class Toll:
    """Estimates what observing a step costs, from the times of observed and of unobserved steps.

    All times are processor time of the training thread, in seconds. Wall time would include other programs, and a busy
    machine would end the observation.

    Probes report the time of their own code. The time of calling their hooks and of refilling the caches shows only as a
    longer step. The estimate of this rest is

    - a median, so that one slow step does not make observations rare for long;
    - reduced by its chance error (about two standard errors of the median), because steps of a tenth of a second vary by
      more than observing them costs;
    - the lower end of the interval of `paired`, as soon as `paired` has one.

    The step after an observed one finds the caches filled with other data and takes up to a quarter longer. If it is no
    longer than the probes' own time, it counts as part of the cost.

    Attributes:
        paired: The cost of all observed steps.
        next_bare: When an unobserved step should next be timed (seconds, monotonic).
    """

    def __init__(self) -> None:
        self.paired = PairedOverhead()
        self.next_bare = float("-inf")
        self._bare: deque[float] = deque(maxlen=_REMEMBERED)
        # Three zeros, so that the median is 0 until a few steps agree.
        self._longer: deque[float] = deque([0.0] * 3, maxlen=_REMEMBERED)
        self._warm = False
        self._just_known: float | None = None
        """The probes' own time in the previous step, if it was observed."""

    def bare(self, seconds: float, now: float) -> None:
        """Record an unobserved step that started at `now` and took `seconds`."""
        self.next_bare = now + _BARE_EVERY
        known, self._just_known = self._just_known, None
        if known is not None and seconds <= known:
            self.paired.followed(seconds)
            return
        self._bare.append(seconds)
        self.paired.bare(seconds)

    def observed(self, seconds: float, known: float) -> float:
        """Record an observed step that took `seconds`, `known` of them in the probes' own code.

        Returns:
            The estimated cost of observing it, in seconds. The first observed step costs 0: it loads and sets up what the
            others use.
        """
        if not self._warm:
            self._warm = True
            return 0.0
        self.paired.observed(seconds, known)
        # The next step is timed in any case.
        self.next_bare, self._just_known = float("-inf"), known
        if self._bare:
            self._longer.append(seconds - median(self._bare) - known)
        unknown, margin = self.paired.unknown()
        if margin is not None:
            return known + max(0.0, unknown - margin)
        longer = median(self._longer)
        scatter = median(abs(one - longer) for one in self._longer)
        return known + max(0.0, longer - scatter)
