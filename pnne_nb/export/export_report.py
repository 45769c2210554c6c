"""The report of an export: the file, its free sizes, and the agreement of every node with the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, final

from pnne_nb.errors import Diagnostic
from pnne_nb.export.formats.base import FixedAxis, FreeSize
from pnne_nb.export.proof.parity import Comparison, NodeParity

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, slots=True)
class ExportReport:
    """The written file and its proof.

    Attributes:
        path: The file.
        format: Its format.
        sizes: What became of each free size, by name.
        fixed: The axes of inputs that have a number in the document, so that the file takes that size only.
        nodes: How well each drawn node agrees, by path, in the order in which the nodes run.
        comparisons: Every batch that the outputs were compared on.
        random: Nodes that draw random numbers: the file was given the numbers of the model.
        exempt: Nodes whose values depend on random numbers that the file could not be given.
        findings: Axes that are fixed, and operations that the file says in another way than the drawing.
        notes: What else a person should know.
        bytes: The size of the file.
        inferences: How often the file was run for the outputs.
        sessions: How often it was opened with the tensors of nodes as outputs.
    """

    path: Path
    format: str
    sizes: Mapping[str, FreeSize]
    nodes: Mapping[str, NodeParity]
    comparisons: tuple[Comparison, ...]
    random: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    bytes: int = 0
    inferences: int = 0
    sessions: int = 0
    fixed: tuple[FixedAxis, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether file and model agree on every batch and at every node that was compared."""
        return all(each.ok for each in self.comparisons) and all(each.ok for each in self.nodes.values())

    @property
    def first_difference(self) -> NodeParity | None:
        """The first node, in the order in which the nodes run, at which file and model differ."""
        return next((each for each in self.nodes.values() if not each.ok), None)

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        compared = sum(each.difference is not None for each in self.nodes.values())
        if self.ok:
            at = f", and at {compared} of {len(self.nodes)} nodes" if self.nodes else ""
            return f"{self.path.name} computes what the model computes on {len(self.comparisons)} batches{at}."
        first = self.first_difference
        if first is not None:
            return f"{self.path.name} differs from the model, first at node {first}."
        wrong = next(each for each in self.comparisons if not each.ok)
        return f"{self.path.name} differs from the model with {wrong}."

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each node: type, error, ratio, sample, element, note."""
        import pandas as pd  # noqa: PLC0415  # takes a while, and most exports need none

        rows = []
        for each in self.nodes.values():
            index = each.difference.index if each.difference is not None else None
            rows.append({
                "node": each.node, "type": each.type, "error": each.error, "ratio": each.ratio,
                "sample": index[0] if index else None, "element": index[1:] if index else None, "note": each.note,
            })  # fmt: skip
        columns = ["node", "type", "error", "ratio", "sample", "element", "note"]
        return pd.DataFrame(rows, columns=columns).set_index("node")

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        lines = [f"{'OK' if self.ok else 'DIFFERENT'}: {self.headline}"]
        lines += [f"  {line}" for line in self.facts]
        return "\n".join(lines)

    @property
    def facts(self) -> tuple[str, ...]:
        """Further facts, one line each: the file, its sizes, the comparisons, notes."""
        lines = [f"{self.format}, {self.bytes:,} bytes: {self.path}"]
        if self.sizes:
            lines.append(f"sizes: {'; '.join(map(str, self.sizes.values()))}")
        if self.fixed:
            lines.append(f"fixed: {', '.join(map(str, self.fixed))}")
        lines += [f"compared on {each}" for each in self.comparisons]
        if self.random:
            lines.append(f"random nodes, given the model's numbers: {', '.join(self.random)}")
        if self.exempt:
            lines.append(f"not compared, for they depend on random numbers: {', '.join(self.exempt)}")
        return (*lines, *self.notes)

    def _repr_html_(self) -> str:
        facts = "".join(f"<li>{escape(line)}</li>" for line in self.facts)
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(each.node)}</td><td style='text-align:left'>{escape(each.type)}</td>"
            f"<td>{_figure(each.error)}</td><td>{_figure(each.ratio)}</td>"
            f"<td style='text-align:left'>{escape(each.note or ('' if each.ok else f'differs: {each.difference}'))}</td></tr>"
            for each in self.nodes.values()
        )
        head = "".join(f"<th>{name}</th>" for name in ("node", "type", "error", "error ÷ tolerance", ""))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        mark = "✓" if self.ok else "✗"
        return f"<p><b>{mark} {escape(self.headline)}</b></p><ul>{facts}</ul>{table}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"
