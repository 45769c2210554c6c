"""Models as pickles, and copies: their document and their tensors travel, no code does."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import SupportsIndex

import msgspec
from torch import nn

from pnne_nb.compiler import loader
from pnne_nb.compiler.loader import Loaded
from pnne_nb.graph import files
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.records import DocumentState


class Blueprint(msgspec.Struct, frozen=True):
    """How a pickled model finds its class again, in this process or in another.

    Attributes:
        key: Of the class in the process that wrote the pickle.
        document: The graph file that it is compiled from.
    """

    key: str
    document: str


_restored: weakref.WeakValueDictionary[str, Loaded] = weakref.WeakValueDictionary()
"""What classes of other processes are here, by their keys there: these differ where registered objects are used."""


def forget() -> None:
    """Drop what is known of classes of other processes."""
    _restored.clear()


def make_portable(loaded: Loaded, document: Callable[[], DocumentState], restore: Callable[..., nn.Module]) -> None:
    """Have models of a class, and their nested ones, pickled and copied as their document and their tensors.

    Args:
        loaded: The class.
        document: Gives the document that it comes from.
        restore: What a pickle calls with the blueprint and what else `empty` takes: a function of a module.
    """
    if loaded.document is not None:
        return
    loaded.document = document

    @functools.cache
    def blueprint() -> Blueprint:
        return Blueprint(loaded.key, files.write(document()))  # one object, so that a pickle holds it once

    for definition, name in loaded.generated.classes.items():

        def reduce(self: nn.Module, _: SupportsIndex, definition: str = definition) -> tuple[object, ...]:
            own = () if definition else filter(None, (loader.own_class(self),))
            return restore, (blueprint(), definition, *own), self.__getstate__()  # type: ignore[no-untyped-call]

        getattr(loaded.module, name).__reduce_ex__ = reduce  # as object's, but for this class
    loaded.cls.__deepcopy__ = None  # type: ignore[attr-defined]  # that of a class that it is of too knows nothing of it


def empty(
    blueprint: Blueprint, load: Callable[[NodeGraph], Loaded], definition: str, own: type[nn.Module] | None
) -> nn.Module:
    """Return an empty model, or an empty part of one, for its state to be put into.

    Args:
        blueprint: Of the model.
        load: Makes the class of a document.
        definition: Of the part; an empty text for the whole model.
        own: The class of the module that the model itself is, if its graph keeps one as it is.
    """
    loaded = loader.find(blueprint.key) or _restored.get(blueprint.key)
    if loaded is None:
        loaded = _restored[blueprint.key] = load(NodeGraph.from_json(blueprint.document))
    return loaded.empty_part(definition) if definition else loaded.empty(own)
