"""The hook by which code that knows torch gives documents their shapes and summaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class GraphAnalysis(NamedTuple):
    """What needs torch.

    Attributes:
        shapes: Gives what to write on the edges of a picture of a graph, and the inferred values of its properties.
        summary: Gives the summary of a compiled graph.
    """

    shapes: Callable[[Any], tuple[Any, Any]] = lambda _: ({}, {})
    summary: Callable[[Any], object] = lambda _: None


_analysis = GraphAnalysis()


def install_analysis(analysis: GraphAnalysis) -> None:
    """Have `analysis` asked from now on."""
    global _analysis  # noqa: PLW0603  # one composition root sets it, once
    _analysis = analysis


def installed() -> GraphAnalysis:
    """Return what is asked."""
    return _analysis
