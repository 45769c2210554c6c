"""Reports an import: which parts of the module are open, which are closed, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Literal, Protocol, final

import msgspec

from pnne_nb.graph.model.node import Node

State = Literal["open", "closed", "edited", "unproved"]
"""Whether a part is drawn and proved equal, keeps its own code, has been changed since, or is of a module that failed."""


class _Graph(Protocol):
    @property
    def nodes(self) -> Mapping[str, Node]: ...


@final
class ImportRow(msgspec.Struct, frozen=True):
    """One part of an imported module.

    Attributes:
        path: Of its node.
        type: Of its node; of a closed one, the qualified name of its class.
        state: Whether it is open.
        nodes: How many nodes are inside, nested ones included.
        reason: Why it is closed or unproved.
    """

    path: str
    type: str
    state: State
    nodes: int
    reason: str = ""


@final
class ImportReport(msgspec.Struct, frozen=True):
    """Which parts of an imported module are open; a notebook shows it as a table.

    Attributes:
        name: Of the document.
        rows: The outermost blocks, and whatever is closed or edited inside them.
        open: How many nodes are open, in all graphs, each counted where it is used.
        closed: How many are closed.
        assumed: What the example decided about the inputs, as text; other inputs are refused by a check.
    """

    name: str
    rows: tuple[ImportRow, ...]
    open: int
    closed: int
    assumed: tuple[str, ...]

    @property
    def failure(self) -> str:
        """How the module failed with the example, in words; empty if it did not."""
        return next((row.reason for row in self.rows if row.state == "unproved"), "")

    @property
    def headline(self) -> str:
        """How much of it is open, in one line."""
        if not self.open + self.closed:
            return f"{self.name} was not imported."
        if self.failure:
            return f"{self.name} fails with the example, so nothing of this is proved: {self.failure}."
        kept = f"{self.closed} {'keeps' if self.closed == 1 else 'keep'} the original's code"
        return f"{self.name}: {self.open} nodes are open, {kept if self.closed else 'none is closed'}."

    def __repr__(self) -> str:
        rows = (
            f"{row.state + ' ':7}{row.path} ({row.type}){f': {row.reason}' if row.state == 'closed' else ''}"
            for row in self.rows
        )
        return "\n".join((self.headline, *rows, *(f"assumed {text}" for text in self.assumed)))

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
        return f"<p><b>{escape(self.headline)}</b></p>{table}{listed}"


def import_report(name: str, graphs: Mapping[str, _Graph]) -> ImportReport:
    """Return what is known of the import of a document.

    Args:
        name: Of the document.
        graphs: Every graph by id, the root (``""``) first.
    """
    found = list(_rows(graphs, "", ""))
    inputs = (node for node in graphs[""].nodes.values() if node.type == "Input" and node.origin is not None)
    return ImportReport(
        name,
        tuple(row for row in found if row.state != "open" or (row.nodes and "." not in row.path)),
        open=sum(row.state != "closed" for row in found),
        closed=sum(row.state == "closed" for row in found),
        assumed=tuple(dict.fromkeys(text for node in inputs for text in (node.origin.assumes if node.origin else ()))),
    )


def _rows(graphs: Mapping[str, _Graph], id: str, prefix: str) -> Iterator[ImportRow]:
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
