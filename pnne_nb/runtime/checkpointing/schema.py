"""The contents of a checkpoint, and of its earlier formats, which no other module knows.

A new part of a training's state, or a change of one, needs a higher `FORMAT` and a step in `_STEPS` that brings the
previous format up to date. Arguments of an engine are no parts: one that a file lacks has its default, which must mean
what the engine did before it had that argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import torch
from msgspec import Meta
from torch import Tensor

from pnne_nb.runtime.monitoring.resources import Stage
from pnne_nb.runtime.setup.config import Config
from pnne_nb.telemetry.frames import AnomalyFrame

FORMAT: Final = 2
"""1 grew while it was the only one: some files that say it lack what the later ones have."""

_Count: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Positive: TypeAlias = Annotated[int, Meta(ge=1, lt=1 << 62)]

_Point: TypeAlias = tuple[_Count, float]


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Randomness(_Part):
    torch: Annotated[list[Tensor], Meta(min_length=1)]
    python: tuple[int, list[int], float | None]
    numpy: tuple[str, Tensor, int, int, float]


class _Standing(_Part):
    weights: dict[str, Any] | None
    best: float
    best_epoch: _Count
    best_step: Annotated[int, Meta(ge=-1)]
    judged_epoch: _Count
    epochs_since_best: _Count


class _Place(_Part):
    steps: _Count
    epoch: _Positive
    position: _Count
    _loss_sum: float
    _examples: _Count
    _compared: bool
    _judged_at: _Count


class _Loop(_Part):
    model: dict[str, Any]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any] | None
    scaler: dict[str, Any] | None
    stateful: dict[str, Any]
    metrics: dict[str, Any]
    randomness: _Randomness
    epoch_randomness: _Randomness
    pieces: _Positive
    seconds: dict[Stage, float]
    logged: dict[str, tuple[float, _Count]]
    standing: _Standing
    place: _Place


class _Series(_Part):
    steps: Tensor
    values: Tensor
    stretch: _Positive
    seen: _Count
    pending: tuple[_Point | None, _Point | None, _Point | None]

    def __post_init__(self) -> None:
        if self.steps.dim() != 1 or self.steps.shape != self.values.shape:
            raise ValueError("there are not as many values as steps")
        if (self.steps.dtype, self.values.dtype) != (torch.int64, torch.float64):
            raise ValueError("steps are no int64, or values no float64")


class _History(_Part):
    series: dict[str, _Series]
    epochs: dict[str, list[float]]
    epoch_numbers: list[_Count]
    epoch_steps: list[_Count]
    anomalies: str
    total_steps: _Count
    skipped_steps: _Count
    seconds: float

    def __post_init__(self) -> None:
        columns: list[list[Any]] = [self.epoch_steps, *self.epochs.values()]
        if not {"loss", "learning_rate"} <= self.series.keys():
            raise ValueError("the series of the loss or of the learning rate is missing")
        msgspec.json.decode(self.anomalies, type=list[AnomalyFrame])
        if any(len(column) != len(self.epoch_numbers) for column in columns):
            raise ValueError("not every metric has as many values as there are epochs")


class _State(_Part):
    loop: _Loop
    history: _History
    config: dict[str, Any]
    kinds: dict[str, str | None]
    missing: list[str]
    graph: str | None
    drawing: str | None
    last_epoch: _Count
    threads: _Positive
    batches: _Count | None

    def __post_init__(self) -> None:
        known: tuple[str, ...] = Config.__struct_fields__
        optional: tuple[Any, ...] = Config.__struct_defaults__
        needed = {*known[: len(known) - len(optional)]}
        given = {*self.config, *self.missing}
        if needed - given:
            raise ValueError(f"of the engine's arguments there is no {', '.join(sorted(needed - given))}")
        if not given <= {*known}:
            raise ValueError(f"the engine has no argument {', '.join(sorted(given - {*known}))}")


_STANDING: Final = {"best": math.inf, "best_epoch": 0, "judged_epoch": 0, "epochs_since_best": 0}
_ADDED_TO_LOOP: Final[tuple[tuple[str, Any, str], ...]] = (
    ("pieces", 1, "how small the pieces of a batch must be to fit into memory"),
    ("seconds", {}, "where the time went"),
    ("logged", {}, "the means of what a step function has told in this epoch"),
    ("stateful", {}, "the state of stateful objects and of the loss"),
)
_ADDED: Final[dict[str, Any]] = {"kinds": {}, "missing": [], "drawing": None, "batches": None}


def _from_1(state: dict[str, Any]) -> list[str]:
    loop, history = state["loop"], state["history"]
    place, afresh = loop["place"], []
    for part, value, words in _ADDED_TO_LOOP:
        if part not in loop:
            loop[part] = value
            afresh.append(words)
    # It was in the place at first, without the weights.
    kept = {name: place.pop(f"_{name}") for name in _STANDING if f"_{name}" in place}
    if "standing" not in loop:
        loop["standing"] = {"weights": None, "best_step": -1, **_STANDING, **kept}
        if not kept:
            afresh.append("what was best, for early stopping and best.ckpt")
    place.pop("seconds", None)
    loop["place"] = {"_compared": False, "_judged_at": 0, **place}
    state["history"] = {"skipped_steps": 0, **history}
    state.pop("torch", None)
    for part, value in _ADDED.items():
        state.setdefault(part, value)
    return afresh


_STEPS: Final[tuple[Callable[[dict[str, Any]], list[str]], ...]] = (_from_1,)
"""Each makes of a state in one format, in place, one in the next; returns what begins afresh, in words."""


def up_to_date(state: dict[str, Any], written_in: int) -> tuple[dict[str, Any], list[str]]:
    """Return the state of a training in the current format, and in words what begins afresh because the file lacks it.

    Args:
        state: As a file has it; it is used up.
        written_in: The format of the file, at most `FORMAT`.

    Raises:
        ValueError: A part is missing, or something else than it should be; the message says which.
    """
    if written_in < 1:
        raise ValueError("there never was such a format")
    afresh: list[str] = []
    try:
        for step in _STEPS[written_in - 1 :]:
            afresh += step(state)
        # Says what is wrong, and where; what it makes of the state is not needed.
        msgspec.convert(state, _State)
    except ValueError:
        raise
    except Exception as error:  # what stands where a mapping should be may raise anything
        raise ValueError(f"a part is missing, or is something else: {type(error).__name__}: {error}") from error
    return state, afresh
