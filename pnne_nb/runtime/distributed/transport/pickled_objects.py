"""Pickles objects of a notebook's own classes for processes of the same machine.

Files of a run hold no code, because anyone who can write a file could then run code elsewhere. Code travels through the
socket that only this user's processes reach, pickled as `multiprocessing` pickles what it hands over, and is gone when
the group is. cloudpickle takes along classes and functions that a notebook defines.
"""

from __future__ import annotations

import pickle  # noqa: TID251  of what this process itself has started with, see above
from collections.abc import Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import msgspec
from torch import nn
from torch.utils.data import Dataset

from pnne_nb.errors import TrainingError
from pnne_nb.process.byte_units import format_bytes
from pnne_nb.runtime.distributed.transport.model_references import Tied

_LARGEST = 1 << 31
"""Bytes."""


class Loading(msgspec.Struct, frozen=True):
    """A dataset, and how it is batched.

    Attributes:
        options: Further arguments of the ``DataLoader``.
    """

    dataset: Dataset[Any]
    options: Mapping[str, Any]


class Luggage(msgspec.Struct, frozen=True):
    """Objects that are pickled for the processes.

    Attributes:
        model: Where no graph stands for it, else None.
        train: Where it is no arrays, else None.
        val: Likewise.
        variables: Of a drawn training's Dataset nodes, by name, where they are no arrays.
        arguments: Of the engine, to be tied to the model; see `model_references`.
    """

    model: nn.Module | None = None
    train: Loading | None = None
    val: Loading | None = None
    variables: Mapping[str, Any] = {}
    arguments: bytes | None = None

    def packed(self) -> bytes:
        """Return a value as bytes for the private socket.

        Raises:
            TrainingError: Something cannot be pickled, or is too large.
        """
        try:
            packed: bytes = cloudpickle.dumps(self)
        except Exception as error:
            raise _immovable(self._culprit(), error) from error
        if len(packed) > _LARGEST:
            raise TrainingError(
                f"Data and model objects take {format_bytes(len(packed))}, too much to be handed over: let the dataset read "
                "its examples from files when they are asked for."
            )
        return packed

    def _culprit(self) -> str:
        """Return the engine's name of the object that cannot be pickled."""
        parts = {called: getattr(self, name) for name, called in _CALLED.items()}
        for called, part in {
            **parts,
            **{f"The variable {name!r}": one for name, one in self.variables.items()},
        }.items():
            try:
                cloudpickle.dumps(part)
            except Exception:  # noqa: BLE001  whatever a class of the notebook raises
                return called
        return "Something"


_CALLED = {"model": "The model", "train": "train_data", "val": "val_data"}


def _immovable(what: str, error: Exception) -> TrainingError:
    return TrainingError(
        f"{what} cannot be handed to the processes of a group: {type(error).__name__}: {error} Open files, locks and "
        "connections belong to one process: open them when they are needed."
    )


def packed_arguments(objects: Mapping[str, Any], model: nn.Module) -> Tied:
    """Return arguments of the engine by name, apart from its model, which they may know.

    Raises:
        TrainingError: One of them cannot be pickled, or needs an optimizer that the group would not know.
    """
    try:
        return Tied(objects, model)
    except TrainingError:
        raise
    except Exception as error:
        raise _immovable(_culprit(objects, model), error) from error


def _culprit(objects: Mapping[str, Any], model: nn.Module) -> str:
    """Name the argument that cannot be pickled."""
    for name, value in objects.items():
        try:
            # A scheduler comes with its optimizer.
            Tied({"optimizer": objects.get("optimizer"), name: value}, model)
        except Exception:  # noqa: BLE001  whatever a class of the notebook raises
            return name
    return "An argument of the engine"


def unpacked(packed: bytes) -> Luggage:
    """Unpickle the objects that the engine handed over through its private socket."""
    luggage: Luggage = pickle.loads(packed)  # noqa: S301  it comes from the process that has started this one
    return luggage
