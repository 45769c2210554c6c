"""Draw a neural network in a notebook cell, train it, and watch it learn.

``import pnne_nb as pn`` imports neither torch nor Jupyter: each name below is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from pnne_nb.graph.registry import registry
from pnne_nb.graph.spec import NodeSpec

if TYPE_CHECKING:
    from pnne_nb import catalog
    from pnne_nb.catalog import register_node
    from pnne_nb.errors import (
        BadValueError,
        CheckpointError,
        CompileError,
        CycleError,
        Diagnostic,
        ExecutionError,
        GraphError,
        GraphFileError,
        IllegalNameError,
        KindMismatchError,
        LayerNotFoundError,
        NameTakenError,
        PnneError,
        PortTakenError,
        ProtocolError,
        RegistrationError,
        ShapeError,
        StaleVersionError,
        TrainingError,
        UnknownNodeError,
        UnknownPortError,
        UnknownPropertyError,
        UnknownTypeError,
    )
    from pnne_nb.graph.document import NodeGraph
    from pnne_nb.graph.node import Edge, Node, Transaction

__version__ = "0.1.0"

__all__ = [
    "BadValueError",
    "CheckpointError",
    "CompileError",
    "CycleError",
    "Diagnostic",
    "Edge",
    "ExecutionError",
    "GraphError",
    "GraphFileError",
    "IllegalNameError",
    "KindMismatchError",
    "LayerNotFoundError",
    "NameTakenError",
    "Node",
    "NodeGraph",
    "NodeSpec",
    "PnneError",
    "PortTakenError",
    "ProtocolError",
    "RegistrationError",
    "ShapeError",
    "StaleVersionError",
    "TrainingError",
    "Transaction",
    "UnknownNodeError",
    "UnknownPortError",
    "UnknownPropertyError",
    "UnknownTypeError",
    "catalog",
    "register_node",
]

_MODULES = {
    "catalog": "register_node",
    "errors": (
        "BadValueError CheckpointError CompileError CycleError Diagnostic ExecutionError GraphError GraphFileError "
        "IllegalNameError KindMismatchError LayerNotFoundError NameTakenError PnneError PortTakenError ProtocolError "
        "RegistrationError ShapeError StaleVersionError TrainingError UnknownNodeError UnknownPortError "
        "UnknownPropertyError UnknownTypeError"
    ),
    "graph.document": "NodeGraph",
    "graph.node": "Edge Node Transaction",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "catalog":
        return import_module("pnne_nb.catalog")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"pnne_nb.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _torch_types() -> Iterable[NodeSpec]:
    return import_module("pnne_nb.catalog").specs()  # type: ignore[no-any-return]  # imported late on purpose


registry.provide(_torch_types)
