"""Document → program → readable source → ``nn.Module``; shapes while drawing; failures named after nodes."""

from pnne_nb.compiler import passes as passes
from pnne_nb.compiler.analysis import Analysis as Analysis
from pnne_nb.compiler.anomalies import detect_anomaly as detect_anomaly
from pnne_nb.compiler.compiling import compile as compile  # the contract's name
from pnne_nb.compiler.compiling import to_source as to_source
from pnne_nb.compiler.explaining import Explanation as Explanation
from pnne_nb.compiler.explaining import explain as explain
from pnne_nb.compiler.importing import from_module as from_module
from pnne_nb.compiler.memory import MemoryPlan as MemoryPlan
from pnne_nb.compiler.memory import plan_memory as plan_memory
from pnne_nb.compiler.passes.applying import transform as transform
from pnne_nb.compiler.running import blame as blame
from pnne_nb.compiler.shapes import TensorSpec as TensorSpec
from pnne_nb.compiler.shapes import infer_shapes as infer_shapes
from pnne_nb.compiler.torch_compiler import TorchCompiler as TorchCompiler
from pnne_nb.compiler.verifying import VerificationReport as VerificationReport
from pnne_nb.compiler.verifying import verify as verify
