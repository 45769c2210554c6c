"""`Fault`: the origin of the first NaN or infinity of a step, its examples, and its cause by operation and inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

import msgspec
import torch
from torch import Tensor

from pnne_nb.compiler.analysis.nan_origin import NanOrigin, Operand, SourceLine, Stage, described

_SHOWN = 8
"""Examples that are listed."""
_VALUES = 12
"""Values of an example that are shown."""


class Fault(msgspec.Struct, frozen=True):
    """The first NaN or infinity of a training.

    Attributes:
        step: The optimizer step in which the loss or a gradient was not finite, from 1.
        epoch: Its epoch, from 1.
        batch: The number of its batch in the epoch, from 1.
        batches: How many batches made up the step.
        stage: ``"data"``, ``"weights"``, ``"forward"``, ``"loss"`` or ``"backward"``: where it was made; None if it did not
            come up again.
        node: Path of the node or submodule as on screen, or None outside of them.
        operation: The function that made it, e.g. ``"log"``.
        source: The user's line that called it, or None if no line of the user's did.
        examples: Rows of the batch with such values, from 0; empty where no dimension tells.
        columns: Of bad data, the columns.
        indices: The same examples by their number in the training data, where the data has numbers.
        kind: Machine name of the cause, e.g. ``"log-of-zero"``.
        cause: Why, in a sentence.
        advice: What to do about it.
        made: What came out of the operation: ``"3 NaN of 64 values"``.
        operands: What went into it.
        given: The batch: tensors `[N, ...]` by name; of a batch in pieces, the one with these examples.
        first: Its first example's row in the batch.
        outside: Whether the operation was called outside of the model, as in the loss.
    """

    step: int
    epoch: int
    batch: int
    batches: int
    stage: Stage | None
    node: str | None
    operation: str | None
    source: SourceLine | None
    examples: tuple[int, ...]
    columns: tuple[int, ...]
    indices: tuple[int, ...]
    kind: str
    cause: str
    advice: str
    made: str
    operands: tuple[Operand, ...] = ()
    given: Mapping[str, Tensor] = {}
    first: int = 0
    outside: bool = False

    def __str__(self) -> str:
        return "\n".join([f"Step {self.step}: {self.cause}", *self.facts, f"What to do: {self.advice}"])

    def __repr__(self) -> str:
        where = "" if self.node is None else f", node={self.node!r}"
        return f"Fault(step={self.step}, stage={self.stage!r}{where}, operation={self.operation!r}, kind={self.kind!r})"

    @property
    def facts(self) -> list[str]:
        """The known facts as lines of text."""
        found = []
        if self.operation is not None and self.stage not in {"data", "weights"}:
            beside = "the loss" if self.outside else "the model or the loss"
            part = {"forward": "the model", "loss": "the loss"}.get(self.stage or "", beside)
            where = part if self.node is None else f"node {self.node!r}"
            passed = "backward" if self.stage == "backward" else "forward"
            found.append(f"{self.operation} in {where} made {self.made} in the {passed} pass.")
        if self.source is not None:
            found.append(f"At {self.source}")
        if self.operands:
            found.append("Its inputs:")
            found += [f"  {described(operand)}" for operand in self.operands]
        if self.examples:
            found.append(f"Examples of batch {self.batch}: {listed(self.examples)}{self._numbers}.")
        return found

    @property
    def _numbers(self) -> str:
        return f" ({listed(self.indices)} of the training data)" if self.indices else ""

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td><code>{escape(values)}</code></td></tr>"
            for name, values in self._shown(self.examples)
        )
        facts = escape("\n".join(self.facts))
        table = f"<table>{rows}</table>" if rows else ""
        return (
            f"<p><b>Step {self.step}: {escape(self.cause)}</b></p><pre>{facts}</pre>{table}<p>{escape(self.advice)}</p>"
        )

    def show_batch(self) -> str:
        """Return the examples of the fault as text, one line per tensor and example; all examples of a small batch."""
        size = max((len(each) for each in self.given.values() if each.dim()), default=0)
        lines = [
            f"{name}: {values}" for name, values in self._shown(self.examples or range(self.first, self.first + size))
        ]
        return "\n".join([f"Batch {self.batch} of epoch {self.epoch}{self._numbers}:", *lines])

    def _shown(self, rows: Sequence[int]) -> Iterator[tuple[str, str]]:
        for row in rows[:_SHOWN]:
            for name, tensor in self.given.items():
                if tensor.dim() and 0 <= row - self.first < tensor.shape[0]:
                    yield f"{name}[{row}]", _values(tensor, row - self.first)


def listed(numbers: tuple[int, ...]) -> str:
    """Return the first of some numbers in words: ``"3, 5 and 9 others"``."""
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return shown if len(numbers) <= _SHOWN else f"{shown} and {len(numbers) - _SHOWN} others"


def _values(tensor: Tensor, row: int) -> str:
    values = tensor[row].detach().flatten()
    shown = ", ".join(f"{value:.4g}" for value in values[:_VALUES].to("cpu", torch.float64).tolist())
    shape = tuple(tensor.shape[1:])
    bad = int((~values.isfinite()).sum()) if values.is_floating_point() else 0
    told = f", {bad} of them NaN or infinite" if bad else ""
    return shown if values.numel() <= _VALUES else f"{shown} … ({values.numel():,} values, shape {shape}{told})"


_HUGE: Final = 1e15
"""No healthy activation is as large; its square is near the end of float32."""
_GREW: Final = 10.0
"""Growth of the loss over the steps before that tells of a rate that is too high."""
_LOGS: Final = frozenset({"log", "log2", "log10", "log1p", "xlogy", "logit", "binary_cross_entropy"})
_ROOTS: Final = frozenset({"sqrt", "rsqrt", "norm", "std", "var", "std_mean", "var_mean", "cdist", "linalg_norm"})
_QUOTIENTS: Final = frozenset({"div", "true_divide", "reciprocal", "rsqrt", "remainder", "fmod", "addcdiv"})
_EXPONENTIALS: Final = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "special_exp2"})
_DOMAINS: Final = {
    "acos": "-1 to 1", "asin": "-1 to 1", "atanh": "-1 to 1", "acosh": "1 and above", "erfinv": "-1 to 1",
}  # fmt: skip


class NanCause(NamedTuple):
    """Why an operation made a NaN, which a `Fault` tells: a machine name, a sentence, and a remedy."""

    kind: str
    text: str
    advice: str


def cause_of(origin: NanOrigin, losses: Sequence[float], rate: float) -> NanCause:
    """Return why an operation made a NaN or an infinity, or that the cause is unclear.

    Args:
        origin: The operation and what it was given; not of stage ``"data"``.
        losses: Of the steps before, oldest first.
        rate: The learning rate.
    """
    operation, operands = origin.operation or "", origin.operands
    low = min((each.low for each in operands if not math.isnan(each.low)), default=math.nan)
    high = max((each.high for each in operands if not math.isnan(each.high)), default=math.nan)
    largest = max(abs(low), abs(high)) if not math.isnan(low) else 0.0
    grew = _grew(losses)
    if origin.stage == "weights":
        return _of_weights(origin.name, grew, rate)
    if origin.by_hand and origin.nan and "softmax" in operation:
        return NanCause(
            "masked-row",
            "All positions of a row are masked with -inf, and the softmax of nothing is 0 / 0.",
            "Leave at least one position of each row, or set such rows to 0 behind the softmax.",
        )
    known = _of_function(origin, operation, operands, low, high)
    if known is not None:
        return known
    if origin.dtype == "float16":
        return NanCause(
            "half-overflow",
            f"A result of {operation} is beyond 65,504, the largest number of float16; its inputs go up to {largest:.4g}.",
            'Use precision="bf16" or "32", or scale the values down in front of it.',
        )
    if largest > _HUGE or (grew is not None and grew > _GREW):
        told = "" if grew is None else f" The loss has grown by a factor of {grew:.3g} in the steps before."
        return NanCause(
            "exploding",
            f"The numbers have outgrown float32: {operation} was given values up to {largest:.3g}.{told}",
            f"Lower the learning rate (it is {rate:g}), warm it up, or give grad_clip=1.0; rewind() goes back before it.",
        )
    return NanCause(
        "unclear",
        f"{operation or 'An operation'} made it of finite numbers between {low:.4g} and {high:.4g}.",
        "Look at the named line; the inputs of the operation are listed with it.",
    )


def _of_weights(name: str, grew: float | None, rate: float) -> NanCause:
    growing = grew is not None and grew > _GREW
    told = f" The loss had grown by a factor of {grew:.3g} before." if growing else ""
    return NanCause(
        "exploding" if growing else "weights",
        f"{name!r} held it before the step: the update before, with learning rate {rate:g}, or a cell has put it there.{told}",
        "Go back before it with engine.rewind(2), and go on with a smaller learning rate or grad_clip=1.0.",
    )


def _of_function(
    origin: NanOrigin, operation: str, operands: Sequence[Operand], low: float, high: float
) -> NanCause | None:
    backward = origin.stage == "backward"
    zeros = any(each.zeros for each in operands)
    if operation in _LOGS or operation.endswith(("_log", "log_")):
        if low < 0 and operation != "log1p":
            return NanCause(
                "log-of-negative",
                f"{operation} was given {low:.4g}, and there is no logarithm of a negative number.",
                "Clamp its input (x.clamp_min(1e-6)), or make it positive with softplus or exp.",
            )
        slope = "the slope of a logarithm" if backward else "the logarithm"
        return NanCause(
            "log-of-zero",
            f"{operation} was given 0, where {slope} is infinite.",
            "Use log_softmax, logsigmoid or a loss that takes logits; otherwise clamp its input (x.clamp_min(1e-6)).",
        )
    if operation in _ROOTS and (backward or low < 0 or (operation in {"std", "var"} and origin.nan)):
        return _of_root(operation, low, backward=backward)
    if operation in {"pow", "float_power"}:
        if zeros:
            return NanCause(
                "power-of-zero",
                f"{operation} was given 0, where {'its slope' if backward else 'a negative power'} is infinite.",
                "Add a small number to its base, such as 1e-6.",
            )
        if low < 0 and origin.nan:
            return NanCause(
                "root-of-negative",
                f"{operation} was given {low:.4g}, and a broken power of a negative number is no number.",
                "Clamp its base, or take the power of its absolute value.",
            )
    if operation in _QUOTIENTS and zeros:
        return NanCause(
            "division-by-zero",
            f"{operation} divided by 0.",
            "Add a small number such as 1e-6 to the divisor, or leave out the examples where it is 0.",
        )
    if operation in _EXPONENTIALS and origin.dtype != "float16":
        return NanCause(
            "exp-overflow",
            f"{operation} was given {high:.4g}; beyond 88.7 its result does not fit into float32.",
            "Subtract the maximum first, or use softmax, log_softmax or logsumexp, which do.",
        )
    if operation in _DOMAINS:
        return NanCause(
            "outside-domain",
            f"{operation} takes {_DOMAINS[operation]}, and was given values from {low:.4g} to {high:.4g}"
            f"{', at whose ends its slope is infinite' if backward else ''}.",
            "Clamp its input to slightly less than that range.",
        )
    if operation in {"nll_loss", "mean"} and origin.nan and not backward:
        return NanCause(
            "nothing-counted",
            f"{operation} is a mean over nothing: every target of the batch is ignored, or what it is given is empty.",
            "Leave out such batches, or divide the sum by max(count, 1).",
        )
    return None


def _of_root(operation: str, low: float, *, backward: bool) -> NanCause:
    if operation in {"std", "var", "std_mean", "var_mean"} and not backward:
        return NanCause(
            "spread-of-one",
            f"{operation} was given one value only, whose spread is 0 / 0.",
            "Use correction=0, or leave out batches of one example.",
        )
    if low < 0 and not backward:
        return NanCause(
            "root-of-negative",
            f"{operation} was given {low:.4g}, and there is no root of a negative number.",
            "Clamp its input (x.clamp_min(0)); small negative numbers come of rounding.",
        )
    return NanCause(
        "root-at-zero",
        f"{operation} was given 0, where its slope is infinite.",
        "Add a small number under the root: (x + 1e-6).sqrt().",
    )


def _grew(losses: Sequence[float]) -> float | None:
    """Return the ratio of the last to the least loss; None for fewer than two."""
    finite = [abs(loss) for loss in losses if math.isfinite(loss)]
    least = min(finite, default=0.0)
    return finite[-1] / least if len(finite) > 1 and least > 0 else None
