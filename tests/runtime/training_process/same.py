"""What it means that two trainings did the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pnne_nb.runtime.engine import TrainingEngine

_OF_THE_MACHINE = ("memory", "process_memory")


def assert_same(one: TrainingEngine, other: TrainingEngine) -> None:
    """Insist that two trainings did the same: every number of the history, and everything that a checkpoint keeps."""
    names = [name for name in one.history if name not in _OF_THE_MACHINE]
    assert names == [name for name in other.history if name not in _OF_THE_MACHINE]
    for name in names:
        np.testing.assert_array_equal(one.history[name], other.history[name], err_msg=name)
    mine, others = (dict(engine._loop.state_dict(), seconds=None) for engine in (one, other))
    assert_equal(mine, others)


def assert_equal(one: Any, other: Any, at: str = "state") -> None:
    """Insist that two nested states hold the same, bit for bit."""
    if isinstance(one, Tensor):
        assert torch.equal(one, other), at
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), at
        for name, value in one.items():
            assert_equal(value, other[name], f"{at}[{name!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), at
        for index, pair in enumerate(zip(one, other, strict=True)):
            assert_equal(*pair, f"{at}[{index}]")
    else:
        np.testing.assert_equal(other, one, err_msg=at)
