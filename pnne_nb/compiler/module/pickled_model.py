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
from pnne_nb.compiler.codegen.model_document import ModelDocument
from pnne_nb.compiler.weights.weight_source import keep_given
from pnne_nb.graph.document import NodeGraph

KEPT = 16
"""Documents of pickled models that are kept, because several parts or copies of a model follow each other."""


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


def make_portable(loaded: Loaded, document: ModelDocument, restore: Callable[..., nn.Module]) -> None:
    """Pickle and copy models of a class as their document and their tensors.

    A pickle calls `restore`, a function of a module, with the blueprint and the last two arguments of `empty`.
    """
    if loaded.document is not None:
        return
    loaded.document = document

    for definition, name in loaded.generated.classes.items():

        def reduce(
            self: nn.Module, _: SupportsIndex, part: str = f".{name}" if definition else ""
        ) -> tuple[object, ...]:
            own = () if part else filter(None, (loader.own_class(self),))
            of = _blueprint(loaded.key, (loaded.instances.get(self) or document).text)
            return restore, (of, part, *own), self.__getstate__()  # type: ignore[no-untyped-call]  # torch leaves it untyped

        getattr(loaded.module, name).__reduce_ex__ = reduce  # as object's, but for this class
    loaded.cls.__deepcopy__ = None  # type: ignore[attr-defined]  # that of a class that it is of too knows nothing of it


@functools.lru_cache(maxsize=KEPT)
def _blueprint(key: str, document: str) -> PickledModel:
    """Return one object for equal ones, so that a pickle holds it once."""
    return PickledModel(key, document)


def empty(
    blueprint: PickledModel, load: Callable[[NodeGraph], Loaded], part: str, own: type[nn.Module] | None
) -> nn.Module:
    """Return a model, or a `part`, without state, for unpickling.

    Args:
        blueprint: Of the model.
        load: Returns the class of a document.
        part: The name of a part's class behind a dot, or, as earlier versions wrote it, the id of its definition.
        own: The class of the module that the model itself is, if its graph keeps one as it is.
    """
    loaded = loader.find(blueprint.key) or _restored.get(blueprint.key)
    if loaded is None:
        loaded = _restored[blueprint.key] = load(NodeGraph.from_json(blueprint.document))
    if part:
        return loaded.empty_part(part[1:] if part.startswith(".") else loaded.generated.classes[part])
    return loaded.empty(_document(blueprint.document), own)


@functools.lru_cache(maxsize=KEPT)
def _document(text: str) -> ModelDocument:
    return ModelDocument.of_text(text)


def graph_of(model: nn.Module) -> NodeGraph | None:
    """Return the document that a compiled model was made of, which knows the model's weights; None for other modules."""
    document = loader.document_of(model)
    if document is None:
        return None
    graph = document.graph()
    keep_given(graph, model, f"the model {graph.name}")
    return graph
