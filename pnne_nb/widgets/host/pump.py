"""`Pump`: the thread that draws the training's frames in the plot widgets, at the browser's pace."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol, final
from weakref import ReferenceType, ref

import ipywidgets

from pnne_nb.process.fork import fork_safe
from pnne_nb.protocol.control_messages import PictureMessage, Update
from pnne_nb.telemetry.frames import Frame

IN_FLIGHT: Final = 4
"""Most frames without an acknowledgement; the browser acknowledges every such number of frames."""


@final
class Pacer:
    """Allows at most `IN_FLIGHT` unacknowledged frames and at most `hz` a second, and few without acknowledgements.

    A kernel has no back-pressure: frames that are sent faster than a browser paints delay every other message. The browser
    acknowledges every fourth frame, because an acknowledgement costs the kernel half as much as a drawing; a slow page is
    at most four frames behind. Without acknowledgements (no view, a hidden tab, no browser), one frame per `keep_alive`
    seconds keeps the widgets current for a page that opens later. Times are in seconds, monotonic.

    Args:
        hz: Most frames a second.
        keep_alive: Seconds between frames without acknowledgements.
        budget: Share of one core's time for drawing, in (0, 1]. Beside a training, a drawing takes 1 to 2 ms, because the
            training fills the caches, and it mostly holds Python's lock, for which the training waits.
    """

    def __init__(self, hz: float = 10.0, keep_alive: float = 1.0, budget: float = 0.012) -> None:
        self.hz = hz
        self.keep_alive = keep_alive
        self.budget = budget
        self.tick = 0
        self._acknowledged = 0
        self._sent = float("-inf")
        self._pause = 0.0
        self._watched_until = float("-inf")

    def send(self, now: float) -> int:
        """Record that a frame is sent at `now`; return its number."""
        self.tick += 1
        self._sent = now
        self._pause = 1 / self.hz
        return self.tick

    def spent(self, cost: float) -> None:
        """Record that drawing the latest frame took `cost` seconds of processor time."""
        self._pause = max(1 / self.hz, cost / self.budget)

    def acknowledge(self, tick: int, now: float) -> None:
        """Record that a browser has painted frame `tick`; unknown numbers are ignored."""
        if self._acknowledged < tick <= self.tick:
            self._acknowledged = tick
        if tick <= self.tick:
            self._watched_until = now + 3 * self.keep_alive

    def delay(self, now: float) -> float:
        """Return the seconds until the next frame may be sent."""
        in_flight = self.tick - self._acknowledged
        pause = self._pause if in_flight < IN_FLIGHT else max(self._pause, self.keep_alive)
        return max(0.0, self._sent + pause - now)

    def watched(self, now: float) -> bool:
        """Return whether a browser has acknowledged a frame lately."""
        return now < self._watched_until


logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
"""Longest wait of the pump for the browser or for frames."""


class FrameSource(Protocol):
    """Where frames come from: the part of `pnne_nb.telemetry.channel.Channel` that the pump uses."""

    def drain(self) -> list[Frame]:
        """Take every waiting frame."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a frame; return whether there is one."""


class Screen(Protocol):
    """The widgets that the pump draws. The methods run in the pump's thread, and no other thread may use the widgets."""

    def take(self, frames: Sequence[Frame]) -> bool:
        """Take `frames` in; returns whether no training runs, so that no more frames will come."""

    def stale(self) -> bool:
        """Return whether something that no frame reports must be drawn."""

    def draw(self, tick: int, *, watched: bool) -> None:
        """Send the changes to the browser as frame number `tick`."""


@final
class Pump:
    """Carries frames from a channel to a screen in a thread that lives only while a training runs.

    It holds the screen weakly, so that a deleted dashboard ends its pump. While a training runs and the browser
    acknowledges, it draws about ten times a second; the curves include all frames. The last frame is always drawn.

    Args:
        source: The channel. Only the pump may take frames from it.
        screen: The screen to draw.
        pacer: Decides when to draw.
        clock: Returns monotonic seconds.
        processor: Returns the processor time of the calling thread, in seconds.
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
        self._condition = fork_safe(threading.Condition())
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = False

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        with self._condition:
            return self._thread is not None

    def start(self) -> None:
        """Run until the training ends, or draw once if none runs; does nothing if the pump runs or is closed.

        The frames to draw must be in the channel before the call; a pump that was just ending may have drawn them.
        """
        with self._condition:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="pnne-pump", daemon=True)
                self._thread.start()

    def acknowledge(self, tick: int) -> None:
        """Record that a browser has painted frame `tick`. May be called from any thread."""
        with self._condition:
            self._pacer.acknowledge(tick, self._clock())
            self._condition.notify_all()

    def close(self) -> None:
        """End the thread after the current drawing; may be called from any thread, also from the pump's own."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def release(self, *removals: Callable[[], None]) -> None:
        """Close the pump, then call each of `removals`."""
        self.close()
        for remove in removals:
            remove()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, timeout)

    def _run(self) -> None:
        try:
            while self._has_more():
                self._pump_until_ended()
        except Exception:
            # Nobody catches a thread's error, and the training must continue without plots.
            logger.exception("The dashboard stopped drawing.")
            self._leave()

    def _has_more(self) -> bool:
        """Return whether a training runs or frames wait; if not, the next `start` makes a new thread."""
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
        while not (self._ended or self._closed):
            if not self._source.wait(POLL_SECONDS) and not self._stale():
                continue
            self._ended = self._take()
            while not (self._ended or self._closed) and self._pause():
                self._ended = self._take()
            if not self._closed:
                self._draw()

    def _pause(self) -> bool:
        """Wait a little for the browser; return whether it is still too early to draw."""
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
            # Without the time for taking frames in, which does not depend on the number of drawings and would use up the
            # budget at two thousand steps a second.
            self._pacer.spent(cost)


_METHOD: Final = "update"


@final
class Picture:
    """Sends the updates of many widgets as one message of one of them; js/src/controls/picture.ts unpacks it.

    Separate messages, eight for one drawing of a dashboard, cost the kernel a third of a millisecond each, mostly with
    Python's lock held. One message costs a third of that, and the browser shows all updates at once.

    Only updates from the drawing thread are gathered. The widgets keep their full state for a page that opens later.

    Args:
        carrier: The widget that sends; its view in the browser must exist.
    """

    def __init__(self, carrier: ipywidgets.Widget) -> None:
        self._carrier = carrier
        self._included: set[str] = set()
        self._painter: int | None = None
        self._updates: list[Update] = []
        self._buffers: list[Any] = []

    def include(self, widgets: Iterable[ipywidgets.Widget]) -> None:
        """Include the updates of `widgets`; a second call changes nothing."""
        for widget in widgets:
            comm = widget.comm
            if comm is not None and comm.comm_id not in self._included:
                self._included.add(comm.comm_id)
                comm.send = partial(self._send, comm.comm_id, comm.send)

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Gather the updates of the calling thread, and send them at the end, also after an error."""
        self._painter = threading.get_ident()
        try:
            yield
        finally:
            self._painter = None
            updates, buffers, self._updates, self._buffers = self._updates, self._buffers, [], []
            if updates:
                self._carrier.send(PictureMessage(kind="picture", updates=updates), buffers)

    def _send(
        self,
        model: str,
        send: Callable[..., None],
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: list[Any] | None = None,
    ) -> None:
        if self._painter != threading.get_ident() or data is None or data.get("method") != _METHOD:
            send(data, metadata, buffers)
            return
        self._updates.append(Update(model=model, state=data["state"], paths=data["buffer_paths"]))
        self._buffers += buffers or ()
