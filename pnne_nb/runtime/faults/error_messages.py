"""Rewrites torch's errors about data that do not fit a model or a loss, with the layer and both shapes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.compiler import blame
from pnne_nb.errors import Diagnostic, PnneError, TargetError, TrainingError
from pnne_nb.runtime.data.batches import Batch, said
from pnne_nb.runtime.faults.fault_location import node_of
from pnne_nb.runtime.faults.oom_recovery import is_out_of_memory
from pnne_nb.runtime.objective.losses import scores_for_loss

_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss, nn.MultiMarginLoss)
"""Losses whose targets are numbers of classes."""
_BINARY = (nn.BCELoss, nn.BCEWithLogitsLoss)
"""Losses whose targets are yes and no."""
_TORCH_S = frozenset({RuntimeError, NotImplementedError, ValueError, IndexError})
"""Of these, torch raises the ones that need words; what is derived from them is somebody's own."""
_NO_KERNEL = "not implemented for"
"""What torch says of numbers of a type that an operation does not take."""
_UNFIT = (RuntimeError, IndexError, TypeError, ValueError, AttributeError)
"""What a metric raises of an output or a target that it cannot take."""
_CLOSING = frozenset("\"')]}>")
"""How what somebody says may end without a full stop, beside letters and digits."""
_ALONE = "Expected more than 1 value per channel"
"""What batch norm says of a single example."""
_MORE = (
    "Batch norm has nothing to compare one example with: choose a batch_size that leaves more for the last batch of an "
    "epoch, or a DataLoader with drop_last=True. In a group, launch(sync_batch_norm=True) compares those of all processes."
)


def model_failed(error: Exception, model: nn.Module, batch: Batch) -> TrainingError | None:
    """Return a clearer error for `error` of a forward pass; None if it is clear enough."""
    if isinstance(error, TypeError):
        return _called_otherwise(model, batch)
    if not isinstance(error, PnneError) and type(error) not in _TORCH_S:
        return None
    if isinstance(error, NotImplementedError) and _NO_KERNEL not in str(error):
        return None
    alone = compares_one(error)
    if alone and isinstance(error, PnneError):
        # A compiled graph has named the node, but knows nothing of batches.
        said_so = _sentence(error)
        node = next((found.node for found in error.diagnostics), None)
        return TrainingError(f"{said_so} {_MORE}", [Diagnostic("model-failed", said_so, node, hint=_MORE)])
    if isinstance(error, (ValueError, IndexError)) and not _is_torch_s(error):
        return None
    if isinstance(error, PnneError) or is_out_of_memory(error) or blame(error) is not None:
        return None
    place = node_of(error, model)
    layer = None if place is None else _layer(model, place)
    where = "The model fails" if layer is None else f"The model fails at layer {place!r} ({_brief(layer)})"
    message = f"{where} on a batch of inputs {said([*batch.inputs, *batch.named.values()])}: {_sentence(error)}"
    hint = _MORE if alone else _hint(error, layer or model, [*batch.inputs, *batch.named.values()])
    return TrainingError(f"{message} {hint}", [Diagnostic("model-failed", message, place, hint=hint)])


def compares_one(error: BaseException) -> bool:
    """Return whether batch norm raised the error because of a single example."""
    return _ALONE in str(error)


def name_layer(error: Exception, model: nn.Module) -> None:
    """Add a note with the layer to an error of user code in the forward pass of a plain module."""
    if isinstance(error, PnneError) or is_out_of_memory(error) or blame(error) is not None:
        return
    place = node_of(error, model)
    layer = None if place is None else _layer(model, place)
    if layer is not None:
        error.add_note(f"In layer {place!r} ({_brief(layer)}).")


def _hint(error: Exception, layer: nn.Module, inputs: Sequence[object]) -> str:
    said_so = str(error)
    if "deterministic implementation" in said_so:
        return "With deterministic=False it runs, and two runs with one seed may differ in the last digits."
    if isinstance(layer, nn.Embedding):
        return _of_rows(error, layer)
    tensors = [one for one in inputs if isinstance(one, Tensor)]
    if any(one.dim() == 1 and one.is_floating_point() for one in tensors):
        return "Each example is a single number: give X[:, None], which is [n, 1]."
    if "type" in said_so or _NO_KERNEL in said_so:
        pixels = any(one.dim() >= 3 and not one.is_floating_point() for one in tensors)
        return _of_type(layer) + (
            " Of pixels, pn.images(X) makes numbers from 0 to 1, channels first." if pixels else ""
        )
    return "The first dimension counts the examples. Compare the others with what the layers expect."


def _of_rows(error: Exception, layer: nn.Embedding) -> str:
    rows = layer.num_embeddings
    given = next((one for name, one in _locals_of(error, layer) if name == "input" and isinstance(one, Tensor)), None)
    if given is None or given.is_floating_point():
        return f"An embedding looks up whole numbers, here from 0 to {rows - 1}: give x.long()."
    low, high = int(given.min()), int(given.max())
    needs = f"give it num_embeddings={high + 1}" if high >= rows else "count from 0"
    return f"The numbers reach from {low} to {high}, and it has rows 0 to {rows - 1}: {needs}, or look for wrong ones in the data."


