"""Times two models against each other: interleaved, so that a busy machine slows both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pnne_nb.compiler.passes.reports import Gain
from pnne_nb.compiler.verifying import private_random_state

SECONDS = 0.6
"""How long a comparison takes, about."""

ROUNDS = 15


def forward_gain(before: nn.Module, after: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Gain:
    """Measure a forward pass for inference before and after, in seconds; both are in evaluation mode already."""
    models = (before, after)
    times: list[list[float]] = [[], []]
    with torch.inference_mode(), private_random_state():
        once = [_seconds(model, args, kwargs, 1) for _ in range(2) for model in models][-2:]
        calls = max(1, int(SECONDS / (2 * ROUNDS * max(sum(once) / 2, 1e-7))))
        for number in range(ROUNDS):
            for index in (0, 1) if number % 2 else (1, 0):
                times[index].append(_seconds(models[index], args, kwargs, calls) / calls)
    # The ratio of each pair: what slows one round slows both halves of it.
    ratio = statistics.median(after / before for before, after in zip(*times, strict=True))
    base = statistics.median(times[0])
    return Gain("forward pass", base, base * ratio, "s", measured=True)


def _seconds(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        model(*args, **kwargs)
    return time.perf_counter() - start
