"""The node types: one `NodeSpec` per type, derived from the installed torch.

The package is a mapping from type name to spec, over the one process-wide registry::

    pn.catalog["Conv2d"].properties
    len(pn.catalog)
    [spec for spec in pn.catalog.values() if spec.category == "Pooling"]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, final

from pnne_nb.catalog import functions, layers, operators, training_nodes
from pnne_nb.catalog.custom import met, register_node
from pnne_nb.catalog.functions import operator
from pnne_nb.catalog.quantized import quantized_layer
from pnne_nb.catalog.tables import overrides
from pnne_nb.errors import Room, meant
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.habits import Habits
from pnne_nb.process.gc_pause import without_collections

__all__ = ["register_node", "specs", "unlisted"]


def specs() -> tuple[NodeSpec, ...]:
    """Return the specs of all types of the installed torch, in the order of the palette."""
    with without_collections():
        kinds = (layers, functions, operators, training_nodes)
        found = chain.from_iterable(kind.specs() for kind in kinds)
        return tuple(sorted(found, key=_place))


def unlisted(type: str) -> NodeSpec | None:
    """Return the spec of a type that a document may name but the palette does not list, or None."""
    return quantized_layer(type) or operator(type) or met(type)


def _place(spec: NodeSpec) -> int:
    order = overrides.CATEGORY_ORDER
    return order.index(spec.category) if spec.category in order else len(order)


@final
class _Catalog(Room, Mapping[str, NodeSpec]):
    """The package as a mapping over the registry."""

    def __getitem__(self, type: str) -> NodeSpec:
        return registry[type]

    def __contains__(self, type: object) -> bool:
        return type in registry

    if not TYPE_CHECKING:  # for a type checker, the module would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            answer = f'. Write pn.catalog["{name}"]' if name in registry else f".{meant(name, (), Habits('catalog'))}"
            raise AttributeError(f"the catalogue has no attribute {name!r}{answer}")

    def __iter__(self) -> Iterator[str]:
        return iter(registry)

    def __len__(self) -> int:
        return len(registry)

    def __repr__(self) -> str:
        counts = Counter(spec.category for spec in self.values())
        listed = ", ".join(f"{category} {count}" for category, count in counts.items())
        return f'Catalogue of {len(self)} node types: {listed}. catalog["Linear"] shows one.'

    def _ipython_key_completions_(self) -> list[str]:
        """Return the types that ``pn.catalog["`` can be completed to."""
        return list(self)

    # Tools keep modules in sets (hypothesis does): a module equals itself and nothing else.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


sys.modules[__name__].__class__ = _Catalog
