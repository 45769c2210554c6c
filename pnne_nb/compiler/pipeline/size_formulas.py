"""Finds how inferred sizes follow from the named sizes of a document, by inferring them again with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pnne_nb.compiler.ir.snapshot import read
from pnne_nb.compiler.lowering.lower_node import Resolved
from pnne_nb.compiler.shapes.infer import infer
from pnne_nb.errors import PnneError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.calculation import Sizes, calculated
from pnne_nb.graph.schema.values import Calculated, Value, mapped

_Probe = tuple[Sizes, Resolved]
"""Other sizes, and what is inferred with them."""


def with_formulas(graph: NodeGraph, resolved: Resolved) -> Resolved:
    """Return inferred values, those that are a multiple of a named size or of a calculation in the graph as such.

    A value that depends on sizes in another way stays a number.
    """
    usual = graph.named_sizes()
    bases = [name for name, value in usual.items() if not isinstance(value, Calculated)]
    # Multiples keep what divides a size; others tell 144*hidden from 576*(hidden//4).
    changes = [
        {name: usual[name] * 2 for name in bases},
        *({name: usual[name] * 3} for name in bases),
        *({name: usual[name] + 1} for name in bases),
    ]
    probes = [probe for change in changes if (probe := _probed(graph, change)) is not None]
    if not probes:
        return resolved
    texts = dict.fromkeys(usual)

    def note(number: Calculated) -> int:
        texts[number.text] = None
        return number

    for view in graph.graphs.values():
        for node in view.nodes.values():
            for value in node.properties.values():
                mapped(value, note)
    candidates = sorted(texts, key=len)
    return {path: _written(path, values, usual, probes, candidates) for path, values in resolved.items()}


def _probed(graph: NodeGraph, sizes: Mapping[str, int]) -> _Probe | None:
    try:
        other = NodeGraph.from_json(graph.to_json())
        with other.transaction():
            other.sizes.update(sizes)
        return other.named_sizes(), infer(other, read(other)).resolved
    except PnneError:
        return None  # these sizes do not fit each other, and tell nothing


def _written(
    path: str, values: Mapping[str, Value], usual: Sizes, probes: Sequence[_Probe], texts: Sequence[str]
) -> Mapping[str, Value]:
    found = dict(values)
    for name, value in values.items():
        seen = [(sizes, resolved.get(path, {}).get(name)) for sizes, resolved in probes]
        seen = [(sizes, number) for sizes, number in seen if isinstance(number, int)]
        if not isinstance(value, int) or all(number == value for _, number in seen):
            continue
        for text in texts:
            one = _number(text, usual)
            if one > 0 and value % one == 0:
                count = value // one
                if all(number == count * _number(text, sizes) for sizes, number in seen):
                    inner = text if text.isidentifier() else f"({text})"
                    found[name] = Calculated(value, text if count == 1 else f"{count}*{inner}")
                    break
    return found


def _number(text: str, sizes: Sizes) -> int:
    return calculated(text, sizes) or 0
