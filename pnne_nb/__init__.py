"""Draw a neural network in a notebook cell, train it, and watch it learn.

``import pnne_nb as pn`` imports neither torch nor Jupyter: each name below is imported when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pnne_nb.errors import (
    ArgumentError,
    BadValueError,
    CheckpointError,
    CompileError,
    CycleError,
    Diagnostic,
    ExecutionError,
    ExportError,
    GraphChangedError,
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
    Room,
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
    answers_misuse,
    asked_further,
    meant,
    usage_of,
)
from pnne_nb.graph.schema.analysis_hook import GraphAnalysis, install_analysis
from pnne_nb.graph.schema.habits import node_called
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.habits import FUNCTIONS
from pnne_nb.process import __version__ as __version__
from pnne_nb.process.background_import import import_in_background, imported_late
from pnne_nb.telemetry.plot_hook import install_plots

if TYPE_CHECKING:
    from pnne_nb.catalog import register_node
    from pnne_nb.compiler import (
        MemoryPlan,
        TensorSpec,
        TorchCompiler,
        VerificationReport,
        WeightReport,
        detect_anomaly,
        from_module,
        infer_shapes,
        load_weights,
        optimize_for_inference,
        passes,
        plan_memory,
        to_source,
        transform,
        verify,
    )
    from pnne_nb.compiler import compile as compile  # the name of the contract
    from pnne_nb.debugging.track import hugging_face_callback, lightning_callback, track
    from pnne_nb.debugging.training_monitor import TrainingMonitor
    from pnne_nb.diagnosis.explain import Explanation, explain
    from pnne_nb.diagnosis.fault import Fault
    from pnne_nb.diagnosis.finding import Finding
    from pnne_nb.diagnosis.judge import diagnose
    from pnne_nb.diagnosis.rules import register_rule
    from pnne_nb.export.export_report import ExportReport
    from pnne_nb.export.exporter import check_export
    from pnne_nb.export.exporter import export_model as export  # the package itself is the function, as below
    from pnne_nb.export.formats import register_format
    from pnne_nb.export.formats.base import ExportFormat
    from pnne_nb.export.package.load import load
    from pnne_nb.export.package.save import save
    from pnne_nb.export.quantization.quantization_report import QuantizationReport
    from pnne_nb.graph.block_library import blocks
    from pnne_nb.graph.difference import GraphDifference, NodeDifference, assert_unchanged, diff
    from pnne_nb.graph.document import NodeGraph
    from pnne_nb.graph.layout.cards import Resolved
    from pnne_nb.graph.model.node import Edge, Node, Transaction
    from pnne_nb.graph.render.scene import Shapes
    from pnne_nb.graph.sequential import sequential
    from pnne_nb.inference.generate import generate
    from pnne_nb.inference.inference_engine import InferenceEngine, Prediction
    from pnne_nb.inference.quantize import quantize
    from pnne_nb.inference.targets.compare import compare_targets
    from pnne_nb.inference.targets.target_table import TargetTable
    from pnne_nb.inspector.inspector import Inspector
    from pnne_nb.inspector.questions.attribute import Attribution, attribute
    from pnne_nb.inspector.questions.changes import Change, clamp, mean, patch, scale, zero
    from pnne_nb.inspector.questions.explain_value import ValueExplanation, explain_value
    from pnne_nb.inspector.questions.intervene import Intervention, intervene, keep
    from pnne_nb.inspector.questions.patch_effects import PatchEffects, patch_effects
    from pnne_nb.inspector.questions.receptive_field import ReceptiveField, receptive_field
    from pnne_nb.inspector.representations.compare_layers import LayerComparison, compare_layers
    from pnne_nb.inspector.representations.logit_lens import LogitLens, logit_lens
    from pnne_nb.inspector.representations.project import Projection, project
    from pnne_nb.inspector.tools.benchmark import benchmark
    from pnne_nb.inspector.tools.checks import check_gradients, check_numerics
    from pnne_nb.inspector.tools.profile import profile
    from pnne_nb.inspector.tools.summary import summary
    from pnne_nb.protocol.messages import NodeMark
    from pnne_nb.runtime import runs
    from pnne_nb.runtime.data.columns import columns
    from pnne_nb.runtime.data.datasets import register_dataset
    from pnne_nb.runtime.data.image_folder import images
    from pnne_nb.runtime.data.packaged_data import datasets
    from pnne_nb.runtime.engine import TrainingEngine
    from pnne_nb.runtime.evaluation import confusion, worst
    from pnne_nb.runtime.learning_rate import find_learning_rate
    from pnne_nb.runtime.monitoring.probes import register_probe
    from pnne_nb.runtime.run_table import RunTable, compare
    from pnne_nb.runtime.script.to_script import to_script
    from pnne_nb.runtime.setup.devices import DeviceManager
    from pnne_nb.runtime.sweep import sweep
    from pnne_nb.widgets.dashboard.dashboard import TrainingDashboard
    from pnne_nb.widgets.dashboard.decision_surface import DecisionSurface
    from pnne_nb.widgets.dashboard.learning_rate_finder import LearningRateFinder
    from pnne_nb.widgets.editor.editor import GraphEditor
    from pnne_nb.widgets.explorer.explorer import ModuleExplorer
    from pnne_nb.widgets.explorer.panel import register_field
    from pnne_nb.widgets.host.setup_check import check_setup
    from pnne_nb.widgets.shipping.app import app
    from pnne_nb.widgets.shipping.quantization_editor import QuantizationEditor
    from pnne_nb.widgets.shipping.target_dashboard import TargetDashboard

    # The package itself is the mapping: its module has a class of its own.
    catalog: Mapping[str, NodeSpec]

__all__ = [
    "ArgumentError",
    "Attribution",
    "BadValueError",
    "Change",
    "CheckpointError",
    "CompileError",
    "CycleError",
    "DecisionSurface",
    "DeviceManager",
    "Diagnostic",
    "Edge",
    "ExecutionError",
    "Explanation",
    "ExportError",
    "ExportFormat",
    "ExportReport",
    "Fault",
    "Finding",
    "GraphChangedError",
    "GraphDifference",
    "GraphEditor",
    "GraphError",
    "GraphFileAccessError",
    "GraphFileError",
    "GraphFileNotFoundError",
    "IllegalNameError",
    "InferenceEngine",
    "InspectionError",
    "Inspector",
    "Intervention",
    "KindMismatchError",
    "LayerComparison",
    "LayerNotFoundError",
    "LearningRateFinder",
    "LogitLens",
    "MemoryPlan",
    "ModuleExplorer",
    "NameTakenError",
    "Node",
    "NodeDifference",
    "NodeGraph",
    "NodeMark",
    "NodeSpec",
    "PassError",
    "PatchEffects",
    "PnneError",
    "PortTakenError",
    "Prediction",
    "Projection",
    "ProtocolError",
    "QuantizationEditor",
    "QuantizationReport",
    "ReceptiveField",
    "RegistrationError",
    "RunTable",
    "ShapeError",
    "StaleVersionError",
    "TargetDashboard",
    "TargetError",
    "TargetTable",
    "TensorSpec",
    "TorchCompiler",
    "TrainingDashboard",
    "TrainingEngine",
    "TrainingError",
    "TrainingMonitor",
    "Transaction",
    "UnknownFrameError",
    "UnknownGraphError",
    "UnknownNodeError",
    "UnknownPortError",
    "UnknownPropertyError",
    "UnknownSeriesError",
    "UnknownTypeError",
    "ValueExplanation",
    "VerificationReport",
    "WeightReport",
    "app",
    "assert_unchanged",
    "attribute",
    "benchmark",
    "blocks",
    "catalog",
    "check_export",
    "check_gradients",
    "check_numerics",
    "check_setup",
    "clamp",
    "columns",
    "compare",
    "compare_layers",
    "compare_targets",
    "compile",
    "confusion",
    "datasets",
    "detect_anomaly",
    "diagnose",
    "diff",
    "explain",
    "explain_value",
    "export",
    "find_learning_rate",
    "from_module",
    "generate",
    "hugging_face_callback",
    "images",
    "infer_shapes",
    "intervene",
    "keep",
    "lightning_callback",
    "load",
    "load_weights",
    "logit_lens",
    "mean",
    "optimize_for_inference",
    "passes",
    "patch",
    "patch_effects",
    "plan_memory",
    "profile",
    "project",
    "quantize",
    "receptive_field",
    "register_dataset",
    "register_field",
    "register_format",
    "register_node",
    "register_probe",
    "register_rule",
    "runs",
    "save",
    "scale",
    "sequential",
    "summary",
    "sweep",
    "to_script",
    "to_source",
    "track",
    "transform",
    "verify",
    "worst",
    "zero",
]

_MODULES = {
    "compiler": (
        "MemoryPlan TensorSpec TorchCompiler VerificationReport compile detect_anomaly from_module "
        "WeightReport infer_shapes load_weights optimize_for_inference passes plan_memory to_source transform verify"
    ),
    "catalog": "register_node",
    "export.exporter": "check_export",
    "export.package.load": "load",
    "export.package.save": "save",
    "export.export_report": "ExportReport",
    "graph.block_library": "blocks",
    "graph.difference": "GraphDifference NodeDifference assert_unchanged diff",
    "graph.document": "NodeGraph",
    "graph.sequential": "sequential",
    "graph.model.node": "Edge Node Transaction",
    "runtime.data.columns": "columns",
    "runtime.data.datasets": "register_dataset",
    "runtime.monitoring.probes": "register_probe",
    "runtime.data.image_folder": "images",
    "runtime.data.packaged_data": "datasets",
    "runtime.script.to_script": "to_script",
    "runtime.setup.devices": "DeviceManager",
    "runtime.engine": "TrainingEngine",
    "runtime.evaluation": "confusion worst",
    "runtime.learning_rate": "find_learning_rate",
    "runtime.run_table": "RunTable compare",
    "runtime.sweep": "sweep",
    "export.quantization.quantization_report": "QuantizationReport",
    "inference.generate": "generate",
    "inference.inference_engine": "InferenceEngine Prediction",
    "inference.quantize": "quantize",
    "inference.targets.compare": "compare_targets",
    "inference.targets.target_table": "TargetTable",
    "widgets.shipping.app": "app",
    "widgets.dashboard.dashboard": "TrainingDashboard",
    "widgets.dashboard.decision_surface": "DecisionSurface",
    "widgets.dashboard.learning_rate_finder": "LearningRateFinder",
    "widgets.editor.editor": "GraphEditor",
    "widgets.explorer.explorer": "ModuleExplorer",
    "widgets.explorer.panel": "register_field",
    "widgets.host.setup_check": "check_setup",
    "widgets.shipping.quantization_editor": "QuantizationEditor",
    "widgets.shipping.target_dashboard": "TargetDashboard",
    "protocol.messages": "NodeMark",
    "inspector.tools.checks": "check_gradients check_numerics",
    "diagnosis.judge": "diagnose",
    "diagnosis.explain": "Explanation explain",
    "diagnosis.finding": "Finding",
    "diagnosis.rules": "register_rule",
    "export.formats": "register_format",
    "export.formats.base": "ExportFormat",
    "debugging.training_monitor": "TrainingMonitor",
    "debugging.track": "hugging_face_callback lightning_callback track",
    "diagnosis.fault": "Fault",
    "inspector.inspector": "Inspector",
    "inspector.questions.attribute": "Attribution attribute",
    "inspector.questions.changes": "Change clamp mean patch scale zero",
    "inspector.questions.explain_value": "ValueExplanation explain_value",
    "inspector.questions.intervene": "Intervention intervene keep",
    "inspector.questions.patch_effects": "PatchEffects patch_effects",
    "inspector.questions.receptive_field": "ReceptiveField receptive_field",
    "inspector.representations.compare_layers": "LayerComparison compare_layers",
    "inspector.representations.logit_lens": "LogitLens logit_lens",
    "inspector.representations.project": "Projection project",
    "inspector.tools.profile": "profile",
    "inspector.tools.summary": "summary",
    "inspector.tools.benchmark": "benchmark",
}
_WHOLE = {"catalog": "catalog", "export": "export", "runs": "runtime.runs"}
"""Modules that are themselves what the name stands for."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name in _WHOLE:
        return imported_late(f"pnne_nb.{_WHOLE[name]}")
    if name not in _HOMES:
        # Of a package, what is in it is meant; of a class, the class.
        further = [] if name[:1].isupper() else asked_further(sys._getframe(1), name)
        asked = [answer for each in further if (answer := _elsewhere(each, ()))]
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}.{(asked or [_elsewhere(name, __all__)])[0]}"
        )
    value: object = getattr(imported_late(f"pnne_nb.{_HOMES[name]}"), name)
    if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
        value = answers_misuse(usage_of(value))(value)
    globals()[name] = value
    if name == "TrainingEngine" and "IPython" in sys.modules:
        # A cell that uses the live model parks its training, and only widgets/ knows cells.
        imported_late("pnne_nb.widgets.host.cell_events").watch_cells()
    if name in {"GraphEditor", "NodeGraph", "TrainingEngine", "from_module", "sequential"}:
        import_in_background()
    return value


