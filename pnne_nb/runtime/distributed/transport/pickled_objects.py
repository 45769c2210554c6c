"""Pickles objects of a notebook's own classes for processes of the same machine, and ties them to another copy of the model.

Files of a run hold no code, because anyone who can write a file could then run code elsewhere. Code travels through the
socket that only this user's processes reach, pickled as `multiprocessing` pickles what it hands over, and is gone when
the group is. cloudpickle takes along classes and functions that a notebook defines.

The engine's arguments are pickled without the model: whatever belongs to it (a layer, a parameter, a buffer, the model
itself) is pickled as its name. So an optimizer or a scheduler that was made here moves the parameters there, and a
function that mentions the model means the one that is trained.
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251  of what this process itself has started with, see above
import warnings
from collections.abc import Callable, Mapping
from typing import Any, final

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import msgspec
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import Dataset

from pnne_nb.errors import TrainingError
from pnne_nb.process.byte_units import format_bytes
from pnne_nb.runtime.faults.error_messages import in_a_sentence

_LARGEST = 1 << 31
"""Bytes."""


class Loading(msgspec.Struct, frozen=True):
    """A dataset, and how it is batched: further arguments of the ``DataLoader``."""

    dataset: Dataset[Any]
    options: Mapping[str, Any]


class Luggage(msgspec.Struct, frozen=True):
    """Objects that are pickled for the processes.

    Attributes:
        model: Where no graph stands for it, else None.
        train: Where it is no arrays, else None.
        val: Likewise.
        variables: Of a drawn training's Dataset nodes, by name, where they are no arrays.
        arguments: Of the engine, to be tied to the model; see `Tied`.
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
        f"{what} cannot be handed to the processes of a group: {in_a_sentence(error)} Open files, locks and connections "
        "belong to one process: open them when they are needed."
    )


def unpacked(packed: bytes) -> Luggage:
    """Unpickle the objects that the engine handed over through its private socket."""
    luggage: Luggage = pickle.loads(packed)  # noqa: S301  it comes from the process that has started this one
    return luggage


@final
class Tied:
    """The `objects`, by name, pickled without `model`; an optimizer or a scheduler among them is that of the training.

    Attributes:
        packed: As bytes.
        knows_layers: Whether they need the model to be of the same classes there, not only to have the same weights.

    Raises:
        TrainingError: One of them needs an optimizer that the group would not know.
        Exception: One of them cannot be pickled.
    """

    def __init__(self, objects: Mapping[str, Any], model: nn.Module) -> None:
        file = io.BytesIO()
        pickler = _TyingPickler(file, model, objects.get("optimizer"))
        pickler.dump(dict(objects))
        self.packed = file.getvalue()
        self.knows_layers = pickler.knows_layers


def tie(packed: bytes, model: nn.Module) -> dict[str, Any]:
    """Return the objects of a `Tied`, tied to this `model`, whose layers, parameters and buffers have the same names."""
    objects: dict[str, Any] = NamingUnpickler(
        io.BytesIO(packed), lambda name: getattr(model, f"get_{name[0]}")(name[1])
    ).load()
    if isinstance(objects.get("scheduler"), LRScheduler):
        # It has wrapped the step of the optimizer there in order to see whether this warning is due.
        warnings.filterwarnings("ignore", r"Seems like `optimizer.step\(\)` has been overridden", UserWarning)
    return objects


class NamingPickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles what the other end has as its name, and an optimizer with all attributes: its own method keeps three.

    Args:
        file: Takes the pickle.
        names: Of what the other end has, by identity, which holds for as long as the objects live.
        keeps_state: Whether an optimizer takes its state along.
    """

    def __init__(self, file: io.BytesIO, names: Mapping[int, Any], *, keeps_state: bool = True) -> None:
        super().__init__(file)
        self._names = names
        self._keeps_state = keeps_state

    def persistent_id(self, value: Any) -> Any:
        """Return the name of `value`, if the other end has it."""
        return self._names.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        """Pickle an optimizer without its step, which a scheduler has wrapped to see whether a warning is due."""
        if isinstance(value, Optimizer):
            kept = {name: held for name, held in vars(value).items() if name != "step"}
            return _blank, (type(value),), kept if self._keeps_state else {**kept, "state": type(value.state)(dict)}
        return super().reducer_override(value)


@final
class NamingUnpickler(pickle.Unpickler):
    """Unpickles what a `NamingPickler` wrote; `find` returns this end's object of a name."""

    def __init__(self, file: io.BytesIO, find: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._find = find

    def persistent_load(self, name: Any) -> Any:
        """Return this end's object of that name."""
        return self._find(name)


def _blank(kind: type[Optimizer]) -> Optimizer:
    """Return an optimizer without attributes, which a pickle brings."""
    return kind.__new__(kind)


@final
class _TyingPickler(NamingPickler):
    def __init__(self, file: io.BytesIO, model: nn.Module, optimizer: Any) -> None:
        self.knows_layers = False
        self._optimizer = optimizer
        kinds = (
            ("buffer", model.named_buffers()),
            ("parameter", model.named_parameters()),
            ("submodule", model.named_modules()),
        )
        names = {id(part): (kind, name) for kind, named in kinds for name, part in named}
        # The checkpoint holds the state of optimizers.
        super().__init__(file, names, keeps_state=False)

    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        """Return the reference for `value`, if it is a part of the model."""
        if isinstance(value, Optimizer) and value is not self._optimizer:
            raise TrainingError(
                f"A {type(value).__name__} that is not the engine's optimizer is used by its arguments: in a group, "
                "each process would make its steps with gradients of its own part of the batch. Give the engine one "
                "optimizer for everything that is trained, and one model that holds all of it."
            )
        known: tuple[str, str] | None = super().persistent_id(value)
        self.knows_layers |= known is not None and known[0] == "submodule"
        return known


def packed_arguments(objects: Mapping[str, Any], model: nn.Module) -> Tied:
    """Return the engine's arguments, pickled apart from the model, which they may know.

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
    for name, value in objects.items():
        try:
            # A scheduler comes with its optimizer.
            Tied({"optimizer": objects.get("optimizer"), name: value}, model)
        except Exception:  # noqa: BLE001  whatever a class of the notebook raises
            return name
    return "An argument of the engine"
