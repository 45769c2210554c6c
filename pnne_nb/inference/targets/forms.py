"""The deployment forms of a model: each builds a callable, or says why it is not available here."""

from __future__ import annotations

import copy
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.shapes.cost import state_bytes
from pnne_nb.errors import ExportError, PnneError
from pnne_nb.export.attempt import attempt
from pnne_nb.export.formats import find_format, require_packages
from pnne_nb.export.formats.base import as_array
from pnne_nb.export.proof.fresh_process import peak_memory
from pnne_nb.export.quantization.quantization_report import QuantizationReport
from pnne_nb.inference.exported import open_exported
from pnne_nb.inspector.tools.profile import peak_allocated
from pnne_nb.process.quiet import quiet

GPU = "gpu"

Outputs = Any
Run = Callable[..., Outputs]


@dataclass(frozen=True, slots=True)
class NodeDistance:
    """The largest distance between the values of a form and of the model, in their unit.

    Attributes:
        value: The distance.
        node: The drawn node with it; ``"output"`` where a form has no drawn nodes.
    """

    value: float
    node: str


@dataclass(frozen=True, slots=True)
class Built:
    """A form of the model that can be called.

    Attributes:
        run: Takes the inputs, and returns the outputs.
        bytes: Of its file, or of its weights where there is no file.
        memory: Bytes that it needs at most for one batch; None if that cannot be told here.
        error: The node that is furthest off; None for the model itself.
        close: Frees what it holds.
    """

    run: Run
    bytes: int
    memory: int | None = None
    error: NodeDistance | None = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Workshop:
    """The inputs for building forms: the `model` is in eval mode on the CPU, the batch `inputs` is timed.

    The model in int8, `quantized`, is made when it is first asked for.
    """

    model: nn.Module
    inputs: tuple[Tensor, ...]
    folder: Path
    quantized: Callable[[], QuantizationReport]
    expected: Outputs = field(default=None)


@dataclass(frozen=True, slots=True)
class Form:
    """One form.

    Attributes:
        needs: What the machine that runs it needs.
        slow: Whether building takes minutes.
        precision: What the layers compute in: ``"float32"``, or what the model is converted to.
        device: Where it runs: ``"cpu"``, or `GPU`.
    """

    name: str
    needs: str
    build: Callable[[Workshop], Built]
    slow: bool = False
    precision: str = "float32"
    device: str = "cpu"


def _eager(shop: Workshop, model: nn.Module, mode: type[torch.no_grad | torch.inference_mode]) -> Built:
    def run(*inputs: Tensor) -> Outputs:
        with mode():
            return model(*inputs)

    return Built(run, state_bytes(model), _tensors(shop, model, run))


def _channels_last(shop: Workshop) -> Built:
    model = copy.deepcopy(shop.model)
    if any(part.dim() == 4 for part in shop.inputs):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch has no overload for it alone

    def run(*inputs: Tensor) -> Outputs:
        laid = [part.contiguous(memory_format=torch.channels_last) if part.dim() == 4 else part for part in inputs]
        with torch.inference_mode():
            return model(*laid)

    return Built(run, state_bytes(model), _tensors(shop, model, run), distance(shop, run))


def _compiled(shop: Workshop, model: nn.Module) -> Built:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        raise ExportError("torch.compile needs a C++ compiler, and there is no g++ or clang++ here.")
    twin = copy.deepcopy(model)

    def call(*inputs: Tensor) -> Outputs:
        return twin(*inputs)

    # After a few compilations of the same code, dynamo runs it as it is; code of its own is counted anew.
    call.__code__ = call.__code__.replace()
    compiled = torch.compile(call, dynamic=False)

    def run(*inputs: Tensor) -> Outputs:
        with torch.inference_mode():
            return compiled(*inputs)

    from torch._inductor import config  # noqa: PLC0415  # takes seconds

    # Constants such as int8 weights become part of the kernels; the setting is put back after the first call.
    with config.patch(freezing=True), quiet():
        run(*shop.inputs)
    return Built(run, state_bytes(model), _tensors(shop, model, run), distance(shop, run))


def _int8_compiled(shop: Workshop) -> Built:
    report = _converted(shop)
    return _with_worst_node(shop, _compiled(shop, report.model), report)


def _int8_eager(shop: Workshop) -> Built:
    report = _converted(shop)
    return _with_worst_node(shop, _eager(shop, report.model, torch.inference_mode), report)


def _converted(shop: Workshop) -> QuantizationReport:
    report = shop.quantized()
    if not report.converted:
        reasons = "; ".join(dict.fromkeys(f"{path}: {node.reason}" for path, node in report.nodes.items()))
        raise ExportError(f"No node can be converted to int8. {reasons}")
    return report


