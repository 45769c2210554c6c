"""`DataCalls`: a training's calls into its data, which may never return."""

from __future__ import annotations

import threading
from typing import final

from pnne_nb.process.fork import fork_safe


@final
class DataCalls:
    """A block around each call into the data; another thread can leave the caller there for good."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._inside = False

    def __enter__(self) -> None:
        self._inside = True

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside = False

    def leave(self) -> bool:
        """Keep the caller from ever coming back, if it is in such a block; return whether it is.

        Everything else is then as before that call, and the process can end.
        """
        self._lock.acquire()
        if not self._inside:
            self._lock.release()
        return self._inside
