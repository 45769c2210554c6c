"""The forms that a model can be shipped in: each builds something to call, or says why it cannot be had here."""

from __future__ import annotations

import copy
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.analysis.memory_plan import measure_memory
from pnne_nb.compiler.shapes.cost import state_bytes
from pnne_nb.errors import ExportError, PnneError
from pnne_nb.export.attempt import attempt
from pnne_nb.export.formats import find_format, require_packages
from pnne_nb.export.quantization.quantization_report import QuantizationReport
from pnne_nb.inference.exported import ExportedModule, open_exported
from pnne_nb.process.quiet import quiet

Outputs = Any
Run = Callable[..., Outputs]


@dataclass(frozen=True, slots=True)
class NodeDistance:
    """The largest distance between what a form computes and what the model computes.

    Attributes:
        value: The distance, in the unit of the values.
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
    """What forms are built from.

    Attributes:
        model: In eval mode on the CPU.
        inputs: The batch that is timed.
        folder: For files.
        quantized: The model in int8, made when it is first asked for.
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
        name: As the table has it.
        needs: What the machine that runs it needs.
        build: Builds it.
        slow: Whether building takes minutes.
    """

    name: str
    needs: str
    build: Callable[[Workshop], Built]
    slow: bool = False


def _eager(shop: Workshop) -> Built:
    def run(*inputs: Tensor) -> Outputs:
        with torch.no_grad():
            return shop.model(*inputs)

    return Built(run, state_bytes(shop.model), _tensors(shop.model, shop.inputs))


def _channels_last(shop: Workshop) -> Built:
    model = copy.deepcopy(shop.model)
    if any(part.dim() == 4 for part in shop.inputs):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch has no overload for it alone

    def run(*inputs: Tensor) -> Outputs:
        laid = [part.contiguous(memory_format=torch.channels_last) if part.dim() == 4 else part for part in inputs]
        with torch.inference_mode():
            return model(*laid)

    return Built(run, state_bytes(model), _tensors(model, shop.inputs), _distance(shop, run))


def _compiled(model: nn.Module, shop: Workshop) -> Built:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        raise ExportError("torch.compile needs a C++ compiler, and there is no g++ or clang++ here.")
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, dynamic=False)

    def run(*inputs: Tensor) -> Outputs:
        with torch.inference_mode():
            return compiled(*inputs)

    from torch._inductor import config  # noqa: PLC0415  # takes seconds

    # Constants such as int8 weights become part of the kernels; the setting is put back after the first call.
    with config.patch(freezing=True), quiet():
        run(*shop.inputs)
    return Built(run, state_bytes(model), None, _distance(shop, run))


def _torch_compile(shop: Workshop) -> Built:
    return _compiled(shop.model, shop)


def _int8_compiled(shop: Workshop) -> Built:
    return _compiled(_converted(shop).model, shop)


def _weight_only(shop: Workshop) -> Built:
    model = _converted(shop).model

    def run(*inputs: Tensor) -> Outputs:
        with torch.inference_mode():
            return model(*inputs)

    return Built(run, state_bytes(model), _tensors(model, shop.inputs), _distance(shop, run))


def _converted(shop: Workshop) -> QuantizationReport:
    report = shop.quantized()
    if not report.converted:
        reasons = "; ".join(dict.fromkeys(f"{path}: {node.reason}" for path, node in report.nodes.items()))
        raise ExportError(f"No node can be converted to int8. {reasons}")
    return report


def _file(format: str, name: str) -> Callable[[Workshop], Built]:
    return lambda shop: _exported(shop, shop.model, format, name)


def _int8_onnx(shop: Workshop) -> Built:
    built = _exported(shop, _converted(shop).model, "onnx", "int8.onnx")
    return Built(built.run, built.bytes, built.memory, _distance(shop, built.run), built.close)


def _exported(shop: Workshop, model: nn.Module, format: str, name: str) -> Built:
    path = shop.folder / name
    found = find_format(format, path)
    require_packages(found)
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        report = attempt(model, found, path, shop.inputs)
        before = psutil.Process().memory_info().rss
        opened = open_exported(path, format, trust=True)
    known = [node for node in report.nodes.values() if node.difference is not None]
    worst = max(known, key=lambda node: node.difference.error if node.difference else 0.0, default=None)
    run = _runner(opened)
    run(*shop.inputs)
    grown = psutil.Process().memory_info().rss - before
    error = (
        _distance(shop, run)
        if worst is None or worst.difference is None
        else NodeDistance(worst.difference.error, worst.node)
    )
    return Built(run, report.bytes, max(grown, 0), error, opened.close)


def _runner(opened: ExportedModule) -> Run:
    def run(*inputs: Tensor) -> Outputs:
        return opened(*inputs)

    return run


FORMS: tuple[Form, ...] = (
    Form("eager", "PyTorch", _eager),
    Form("inference_mode, channels_last", "PyTorch", _channels_last),
    Form("ONNX Runtime", "ONNX Runtime", _file("onnx", "model.onnx")),
    Form("ONNX Runtime, int8", "ONNX Runtime", _int8_onnx),
    Form("int8 in eager PyTorch", "PyTorch", _weight_only),
    Form("torch.compile", "PyTorch and a C++ compiler", _torch_compile),
    Form("torch.compile, int8", "PyTorch and a C++ compiler", _int8_compiled),
    Form("ExecuTorch", "the ExecuTorch runtime", _file("executorch", "model.pte"), slow=True),
    Form("AOTInductor", "libtorch, and a processor of the same kind", _file("aoti", "model_aoti.pt2"), slow=True),
)
"""In the order in which they are built: what takes seconds first."""


@contextmanager
def workshop(
    model: nn.Module, inputs: tuple[Tensor, ...], quantized: Callable[[], QuantizationReport]
) -> Iterator[Workshop]:
    """Return what forms are built from; its files are removed at the end."""
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


def _distance(shop: Workshop, run: Run) -> NodeDistance:
    return NodeDistance(largest_gap(shop.expected, run(*shop.inputs)), "output")


def _leaves(value: Outputs) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _tensors(model: nn.Module, inputs: tuple[Tensor, ...]) -> int | None:
    """Return the bytes of all tensors at the peak of one call; None for a model that looks at its data."""
    try:
        return measure_memory(model, inputs, {}, training=False).peak
    except Exception:  # noqa: BLE001  # the figure is left out
        return None
