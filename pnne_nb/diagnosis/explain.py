"""`explain`: the lines of generated source with their nodes, or what a message or a finding means, for a person to read."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import overload

import msgspec
from torch import nn

from pnne_nb.compiler.codegen import loader
from pnne_nb.diagnosis.finding import KINDS, Finding, false_alarms
from pnne_nb.errors import ArgumentError, Diagnostic, PnneError, meanings, near, shown
from pnne_nb.graph.storage import GraphState


class Explanation(msgspec.Struct, frozen=True):
    """One line of generated source.

    Attributes:
        number: Counted from 1.
        text: The line.
        nodes: Paths of the nodes that it belongs to; several where a definition is used several times.
    """

    number: int
    text: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        nodes = f"    <- {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.number:4d}  {self.text}{nodes}"


class Explained(list[Explanation]):
    """The lines of a model's source; a notebook shows the nodes beside them."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        lines = "\n".join(
            f"<span style='opacity:.5'>{line.number:4d}</span>  {escape(line.text)}"
            + (f"<span style='opacity:.6'>    ← {escape(', '.join(line.nodes))}</span>" if line.nodes else "")
            for line in self
        )
        return f"<pre style='max-height:36em;overflow:auto'>{lines}</pre>"


class Meaning(str):
    """What the codes of messages mean, and what to do; a cell shows it as text."""

    __slots__ = ()
    __repr__ = str.__str__


@overload
def explain(model: nn.Module) -> Explained: ...
@overload
def explain(model: str | Diagnostic | Finding | PnneError) -> Meaning: ...
def explain(model: nn.Module | str | Diagnostic | Finding | PnneError) -> Explained | Meaning:
    """Return the lines of the source that a compiled model runs, each with its nodes; or what a message or a finding means.

    Args:
        model: A compiled model; or the code of a message (``"shape-mismatch"``), the kind of a finding (``"dead-relu"``), a
            `Diagnostic`, a `Finding` or an error.

    Raises:
        CompileError: If `model` is not a compiled model.
        ArgumentError: There is no such code, or the error has none.
    """
    match model:
        case str():
            return _meaning([model])
        case Diagnostic():
            return _meaning([model.code])
        case Finding():
            return _meaning([model.kind])
        case PnneError():
            return _meaning(list(dict.fromkeys(each.code for each in model.diagnostics)))
    loaded = loader.require(model, "no line of it belongs to a node")
    generated = loaded.generated
    uses: dict[str, list[str]] = {definition: [] for definition in generated.classes}
    assert loaded.document is not None, "set when a document is compiled"
    _collect(loaded.document.state.graphs, "", "", uses)
    explained = Explained()
    for number, text in enumerate(generated.text.splitlines(), start=1):
        line = generated.lines.get(number)
        nodes = tuple(f"{prefix}{line.node}" for prefix in uses[line.definition]) if line is not None else ()
        explained.append(Explanation(number, text, nodes))
    return explained


def _meaning(codes: list[str]) -> Meaning:
    if not codes:
        raise ArgumentError("This error has no code: its message says everything.")
    for code in codes:
        if code not in meanings() and code not in KINDS:
            raise ArgumentError(f"No message has the code {shown(code)}.{near(code, [*meanings(), *KINDS])}")
    said = [{"code": code, **meanings()[code]} for code in codes if code in meanings()]
    said += [
        {"code": code, **KINDS[code]._asdict(), "alarms": str(false_alarms(code))} for code in codes if code in KINDS
    ]
    titles = {"code": "", "cause": "  Why: ", "evidence": "  Seen in: ", "repair": "  What to do: ", "alarms": "  "}
    lines = ["\n".join(f"{title}{each[part]}" for part, title in titles.items() if each.get(part)) for each in said]
    return Meaning("\n\n".join(lines))


def _collect(graphs: Mapping[str, GraphState], id: str, prefix: str, uses: dict[str, list[str]]) -> None:
    """Collect the path prefixes of a graph and of nested graphs, at one place of use."""
    uses[id].append(prefix)
    for node in graphs[id].nodes:
        definition = node.properties.get("definition")
        if node.type in ("Subgraph", "Module") and isinstance(definition, str):
            _collect(graphs, definition, f"{prefix}{node.name}.", uses)
