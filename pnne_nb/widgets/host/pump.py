"""Runs the one thread that draws: from the training's channel to the plot widgets, at the browser's pace."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, final
from weakref import ReferenceType, ref

from pnne_nb.process.fork import fork_safe
from pnne_nb.telemetry.frames import Frame
from pnne_nb.widgets.host.frame_pacer import Pacer

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
"""How often the pump looks: for frames while the browser is not ready, for being closed while there are none."""


class FrameSource(Protocol):
    """Where frames come from: the part of `pnne_nb.telemetry.channel.Channel` that the pump uses."""

    def drain(self) -> list[Frame]:
        """Take every waiting frame."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a frame is there; whether one is."""


class Screen(Protocol):
    """What the pump draws on. The methods run in the pump's thread, and nothing else may touch the widgets."""

    def take(self, frames: Sequence[Frame]) -> bool:
        """Remember `frames`; returns whether no training runs, so that nothing more will come by itself."""

    def stale(self) -> bool:
        """Return whether something that no frame tells has changed, and is worth a drawing."""

    def draw(self, tick: int, *, watched: bool) -> None:
        """Send what has changed to the browser as frame number `tick`."""


@final
class Pump:
    """Carries frames from a channel to a screen in a thread of its own, which lives only while training does.

    The screen is held weakly: a dashboard that is dropped ends its pump. While training runs and the browser
    acknowledges, the latest frames are drawn about ten times a second; whatever came in between is taken into
    the curves, not drawn. The last frame is always drawn, acknowledged or not.

    Args:
        source: The channel. Only the pump may take frames from it.
        screen: What to draw on.
        pacer: When to draw.
        clock: Monotonic seconds.
        processor: Seconds of processor time of the thread that asks.
    """

    def __init__(
        self,
        source: FrameSource,
        screen: Screen,
        pacer: Pacer | None = None,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._source = source
        self._screen: ReferenceType[Screen] = ref(screen, lambda _: self.close())
        self._pacer = pacer or Pacer()
        self._clock = clock
        self._processor = processor
        self._condition = fork_safe(threading.Condition(threading.RLock()))
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = False

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        with self._condition:
            return self._thread is not None

    def start(self) -> None:
        """Run until the training ends, or once if none runs; does nothing while the pump runs, and nothing once closed.

        The frame that tells of a new training, or what else is to be drawn, must be in the channel before. If a pump
        that was just ending has taken it already, nothing is left to do.
        """
        with self._condition:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="pnne-pump", daemon=True)
                self._thread.start()

    def acknowledge(self, tick: int) -> None:
        """Note that a browser has painted frame `tick`. May be called from any thread."""
        with self._condition:
            self._pacer.acknowledge(tick, self._clock())
            self._condition.notify_all()

    def close(self) -> None:
        """End the thread after the drawing at hand; may be called from any thread, also from the pump's own."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended; whether it has."""
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, timeout)

    def _run(self) -> None:
        try:
            while self._has_more():
                self._pump_until_ended()
        except Exception:
            # A thread has nobody to raise to, and the training must go on without its pictures.
            logger.exception("The dashboard stopped drawing.")
            self._leave()

    def _has_more(self) -> bool:
        """Return whether training runs or frames are there; if not, the next `start` makes a new thread."""
        with self._condition:
            more = not self._closed and (not self._ended or self._source.wait(0.0))
            if not more:
                self._leave()
            return more

    def _leave(self) -> None:
        with self._condition:
            self._thread = None
            self._condition.notify_all()

    def _pump_until_ended(self) -> None:
        self._ended = False
        while not (self._ended or self._is_closed()):
            if not self._source.wait(POLL_SECONDS) and not self._stale():
                continue
            self._ended = self._take()
            while not (self._ended or self._is_closed()) and self._pause():
                self._ended = self._take()
            if not self._is_closed():
                self._draw()

    def _is_closed(self) -> bool:
        with self._condition:
            return self._closed

    def _pause(self) -> bool:
        """Wait a little for the browser; whether it is still too early to draw."""
        with self._condition:
            delay = self._pacer.delay(self._clock())
            if delay > 0 and not self._closed:
                self._condition.wait(min(delay, POLL_SECONDS))
            return self._pacer.delay(self._clock()) > 0

    def _stale(self) -> bool:
        screen = self._screen()
        return screen is not None and screen.stale()

    def _take(self) -> bool:
        frames = self._source.drain()
        screen = self._screen()
        return screen is not None and bool(frames) and screen.take(frames)

    def _draw(self) -> None:
        screen = self._screen()
        if screen is None:
            return
        with self._condition:
            watched = self._pacer.watched(self._clock())
            tick = self._pacer.send(self._clock())
        began = self._processor()
        screen.draw(tick, watched=watched)
        cost = self._processor() - began
        with self._condition:
            # Not what taking in frames took, which is as much however seldom they are drawn: at two thousand steps a
            # second, all of the budget.
            self._pacer.spent(cost)
