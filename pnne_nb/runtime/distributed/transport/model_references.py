"""Pickles objects that refer to a model, such as its optimizer, without the model, and ties them to another copy.

Whatever belongs to the model (a layer, a parameter, a buffer, the model itself) is pickled as its name. So an optimizer
or a scheduler that was made here moves the parameters there, and a function that mentions the model means the one
that is trained. See `pickled_objects` for why pickling is allowed.
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251  of what this process itself has started with, see `pickled_objects`
import warnings
from collections.abc import Mapping
from typing import Any, final

import cloudpickle  # type: ignore[import-untyped]  # it has no types
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pnne_nb.errors import TrainingError

_FRESH = ("step", "state")
"""Attributes of an optimizer that stay here: how a scheduler has wrapped its step, and what the checkpoint holds."""


@final
class Tied:
    """Objects on their way to another copy of `model`.

    Args:
        objects: By name. An optimizer or a scheduler among them is that of the training.
        model: What they may know.

    Attributes:
        packed: As bytes.
        knows_layers: Whether they need the model to be of the same classes there, not only to have the same weights.

    Raises:
        TrainingError: One of them needs an optimizer that the group would not know.
        Exception: One of them cannot be pickled.
    """

    def __init__(self, objects: Mapping[str, Any], model: nn.Module) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file, model, objects.get("optimizer"))
        pickler.dump(dict(objects))
        self.packed = file.getvalue()
        self.knows_layers = pickler.knows_layers


def tie(packed: bytes, model: nn.Module) -> dict[str, Any]:
    """Return the objects of a `Tied`, tied to this `model`, whose layers, parameters and buffers have the same names."""
    objects: dict[str, Any] = _Unpickler(io.BytesIO(packed), model).load()
    if isinstance(objects.get("scheduler"), LRScheduler):
        # It has wrapped the step of the optimizer there in order to see whether this warning is due.
        warnings.filterwarnings("ignore", r"Seems like `optimizer.step\(\)` has been overridden", UserWarning)
    return objects


@final
class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    def __init__(self, file: io.BytesIO, model: nn.Module, optimizer: Any) -> None:
        super().__init__(file)
        self.knows_layers = False
        self._optimizer = optimizer
        # By identity, which holds for as long as the model lives.
        self._names: dict[int, tuple[str, str]] = {}
        for kind, named in (
            ("buffer", model.named_buffers()),
            ("parameter", model.named_parameters()),
            ("submodule", model.named_modules()),
        ):
            self._names |= {id(part): (kind, name) for name, part in named}

    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        """Return the reference for `value`, if it is a part of the model."""
        if isinstance(value, Optimizer) and value is not self._optimizer:
            raise TrainingError(
                f"A {type(value).__name__} that is not the engine's optimizer is used by its arguments: in a group, "
                "each process would make its steps with gradients of its own part of the batch. Give the engine one "
                "optimizer for everything that is trained, and one model that holds all of it."
            )
        if not isinstance(value, nn.Module | Tensor):
            return None
        known = self._names.get(id(value))
        self.knows_layers |= known is not None and known[0] == "submodule"
        return known

    def reducer_override(self, value: Any) -> Any:
        """Pickle an optimizer with all its attributes; its own method keeps three, too few for LBFGS."""
        if isinstance(value, Optimizer):
            kept = {name: held for name, held in vars(value).items() if name not in _FRESH}
            return _blank, (type(value),), {**kept, "state": type(value.state)(dict)}
        return super().reducer_override(value)


def _blank(kind: type[Optimizer]) -> Optimizer:
    return kind.__new__(kind)


@final
class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, model: nn.Module) -> None:
        super().__init__(file)
        self._model = model

    def persistent_load(self, name: tuple[str, str]) -> Any:
        """Return the part of this model with that name."""
        kind, path = name
        return getattr(self._model, f"get_{kind}")(path)
