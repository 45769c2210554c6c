"""The agreement of a file with the model, at one node and on one batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from pnne_nb.export.proof.comparison import Difference
from pnne_nb.export.proof.histograms import Histograms


@final
@dataclass(frozen=True, slots=True)
class NodeParity:
    """The agreement of the file with the model at one node.

    Attributes:
        node: The path of the node.
        type: Its type.
        difference: The worst element; None if the node has no tensor of its own in the file.
        note: Why it was not compared, if it was not.
        histograms: How the values are spread in model and file.
    """

    node: str
    type: str
    difference: Difference | None = None
    note: str = ""
    histograms: Histograms | None = None

    @property
    def error(self) -> float | None:
        """The largest distance between file and model, in the unit of the values; None if it was not compared."""
        return None if self.difference is None else self.difference.error

    @property
    def ratio(self) -> float | None:
        """The error divided by what is tolerated, where that is largest; above 1, file and model differ."""
        return None if self.difference is None else self.difference.ratio

    @property
    def ok(self) -> bool:
        """Whether file and model agree, as far as they were compared."""
        return self.difference is None or self.difference.ratio <= 1

    def __str__(self) -> str:
        return f"{self.node}: {self.note or self.difference}"


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of file and model on one batch.

    Attributes:
        what: ``"data"``, ``"example"``, or the sizes, ``"N=1, T=11"``.
        outputs: The worst element of each output, by name.
        error: What the runtime said, if it could not run the batch.
    """

    what: str
    outputs: Mapping[str, Difference] = field(default_factory=dict)
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether file and model agree."""
        return not self.error and all(each.ratio <= 1 for each in self.outputs.values())

    def __str__(self) -> str:
        if self.error:
            return f"{self.what}: {self.error}"
        bad = [f"{name}: {each}" for name, each in self.outputs.items() if each.ratio > 1]
        return f"{self.what}: {'; '.join(bad) or 'equal within rounding'}"
