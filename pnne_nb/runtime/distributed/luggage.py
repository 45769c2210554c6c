"""What only this process knows: objects of a notebook's own classes, for the processes of the same machine.

Files of a run hold no code, because whoever can write one could run it elsewhere. What is code travels through the
socket that only this user's processes reach, pickled as `multiprocessing` pickles what it hands over, and is gone when
the group is. cloudpickle takes along classes and functions that a notebook defines.
"""

from __future__ import annotations

import pickle  # noqa: TID251  of what this process itself has started with, see above
from collections.abc import Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import msgspec
import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import Dataset

from pnne_nb.errors import TrainingError

_LARGEST = 1 << 31
"""Bytes."""


class Loading(msgspec.Struct, frozen=True):
    """A dataset, and how batches are made of it.

    Attributes:
        options: Further arguments of the ``DataLoader``.
    """

    dataset: Dataset[Any]
    options: Mapping[str, Any]


class Luggage(msgspec.Struct, frozen=True):
    """Objects, as they are.

    Attributes:
        model: Where it cannot be drawn as a graph, else None.
        train: Where it is no arrays, else None.
        val: Likewise.
        arguments: Of the engine, by name.
    """

    model: nn.Module | None = None
    train: Loading | None = None
    val: Loading | None = None
    arguments: Mapping[str, Any] = {}

    def packed(self) -> bytes:
        """As bytes for the private socket.

        Raises:
            TrainingError: Something cannot be pickled, or is too large.
        """
        try:
            packed: bytes = cloudpickle.dumps(self)
        except Exception as error:
            raise TrainingError(
                f"{self._culprit()} cannot be handed to the processes of a group: {type(error).__name__}: {error} Open "
                "files, locks and connections belong to one process: open them when they are needed."
            ) from error
        if len(packed) > _LARGEST:
            raise TrainingError(
                f"Data and model objects take {len(packed) >> 20} MiB, too much to be handed over: let the dataset read "
                "its examples from files when they are asked for."
            )
        return packed

    def _culprit(self) -> str:
        """What cannot be pickled, as the engine calls it."""
        for name, called in _CALLED.items():
            try:
                cloudpickle.dumps(getattr(self, name))
            except Exception:  # noqa: BLE001  whatever a class of the notebook raises
                return called
        return "Something"


_CALLED = {"model": "The model", "train": "train_data", "val": "val_data", "arguments": "An argument of the engine"}


def unpacked(packed: bytes) -> Luggage:
    """What the engine that has started this process hands over through its private socket."""
    luggage: Luggage = pickle.loads(packed)  # noqa: S301  it comes from the process that has started this one
    return luggage


def require_movable(arguments: Mapping[str, Any]) -> None:
    """Refuse objects that mean something in this process only.

    Raises:
        TrainingError: There are some; the message says what to give instead.
    """
    for name, value in arguments.items():
        if name == "step_function":
            raise TrainingError(
                "step_function decides itself what is computed, and its gradients would not be averaged over the "
                "processes: give model and loss instead, or train in one process."
            )
        if isinstance(value, torch.optim.Optimizer | LRScheduler):
            raise TrainingError(
                f"{name} is a {type(value).__name__} of this process's parameters: give its name and arguments, such "
                f"as ({type(value).__name__!r}, {{...}}), or a function that makes it."
            )
