"""Connects documents with the analysis that needs torch: shapes and summaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class GraphAnalysis(NamedTuple):
    """The analysis of a graph that needs torch.

    Attributes:
        shapes: Returns the shapes on the edges of a graph's picture, and the inferred values of its properties.
        summary: Returns the summary of a compiled graph.
        tables: Returns a file with the values of large fixed tables that the file of a graph has no room for, or None.
    """

    shapes: Callable[[Any], tuple[Any, Any]] = lambda _: ({}, {})
    summary: Callable[[Any], object] = lambda _: None
    tables: Callable[[Any], bytes | None] = lambda _: None


_analysis = GraphAnalysis()


def install_analysis(analysis: GraphAnalysis) -> None:
    """Use `analysis` from now on."""
    global _analysis  # noqa: PLW0603  # one composition root sets it, once
    _analysis = analysis


def installed() -> GraphAnalysis:
    """Return the installed analysis."""
    return _analysis