def _file(format: str, name: str) -> Callable[[Workshop], Built]:
    return lambda shop: _exported(shop, shop.model, format, name)


def _int8_onnx(shop: Workshop) -> Built:
    report = _converted(shop)
    return _with_worst_node(shop, _exported(shop, report.model, "onnx", "int8.onnx"), report)


def _with_worst_node(shop: Workshop, built: Built, report: QuantizationReport) -> Built:
    """Return a form of lower precision with the largest error of a converted node, or of the outputs if that is larger."""
    nodes = [NodeDistance(node.worst or 0.0, path) for path, node in report.nodes.items() if path in report.converted]
    return replace(built, error=max([distance(shop, built.run), *nodes], key=lambda each: each.value))


def _exported(shop: Workshop, model: nn.Module, format: str, name: str) -> Built:
    path = shop.folder / name
    found = find_format(format, path)
    require_packages(found)
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        report = attempt(model, found, path, shop.inputs)
        opened = open_exported(path, format, trust=True)
    known = [node for node in report.nodes.values() if node.difference is not None]
    worst = max(known, key=lambda node: node.difference.error if node.difference else 0.0, default=None)
    batch = {info.name: as_array(part) for info, part in zip(opened.inputs, shop.inputs, strict=True)}
    error = (
        distance(shop, opened)
        if worst is None or worst.difference is None
        else NodeDistance(worst.difference.error, worst.node)
    )
    return Built(opened, report.bytes, peak_memory(found, path, batch), error, opened.close)


FORMS: tuple[Form, ...] = (
    Form("eager", "PyTorch", lambda shop: _eager(shop, shop.model, torch.no_grad)),
    Form("inference_mode, channels_last", "PyTorch", _channels_last),
    Form("ONNX Runtime", "ONNX Runtime", _file("onnx", "model.onnx")),
    Form("ONNX Runtime, int8", "ONNX Runtime", _int8_onnx, precision="int8"),
    Form("int8 in eager PyTorch", "PyTorch", _int8_eager, precision="int8"),
    Form("torch.compile", "PyTorch and a C++ compiler", lambda shop: _compiled(shop, shop.model)),
    Form("torch.compile, int8", "PyTorch and a C++ compiler", _int8_compiled, precision="int8"),
    Form("ExecuTorch", "the ExecuTorch runtime", _file("executorch", "model.pte"), slow=True),
    Form("AOTInductor", "libtorch, and a processor of the same kind", _file("aoti", "model_aoti.pt2"), slow=True),
)
"""In the order in which they are built: what takes seconds first."""


@contextmanager
def workshop(
    model: nn.Module, inputs: tuple[Tensor, ...], quantized: Callable[[], QuantizationReport]
) -> Iterator[Workshop]:
    """Yield the inputs for building forms; its files are removed at the end."""
    with torch.no_grad():
        expected = model(*inputs)
    with tempfile.TemporaryDirectory(prefix="pnne-targets-") as name:
        yield Workshop(model, inputs, Path(name), quantized, expected)


def why_not(error: BaseException) -> str:
    """Return in a sentence why a form could not be built."""
    said = error.message if isinstance(error, PnneError) else f"{type(error).__name__}: {error}"
    return " ".join(said.partition("\n")[0].split())[:300]


def largest_gap(expected: Outputs, found: Outputs) -> float:
    """Return the largest distance of two results of a model."""
    pairs = zip(_leaves(expected), _leaves(found), strict=True)
    return max((float((one.double() - other.double()).abs().max()) for one, other in pairs if one.numel()), default=0.0)


def largest_value(outputs: Outputs) -> float:
    """Return the largest magnitude in a result of a model."""
    return max((float(leaf.double().abs().max()) for leaf in _leaves(outputs) if leaf.numel()), default=0.0)


def distance(shop: Workshop, run: Run) -> NodeDistance:
    """Return how far a form's outputs are from those of the model that the workshop expects."""
    return NodeDistance(largest_gap(shop.expected, run(*shop.inputs)), "output")


def _leaves(value: Outputs) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _tensors(shop: Workshop, model: nn.Module, run: Run) -> int | None:
    """Return the bytes of weights, inputs and a call's peak allocation; None while another profiler runs."""
    run(*shop.inputs)  # a first call allocates what stays
    allocated = peak_allocated(lambda: run(*shop.inputs))
    return None if allocated is None else state_bytes(model) + sum(part.nbytes for part in shop.inputs) + allocated