def _locals_of(error: Exception, layer: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the local variables of the methods of `layer` in the traceback of `error`."""
    place = error.__traceback__
    while place is not None:
        variables = place.tb_frame.f_locals
        if variables.get("self") is layer:
            yield from variables.items()
        place = place.tb_next


def _of_type(layer: nn.Module) -> str:
    needs = next((one.dtype for one in layer.parameters() if one.is_floating_point()), torch.float32)
    if needs == torch.float32:
        return "Numbers must be of the type that the layers compute in: give x.float() to float32 layers."
    name = str(needs).removeprefix("torch.")
    # Arrays of float64 become float32, as nearly all models want it.
    return (
        f"Numbers must be of the type that the layers compute in, {name}: give tensors, torch.as_tensor(x).to({needs})."
    )


def _called_otherwise(model: nn.Module, batch: Batch) -> TrainingError | None:
    try:
        inspect.signature(model.forward).bind(*batch.inputs, **batch.named)
    except TypeError as unfit:
        given = said(batch.named) if batch.named else said(batch.inputs)
        message = f"The model cannot be called with a batch of inputs {given}: {unfit}."
        hint = "Give the inputs in the order of forward's parameters, or a mapping by their names."
        return TrainingError(f"{message} {hint}", [Diagnostic("model-failed", message, hint=hint)])
    return None


def loss_failed(error: Exception, loss: Any, output: Any, target: Any) -> TargetError | None:
    """Return a clearer error for `error` of a loss; None if it is clear enough."""
    if isinstance(error, PnneError) or is_out_of_memory(error) or blame(error) is not None:
        return None
    name = getattr(loss, "__name__", type(loss).__name__)
    message = (
        f"{name} cannot compare the model's output {said(output)} with the target {said(target)}: {_sentence(error)}"
    )
    scores = scores_for_loss(loss, output, target)
    return TargetError(f"{message}{_of_places(loss, scores, target) or _advice(loss, scores, target)}")


def metric_failed(error: Exception, name: str, output: Any, target: Any) -> TrainingError | None:
    """Return a clearer error for `error` of the metric `name`; None if it is clear enough."""
    if is_out_of_memory(error):
        return None
    if not isinstance(error, _UNFIT) or isinstance(error, PnneError):
        error.add_note(f"In the metric {name!r}, comparing the output {said(output)} with the target {said(target)}.")
        return None
    return TrainingError(
        f"The metric {name!r} cannot compare the model's output {said(output)} with the target {said(target)}: "
        f"{_sentence(error)} Change the metric's arguments (its task, its number of classes), or give a function of "
        "output and target."
    )


def in_brief(error: BaseException) -> str:
    """Return an exception with its notes in one line, without the traceback of a worker process."""
    text = "\n".join([f"{type(error).__name__}: {error}".rstrip(": "), *getattr(error, "__notes__", ())])
    lines = text.splitlines()
    if "Original Traceback" in text:
        last = max(index for index, line in enumerate(lines) if line.startswith(" "))
        lines = lines[last + 1 :]
    return _joined([line.strip() for line in lines if line.strip()])


def in_a_sentence(error: BaseException) -> str:
    """Return `in_brief` with a full stop."""
    return _ended(in_brief(error))


def _joined(lines: Sequence[str]) -> str:
    """Join lines to one, with full stops between sentences."""
    told = ""
    for line in lines:
        begins = line[0].isupper() and told and told[-1].isalnum() | (told[-1] in _CLOSING)
        told += f"{'.' if begins else ''} {line}"
    return told.lstrip()


def device_lost(error: BaseException) -> TrainingError | None:
    """Return a clearer error if a GPU's assertion failed, after which it cannot compute any more.

    A GPU tells of it late, at whatever waits for it next: neither the place in the program nor a layer is known.
    """
    if not isinstance(error, RuntimeError) or "device-side assert" not in str(error):
        return None
    return TrainingError(
        "The GPU met an index that does not exist, most often a target outside the model's classes, or a number too "
        "large for an Embedding, and computes nothing more in this process. Restart the kernel, and make one step "
        "with device='cpu': there the message names the place and the number."
    )


def _advice(loss: Any, output: Any, target: Any) -> str:  # noqa: PLR0911  one for each mistake
    compared = _compared(loss)
    if len(compared) > 2:
        return (
            f" It compares {', '.join(compared)}: give a function that hands them over, such as loss=lambda output, target: "
            "loss(output[0], output[1], target) for a model that returns two of them."
        )
    if not isinstance(output, Tensor):
        if not isinstance(loss, nn.Module):
            return ""
        chosen = f"output{_first_of(output)}"
        return f" Give a function that takes what it needs of the output: loss=lambda output, target: loss({chosen}, target)."
    if isinstance(target, Tensor) and isinstance(loss, _BINARY):
        return _of_yes_and_no(output, target)
    if not (isinstance(target, Tensor) and isinstance(loss, _CLASSES)):
        return ""
    if output.dim() < 1 or target.numel() == 0:
        return ""
    dim = 1 if output.dim() > 1 else 0
    count = output.shape[dim]
    if output.dim() == target.dim() and target.shape[dim] > 1:
        columns = _of_columns(loss, output, target)
        if columns:
            return columns
    if target.is_floating_point():
        if target.shape == output.shape:
            return ""
        return " Numbers of classes must be integers: give target.long()."
    if target.dtype not in {torch.int64, torch.uint8}:
        return " Numbers of classes must be of type int64: give target.long()."
    if output.dim() == target.dim() > 1 and target.shape[1] == 1 < count:
        return " There is one number of a class for each example: give target.squeeze(1)."
    ignored = getattr(loss, "ignore_index", None)
    classes = target if ignored is None else target[target != ignored]
    if classes.numel() == 0:
        return ""
    low, high = int(classes.min()), int(classes.max())
    if low >= 0 and high < count:
        return ""
    if low >= 0:
        advice = f"give the last layer {high + 1} outputs, or number the classes from 0"
    elif low == -1 and high < count and ignored is not None:
        advice = "number the classes from 0, or set ignore_index=-1 in the loss if -1 stands for no class"
    else:
        advice = f"number the classes from 0, as target + {-low} does"
    return (
        f" The targets reach from {low} to {high}, and an output with {count} columns knows the classes 0 to "
        f"{count - 1}: {advice}."
    )


def _of_places(loss: Any, scores: Any, target: Any) -> str:
    """Say which targets scores `[N, ..., C]` or `[N, C, ...]` of at least three dimensions need; empty if they have them."""
    if (
        not (isinstance(loss, _CLASSES) and isinstance(scores, Tensor) and isinstance(target, Tensor))
        or scores.dim() < 3
    ):
        return ""
    last, second = tuple(scores.shape[:-1]), (scores.shape[0], *scores.shape[2:])
    if target.is_floating_point() or tuple(target.shape) in {second, tuple(scores.shape)}:
        return ""
    if target.dim() == 1 and len(target) == len(scores):
        return (
            f" There is one class for each example, and the model gives {tuple(scores.shape[1:])} numbers for one: let it give "
            "one row of scores, as x.mean(1) or x[:, -1] before its last layer does."
        )
    return (
        f" The targets must have the shape {last} if the last dimension has the scores of the classes, or {second} if the "
        f"second has, and they have {tuple(target.shape)}."
    )


def _of_columns(loss: Any, output: Tensor, target: Tensor) -> str:
    dim = 1 if output.dim() > 1 else 0
    probable = isinstance(loss, nn.CrossEntropyLoss) and target.shape == output.shape
    if not bool(((target == 0) | (target == 1)).all()):
        return ""
    if bool((target.sum(dim) == 1).all()):
        floats = "target.float(), or " * (probable and not target.is_floating_point())
        return f" The target is one-hot: give {floats}the numbers of the classes, target.argmax({dim})."
    several = " Some examples have several ones: if classes do not exclude each other, choose"
    return f'{several} loss="BCEWithLogitsLoss" and give target.float().' if probable else ""


def _first_of(output: Any) -> str:
    """Return the expression for the first part of a model's output."""
    if isinstance(output, Mapping):
        return f"[{next(iter(output), '')!r}]"
    if dataclasses.is_dataclass(output):
        return f".{next((field.name for field in dataclasses.fields(output)), '')}"
    return "[0]"


def _of_yes_and_no(output: Tensor, target: Tensor) -> str:
    if output.numel() != target.numel():
        several = output.dim() == 2 and target.shape == output.shape[:1] and not target.is_floating_point()
        return ' For numbers of classes, choose loss="CrossEntropyLoss".' if several else ""
    sizes = ", ".join(map(str, (-1, *output.shape[1:])))
    shaped = "" if output.shape == target.shape else f".reshape({sizes})"
    floats = "" if target.is_floating_point() else ".float()"
    return f" Give it targets of the output's shape and type: y{shaped}{floats}." if shaped or floats else ""


def _compared(loss: Any) -> list[str]:
    """Return the names of what a layer that computes a loss must be given."""
    if not isinstance(loss, nn.Module):
        return []
    found = inspect.signature(loss.forward).parameters.values()
    return [one.name for one in found if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]


def _is_torch_s(error: BaseException) -> bool:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and str(place.tb_frame.f_globals.get("__name__", "")).startswith("torch.")


def _layer(model: nn.Module, place: str) -> nn.Module | None:
    return dict(model.named_modules()).get(place)


def _brief(layer: nn.Module) -> str:
    """Return a layer's repr without its contents."""
    return repr(layer) if next(layer.children(), None) is None else type(layer).__name__


def _sentence(error: Exception) -> str:
    return _ended(str(error).strip().split("\n")[0])


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