def _elsewhere(name: str, known: Iterable[str]) -> str:
    """Return what to write instead of a name of another library, " Write …"; a layer of torch's is a node."""
    types = registry if "torch" in sys.modules else {}
    return node_called(name, types) or meant(name, known, FUNCTIONS)


def __dir__() -> list[str]:
    return list(__all__)


def _late(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is imported at the first call."""

    def call(*args: object, **kwargs: object) -> object:
        return getattr(imported_late(f"pnne_nb.{module}"), name)(*args, **kwargs)

    return call


def _shapes(graph: NodeGraph) -> tuple[Shapes, Resolved]:
    if len(graph) > imported_late("pnne_nb.graph.render.scene").FULL_DETAIL:
        return {}, {}  # of larger ones, no shapes are drawn
    found = imported_late("pnne_nb.compiler.shapes.infer").infer(graph, named=True)
    return found.tensors, found.resolved


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        """Let each package in this one answer as soon as the import has made it an attribute of this one."""
        if type(value) is ModuleType:
            value.__class__ = Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
for _room in [each for each in globals().values() if type(each) is ModuleType and each.__name__.startswith(__name__)]:
    _room.__class__ = Room


class _Plots:
    history = staticmethod(_late("widgets.plots.history_chart", "history_chart"))
    live = staticmethod(_late("widgets.dashboard.monitor_dashboard", "display_live"))
    layer = staticmethod(_late("widgets.plots.inspector_plot", "draw_layer"))

    @staticmethod
    def tiles(tiles: object, caption: str, *, signed: bool = False) -> str:
        drawn: str = imported_late("pnne_nb.widgets.host.images").picture(tiles, caption, signed=signed, width=600)
        return drawn


registry.provide(
    _late("catalog", "specs"), _late("catalog", "unlisted"), _late("compiler.importing.draft.layers", "described")
)
install_analysis(
    GraphAnalysis(
        _shapes, _late("inspector.tools.summary", "summary"), _late("compiler.weights.fixed_tables", "table_file")
    )
)
install_plots(_Plots())
