"""Pickles and copies models as their document and their tensors, without code."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import SupportsIndex

import msgspec
from torch import nn

from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.codegen.loader import Loaded
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.storage import json_format
from pnne_nb.graph.storage.json_format import DocumentState


class PickledModel(msgspec.Struct, frozen=True):
    """Identifies the class of a pickled model, in this process or in another.

    Attributes:
        key: Of the class in the process that wrote the pickle.
        document: The graph file that it is compiled from.
    """

    key: str
    document: str


_restored: weakref.WeakValueDictionary[str, Loaded] = weakref.WeakValueDictionary()
"""Classes that came from other processes, by their keys there: keys differ where registered objects are used."""


def forget() -> None:
    """Drop the classes that came from other processes."""
    _restored.clear()


def make_portable(loaded: Loaded, document: Callable[[], DocumentState], restore: Callable[..., nn.Module]) -> None:
    """Pickle and copy models of a class as their document and their tensors.

    A pickle calls `restore`, a function of a module, with the blueprint and the last two arguments of `empty`.
    """
    if loaded.document is not None:
        return
    loaded.document = document

    @functools.cache
    def blueprint() -> PickledModel:
        return PickledModel(loaded.key, json_format.write(document()))  # one object, so that a pickle holds it once

    for definition, name in loaded.generated.classes.items():

        def reduce(self: nn.Module, _: SupportsIndex, definition: str = definition) -> tuple[object, ...]:
            own = () if definition else filter(None, (loader.own_class(self),))
            return restore, (blueprint(), definition, *own), self.__getstate__()  # type: ignore[no-untyped-call]  # torch leaves it untyped

        getattr(loaded.module, name).__reduce_ex__ = reduce  # as object's, but for this class
    loaded.cls.__deepcopy__ = None  # type: ignore[attr-defined]  # that of a class that it is of too knows nothing of it


def empty(
    blueprint: PickledModel, load: Callable[[NodeGraph], Loaded], definition: str, own: type[nn.Module] | None
) -> nn.Module:
    """Return a model, or the part with a `definition`, without state, for unpickling.

    `own` is the class of the module that the model itself is, if its graph keeps one as it is.
    """
    loaded = loader.find(blueprint.key) or _restored.get(blueprint.key)
    if loaded is None:
        loaded = _restored[blueprint.key] = load(NodeGraph.from_json(blueprint.document))
    return loaded.empty_part(definition) if definition else loaded.empty(own)
