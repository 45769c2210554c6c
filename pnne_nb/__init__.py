"""Draw a neural network in a notebook cell, train it, and watch it learn.

``import pnne_nb as pn`` imports neither torch nor Jupyter: each name below is imported when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from pnne_nb.graph.registry import registry
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.inspector.drawing import LayerView, install_drawer
from pnne_nb.version import __version__ as __version__

if TYPE_CHECKING:
    from pnne_nb.catalog import register_node
    from pnne_nb.compiler import (
        Explanation,
        MemoryPlan,
        TensorSpec,
        TorchCompiler,
        VerificationReport,
        detect_anomaly,
        explain,
        from_module,
        infer_shapes,
        passes,
        plan_memory,
        to_source,
        transform,
        verify,
    )
    from pnne_nb.compiler import compile as compile  # the name of the contract
    from pnne_nb.errors import (
        ArgumentError,
        BadValueError,
        CheckpointError,
        CompileError,
        CycleError,
        Diagnostic,
        ExecutionError,
        GraphError,
        GraphFileAccessError,
        GraphFileError,
        GraphFileNotFoundError,
        IllegalNameError,
        InspectionError,
        KindMismatchError,
        LayerNotFoundError,
        NameTakenError,
        PassError,
        PnneError,
        PortTakenError,
        ProtocolError,
        RegistrationError,
        ShapeError,
        StaleVersionError,
        TargetError,
        TrainingError,
        UnknownFrameError,
        UnknownGraphError,
        UnknownNodeError,
        UnknownPortError,
        UnknownPropertyError,
        UnknownSeriesError,
        UnknownTypeError,
    )
    from pnne_nb.graph.blocks import blocks
    from pnne_nb.graph.document import NodeGraph
    from pnne_nb.graph.node import Edge, Node, Transaction
    from pnne_nb.inspector.checks import check_gradients, check_numerics
    from pnne_nb.inspector.diagnosis import Finding, diagnose
    from pnne_nb.inspector.inspector import Inspector
    from pnne_nb.inspector.profiling import profile
    from pnne_nb.inspector.summary import summary
    from pnne_nb.inspector.timing import benchmark
    from pnne_nb.runtime.datasets import register_dataset
    from pnne_nb.runtime.devices import DeviceManager
    from pnne_nb.runtime.engine import TrainingEngine
    from pnne_nb.runtime.inference import InferenceEngine, Prediction
    from pnne_nb.widgets.dashboard import TrainingDashboard
    from pnne_nb.widgets.editor import GraphEditor
    from pnne_nb.widgets.explorer import ModuleExplorer

    # The package itself is the mapping: its module has a class of its own.
    catalog: Mapping[str, NodeSpec]

__all__ = [
    "ArgumentError",
    "BadValueError",
    "CheckpointError",
    "CompileError",
    "CycleError",
    "DeviceManager",
    "Diagnostic",
    "Edge",
    "ExecutionError",
    "Explanation",
    "Finding",
    "GraphEditor",
    "GraphError",
    "GraphFileAccessError",
    "GraphFileError",
    "GraphFileNotFoundError",
    "IllegalNameError",
    "InferenceEngine",
    "InspectionError",
    "Inspector",
    "KindMismatchError",
    "LayerNotFoundError",
    "MemoryPlan",
    "ModuleExplorer",
    "NameTakenError",
    "Node",
    "NodeGraph",
    "NodeSpec",
    "PassError",
    "PnneError",
    "PortTakenError",
    "Prediction",
    "ProtocolError",
    "RegistrationError",
    "ShapeError",
    "StaleVersionError",
    "TargetError",
    "TensorSpec",
    "TorchCompiler",
    "TrainingDashboard",
    "TrainingEngine",
    "TrainingError",
    "Transaction",
    "UnknownFrameError",
    "UnknownGraphError",
    "UnknownNodeError",
    "UnknownPortError",
    "UnknownPropertyError",
    "UnknownSeriesError",
    "UnknownTypeError",
    "VerificationReport",
    "benchmark",
    "blocks",
    "catalog",
    "check_gradients",
    "check_numerics",
    "compile",
    "detect_anomaly",
    "diagnose",
    "explain",
    "from_module",
    "infer_shapes",
    "passes",
    "plan_memory",
    "profile",
    "register_dataset",
    "register_node",
    "summary",
    "to_source",
    "transform",
    "verify",
]

_MODULES = {
    "compiler": (
        "Explanation MemoryPlan TensorSpec TorchCompiler VerificationReport compile detect_anomaly explain from_module "
        "infer_shapes passes plan_memory to_source transform verify"
    ),
    "catalog": "register_node",
    "errors": (
        "ArgumentError BadValueError CheckpointError CompileError CycleError Diagnostic ExecutionError GraphError "
        "GraphFileAccessError GraphFileError GraphFileNotFoundError IllegalNameError InspectionError "
        "KindMismatchError LayerNotFoundError NameTakenError PassError PnneError PortTakenError ProtocolError "
        "RegistrationError ShapeError StaleVersionError TargetError TrainingError UnknownFrameError UnknownGraphError "
        "UnknownNodeError UnknownPortError UnknownPropertyError UnknownSeriesError UnknownTypeError"
    ),
    "graph.blocks": "blocks",
    "graph.document": "NodeGraph",
    "graph.node": "Edge Node Transaction",
    "runtime.datasets": "register_dataset",
    "runtime.devices": "DeviceManager",
    "runtime.engine": "TrainingEngine",
    "runtime.inference": "InferenceEngine Prediction",
    "widgets.dashboard": "TrainingDashboard",
    "widgets.editor": "GraphEditor",
    "widgets.explorer": "ModuleExplorer",
    "inspector.checks": "check_gradients check_numerics",
    "inspector.diagnosis": "Finding diagnose",
    "inspector.inspector": "Inspector",
    "inspector.profiling": "profile",
    "inspector.summary": "summary",
    "inspector.timing": "benchmark",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "catalog":
        return import_module("pnne_nb.catalog")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"pnne_nb.{_HOMES[name]}"), name)
    globals()[name] = value
    if name == "TrainingEngine" and "IPython" in sys.modules:
        # A cell that uses the live model parks its training, and only widgets/ knows cells.
        import_module("pnne_nb.widgets.cells").watch_cells()
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _torch_types() -> Iterable[NodeSpec]:
    return import_module("pnne_nb.catalog").specs()  # type: ignore[no-any-return]  # imported late on purpose


def _torch_operator(type: str) -> NodeSpec | None:
    return import_module("pnne_nb.catalog").operator(type)  # type: ignore[no-any-return]  # as above


def _draw_layer(view: LayerView) -> object:
    return import_module("pnne_nb.widgets.layer_plot").draw_layer(view)


registry.provide(_torch_types)
registry.find(_torch_operator)
install_drawer(_draw_layer)
