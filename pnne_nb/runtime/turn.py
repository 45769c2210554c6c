"""Trainings of one process make their steps by turns: random generators and torch's switches are there only once."""

from __future__ import annotations

import threading
from typing import Any

turn: Any = threading.RLock()
"""Held by a thread while something of one training stands where everybody else's would be; a thread may nest it.

Whoever has it knows that no other training is in a step: each of those is between two steps, or waits here with nothing
begun. It is entered by ``with`` itself: written in C, it is left in any case, also when an interrupt comes just then.
"""


def has_turn() -> bool:
    """Whether the calling thread has the turn."""
    return bool(turn._is_owned())
