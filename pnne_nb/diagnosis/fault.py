"""`Fault`: the origin of the first NaN or infinity of a step, its examples, its cause and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import msgspec
import torch
from torch import Tensor

from pnne_nb.compiler.analysis.nan_origin import Operand, SourceLine, Stage, described

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
