"""Packs the parts of a training for the process that trains, and back: a pickle for a private socket.

Nothing of this is ever written into a file: whoever can write one could run code elsewhere. cloudpickle takes along the
classes and functions that a notebook defines. One pickle holds model, optimizer, loss and functions together, so that
whatever knows the model knows the copy that is trained.
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251  between the kernel and a process that it has started itself, see above
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]  # it has no types
from torch.utils.data import DataLoader

from pnne_nb.catalog.custom import is_custom
from pnne_nb.errors import Diagnostic, ExecutionError, TrainingError
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, StreamSource
from pnne_nb.runtime.distributed.transport.pickled_objects import NamingPickler, NamingUnpickler
from pnne_nb.runtime.faults.error_messages import in_a_sentence, in_brief
from pnne_nb.runtime.setup.recipe import Every, Recipe
from pnne_nb.runtime.training_process.process_messages import Parcel

_PART = 1 << 30
"""Bytes of one part of a parcel."""
_DEEP = 4
"""Attributes of attributes that are looked through for what cannot be pickled."""


class Handover(NamedTuple):
    """The settings of a training process.

    Beside the obvious ones, these are when a checkpoint is due, or None if none are kept, the `switches` of torch, and the
    bytes that the last steps may take, so that they can be taken back.
    """

    seed: int
    threads: int
    deterministic: bool
    save_every: Every | None
    last_epoch: int
    switches: dict[str, Any]
    rewind_memory: int


def packed(value: Any, shared: Mapping[str, Any] | None = None) -> Parcel:
    """Return `value` as a parcel; the other end has the `shared` objects already, by name.

    Raises:
        Exception: Something in it cannot be pickled.
    """
    file = io.BytesIO()
    NamingPickler(file, {id(held): name for name, held in (shared or {}).items()}).dump(value)
    content = file.getbuffer()
    return [bytes(content[start : start + _PART]) for start in range(0, len(content), _PART)]


def unpacked(parcel: Parcel, shared: Mapping[str, Any] | None = None) -> Any:
    """Unpickle a parcel of the other end."""
    content = parcel[0] if len(parcel) == 1 else b"".join(parcel)
    return NamingUnpickler(io.BytesIO(content), (shared or {}).__getitem__).load()


def packed_recipe(recipe: Recipe, shared: Mapping[str, Any] | None = None) -> Parcel:
    """Return a recipe as a parcel; see `packed`.

    Raises:
        TrainingError: It cannot; the message names what, as the engine's arguments do, and says what to do.
    """
    try:
        return packed(recipe, shared)
    except Exception as error:
        raise _immovable(recipe, error) from error


def packed_nodes() -> list[bytes]:
    """Return the node types that were registered in this process; those that cannot be pickled are left out."""
    return [packed_one for spec in registry.values() if (packed_one := _node(spec)) is not None]


def _node(spec: NodeSpec) -> bytes | None:
    if not is_custom(spec):
        return None
    try:
        return bytes(cloudpickle.dumps(spec))
    except Exception:  # noqa: BLE001  whatever a class of the notebook raises; a model that needs it will say so
        return None


def register(nodes: list[bytes]) -> None:
    """Register the node types of the kernel in the process."""
    for node in nodes:
        registry.register(pickle.loads(node), replace=True)  # noqa: S301  from the kernel that has started this process


# What cannot be handed over


def _immovable(recipe: Recipe, error: Exception) -> TrainingError:
    where, error = next(_culprits(recipe), ("Something in the training", error))
    return TrainingError(
        f"{where} cannot be handed to a process of its own: {in_a_sentence(error)} Open files, locks, connections and the "
        "widgets or engines of a notebook belong to one process: make them where they are needed, or train in the kernel "
        "with start()."
    )


def _culprits(recipe: Recipe) -> Iterator[tuple[str, Exception]]:
    """Yield the arguments of the engine that cannot be pickled: the path to the object, and why."""
    schedule = recipe.schedule
    parts = {
        "model": recipe.model,
        "train_data": _given(recipe.train),
        "val_data": _given(recipe.val),
        "loss": recipe.loss,
        "step_function": recipe.step,
        "optimizer": recipe.optimizer,
        "scheduler": None if schedule is None else schedule.scheduler,
        **{f"metrics[{name!r}]": metric for name, metric in recipe.metrics.items()},
        **{f"stateful[{name!r}]": kept for name, kept in recipe.stateful.items()},
    }
    for name, part in parts.items():
        error = _refusal(part)
        if error is not None:
            yield _deepest(name, part, error)


def _given(source: BatchSource | None) -> object:
    """Return the data that the user gave to the engine."""
    match source:
        case DatasetSource(template=loader) | StreamSource(loader=loader):
            return loader.dataset if _refusal(loader.dataset) is not None else loader
        case _:
            return source


def _refusal(value: object) -> Exception | None:
    try:
        packed(value)
    except Exception as error:  # noqa: BLE001  whatever a class of the notebook raises
        return error
    return None


def _deepest(path: str, value: object, error: Exception, depth: int = 0) -> tuple[str, Exception]:
    """Return the innermost attribute that cannot be pickled."""
    for name, held in _held(value) if depth < _DEEP else ():
        found = _refusal(held)
        if found is not None:
            return _deepest(f"{path}{name}", held, found, depth + 1)
    kind = "" if isinstance(value, DataLoader) or depth == 0 else f" (a {type(value).__name__})"
    return f"{path}{kind}", error


def _held(value: object) -> Iterator[tuple[str, object]]:
    """Return the objects to which an object refers, by their expressions in Python."""
    if isinstance(value, type):
        return
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", held) for key, held in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", held) for index, held in enumerate(value))
    elif (code := getattr(value, "__code__", None)) is not None:
        cells = getattr(value, "__closure__", None) or ()
        yield from (
            (f", through {name}", cell.cell_contents) for name, cell in zip(code.co_freevars, cells, strict=False)
        )
        known = getattr(value, "__globals__", {})
        yield from ((f", through {name}", known[name]) for name in code.co_names if name in known)
    else:
        yield from ((f".{name}", held) for name, held in getattr(value, "__dict__", {}).items())


def sources_of(recipe: Recipe) -> dict[str, Any]:
    """Return the data, which both ends keep after the first handover because they are large and constant."""
    return {"train": recipe.train} | ({} if recipe.val is None else {"val": recipe.val})


# Errors


def packed_error(error: BaseException, node: str | None) -> bytes:
    """Return an exception of the process for the kernel, with its traceback as text, and the layer or node where it arose."""
    told = in_brief(error), "".join(traceback.format_exception(error)), node, list(getattr(error, "__notes__", ()))
    try:
        whole = cloudpickle.dumps((error, told))
        # What cannot be made again would be another error in the kernel.
        pickle.loads(whole)  # noqa: S301  what this process has just written
    except Exception:  # noqa: BLE001  whatever an exception of the notebook's raises
        whole = cloudpickle.dumps((None, told))
    return bytes(whole)


def unpacked_error(content: bytes) -> BaseException:
    """Return the exception to raise in the kernel; its cause has the traceback of the process and the node."""
    error, (brief, trace, node, notes) = pickle.loads(content)  # noqa: S301  from a process of this kernel
    found: BaseException = TrainingError(brief) if error is None else error
    known = getattr(found, "__notes__", ())
    for note in notes:
        if note not in known:
            found.add_note(note)
    diagnostics = [] if node is None else [Diagnostic("failed", brief, node)]
    found.__cause__ = ExecutionError(f"In the training process:\n{trace}", diagnostics)
    return found
