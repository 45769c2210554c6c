"""Reports the open and the closed parts of an imported module, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Literal, final

import msgspec

from pnne_nb.graph.model.views import GraphView

State = Literal["open", "closed", "edited", "unproved"]
"""Whether a part is drawn and proved equal, keeps its own code, was changed since, or belongs to a module that failed."""


@final
class ImportRow(msgspec.Struct, frozen=True):
    """One part of an imported module.

    Attributes:
        path: The path of its node.
        type: The type of its node; of a closed part, the qualified name of its class.
        state: Whether it is open.
        nodes: The number of nodes inside, nested ones included.
        reason: Why it is closed or unproved.
    """

    path: str
    type: str
    state: State
    nodes: int
    reason: str = ""


@final
class ImportReport(msgspec.Struct, frozen=True):
    """The open and the closed parts of an imported module; a notebook shows a table.

    Attributes:
        name: The name of the document.
        rows: The outermost blocks, and all closed or edited parts inside them.
        open: The number of open nodes in all graphs, counted at each place of use.
        closed: The number of closed nodes.
        assumed: Assumptions about the inputs from the example, as text; checks refuse other inputs.
        noise: How far the module differs from itself, where no more than that could be proved; else empty.
        is_imported: Whether the document is an import.
    """

    name: str
    rows: tuple[ImportRow, ...]
    open: int
    closed: int
    assumed: tuple[str, ...]
    noise: str = ""
    is_imported: bool = True

    @property
    def failure(self) -> str:
        """Why not all that is drawn is proved, such as the error of the module with the example; empty if it is."""
        return next((row.reason for row in self.rows if row.state == "unproved"), "")

    @property
    def headline(self) -> str:
        """The result in one line."""
        if not self.open + self.closed:
            return f"{self.name} {'gives its inputs as they are' if self.is_imported else 'was not imported'}."
        if self.failure:
            what = "nothing" if all(row.state == "unproved" for row in self.rows) else "not all"
            return f"{self.name}: {what} of this is proved: {self.failure.rstrip('.')}."
        kept = f"{self.closed} {'keeps' if self.closed == 1 else 'keep'} the original's code"
        drawn = f"{self.open} {'node is' if self.open == 1 else 'nodes are'} open"
        return f"{self.name}: {drawn}, {kept if self.closed else 'none is closed'}."

    def __repr__(self) -> str:
        rows = (
            f"{row.state + ' ':7}{row.path} ({row.type}){f': {row.reason}' if row.state == 'closed' else ''}"
            for row in self.rows
        )
        told = [f"{self.noise}."] if self.noise else []
        return "\n".join((self.headline, *told, *rows, *(f"assumed {text}" for text in self.assumed)))

    def _repr_html_(self) -> str:
        cell = "<td style='text-align:left'>"
        rows = "".join(
            f"<tr>{''.join(f'{cell}{escape(text)}</td>' for text in (row.path, row.type, row.state))}"
            f"<td>{row.nodes or ''}</td>{cell}{escape(row.reason if row.state == 'closed' else '')}</td></tr>"
            for row in self.rows
        )
        head = "".join(f"<th>{name}</th>" for name in ("part", "type", "", "nodes inside", "why"))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        assumed = "".join(f"<li>{escape(text)}</li>" for text in self.assumed)
        listed = f"<p>The example decided, and other inputs are refused:</p><ul>{assumed}</ul>" if assumed else ""
        told = f"<p>{escape(self.noise)}.</p>" if self.noise else ""
        return f"<p><b>{escape(self.headline)}</b></p>{told}{table}{listed}"


def import_report(name: str, graphs: Mapping[str, GraphView]) -> ImportReport:
    """Return the report on the import of a document.

    Args:
        name: The name of the document.
        graphs: Every graph by id, the root (``""``) first.
    """
    found = list(_rows(graphs, "", ""))
    inputs = [node for node in graphs[""].nodes.values() if node.type == "Input" and node.origin is not None]
    return ImportReport(
        name,
        tuple(row for row in found if row.state != "open" or (row.nodes and "." not in row.path)),
        open=sum(row.state != "closed" for row in found),
        closed=sum(row.state == "closed" for row in found),
        assumed=tuple(dict.fromkeys(text for node in inputs for text in (node.origin.assumes if node.origin else ()))),
        noise=next((node.origin.reason for node in inputs if node.origin and node.origin.proof == "equal"), ""),
        is_imported=bool(found or inputs),
    )


def _rows(graphs: Mapping[str, GraphView], id: str, prefix: str) -> Iterator[ImportRow]:
    for name, node in graphs[id].nodes.items():
        if node.origin is None or node.type in ("Input", "Output", "Constant"):
            continue
        definition = node.definition
        is_shown = definition is not None and definition in graphs
        inner = list(_rows(graphs, str(definition), f"{prefix}{name}.")) if is_shown else []
        edited: State = "unproved" if node.origin.reason else "edited"
        states: Mapping[str, State] = {"equal": "open", "opaque": "closed", "edited": edited}
        kind = str(node.properties.get("target") or node.type) if node.type == "Module" else node.type
        yield ImportRow(f"{prefix}{name}", kind, states[node.origin.proof], len(inner), node.origin.reason)
        yield from inner
