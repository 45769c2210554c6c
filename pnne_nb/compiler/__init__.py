"""Compiles a document to a readable ``nn.Module`` and imports modules as documents; infers shapes; names failing nodes."""

from pnne_nb.compiler import passes as passes
from pnne_nb.compiler.analysis.memory_plan import MemoryPlan as MemoryPlan
from pnne_nb.compiler.analysis.memory_plan import plan_memory as plan_memory
from pnne_nb.compiler.analysis.nan_locator import detect_anomaly as detect_anomaly
from pnne_nb.compiler.analysis.verify import VerificationReport as VerificationReport
from pnne_nb.compiler.analysis.verify import verify as verify
from pnne_nb.compiler.importing import UnprovedImport as UnprovedImport
from pnne_nb.compiler.importing import from_module as from_module
from pnne_nb.compiler.module.call_errors import blame as blame
from pnne_nb.compiler.passes.pass_manager import optimize_for_inference as optimize_for_inference
from pnne_nb.compiler.passes.pass_manager import transform as transform
from pnne_nb.compiler.pipeline.compile import compile as compile  # the contract's name
from pnne_nb.compiler.pipeline.compile import load_weights as load_weights
from pnne_nb.compiler.pipeline.compile import to_source as to_source
from pnne_nb.compiler.pipeline.incremental import IncrementalAnalysis as IncrementalAnalysis
from pnne_nb.compiler.shapes.infer import TensorSpec as TensorSpec
from pnne_nb.compiler.shapes.infer import infer_shapes as infer_shapes
from pnne_nb.compiler.torch_compiler import TorchCompiler as TorchCompiler
from pnne_nb.compiler.weights.weight_report import WeightReport as WeightReport
