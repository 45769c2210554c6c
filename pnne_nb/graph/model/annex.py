"""What belongs to a document and stands beside it: no file holds it, and no comparison sees it."""

from __future__ import annotations

from typing import Any, Final, Protocol, final


class Annex(Protocol):
    """What another room keeps beside a document, such as where its weights are."""

    def for_copy(self, copy: Any) -> Annex:
        """Return what belongs beside a copy of the document as it is now, a `NodeGraph`."""


@final
class OwnWeights:
    """Stands for the weights that belong to a graph, where ``reuse=`` is left out."""

    def __repr__(self) -> str:
        return "the graph's own weights"


OWN: Final = OwnWeights()
