"""`ModelDocument`: the document that a model was compiled from, with the shapes that its source does not say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import final

from pnne_nb.compiler.codegen.input_check import Expected, inputs_of
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.storage import json_format
from pnne_nb.graph.storage.json_format import DocumentState


@final
class ModelDocument:
    """A document at the time of a compilation. Nothing of it is made before it is needed.

    Args:
        state: Gives its content.
    """

    def __init__(self, state: Callable[[], DocumentState]) -> None:
        self._state = state

    @classmethod
    def of_text(cls, text: str) -> ModelDocument:
        """Return the document of a graph file."""
        return cls(lambda: NodeGraph.from_json(text).state())

    @functools.cached_property
    def state(self) -> DocumentState:
        """Its content."""
        return self._state()

    @functools.cached_property
    def text(self) -> str:
        """Its graph file."""
        return json_format.write(self.state)

    @functools.cached_property
    def expected(self) -> tuple[Expected, ...]:
        """What its Input nodes declare."""
        return inputs_of(self.graph().nodes.values())

    def graph(self) -> NodeGraph:
        """Return it as a document of its own."""
        return NodeGraph.from_json(self.text)
