"""The deployment forms for a GPU: inputs and outputs are on the CPU, as those of the other forms, and copied in each call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import CPU, to_device
from pnne_nb.compiler.shapes.cost import state_bytes
from pnne_nb.errors import ExportError
from pnne_nb.export.attempt import attempt
from pnne_nb.export.formats import find_format, require_packages
from pnne_nb.inference.cuda_graphs import CudaGraphs
from pnne_nb.inference.targets.forms import GPU, Built, Form, Outputs, Workshop, distance
from pnne_nb.process.quiet import quiet

ABSENT = "There is no CUDA device here."


def gpu() -> torch.device:
    """Return the device of these forms.

    Raises:
        ExportError: There is none.
    """
    if not torch.cuda.is_available():
        raise ExportError(ABSENT)
    return torch.device("cuda")


def _built(shop: Workshop, make: Callable[[nn.Module, torch.device], Callable[..., Any]]) -> Built:
    """Build a form of a copy of the model on the GPU, compared with what that copy gives itself."""
    device = gpu()
    model = copy.deepcopy(shop.model).to(device)
    expected = _run_of(model, device)(*shop.inputs)
    call = make(model, device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    run = _run_of(call, device)
    run(*shop.inputs)
    memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return Built(run, state_bytes(model), memory, distance(replace(shop, expected=expected), run))


def _run_of(call: Callable[..., Any], device: torch.device) -> Callable[..., Outputs]:
    def run(*inputs: Tensor) -> Outputs:
        with torch.inference_mode():
            return to_device(call(*to_device(inputs, device)), CPU)

    return run


def _eager(model: nn.Module, _device: torch.device) -> Callable[..., Any]:
    return model


def _bf16(model: nn.Module, device: torch.device) -> Callable[..., Any]:
    def call(*inputs: Tensor) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            return model(*inputs)

    return call


def _compiled(model: nn.Module, _device: torch.device) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(model, dynamic=False)
    return compiled


def _onnx(shop: Workshop) -> Built:
    gpu()
    found = find_format("onnx", shop.folder / "gpu.onnx")
    require_packages(found)
    import onnxruntime  # noqa: PLC0415  # an extra

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise ExportError("ONNX Runtime has no CUDA here: pip install onnxruntime-gpu, instead of onnxruntime.")
    with quiet():
        report = attempt(shop.model, found, shop.folder / "gpu.onnx", shop.inputs)
    session = onnxruntime.InferenceSession(report.path, providers=["CUDAExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(*inputs: Tensor) -> Outputs:
        given = {name: part.numpy() for name, part in zip(names, inputs, strict=True)}
        outputs = [torch.from_numpy(part) for part in session.run(None, given)]
        return outputs[0] if len(outputs) == 1 else outputs

    return Built(run, report.bytes, None, distance(shop, run))


def _aoti(shop: Workshop) -> Built:
    def packed(model: nn.Module, device: torch.device) -> Callable[..., Any]:
        from torch._inductor import aoti_compile_and_package, aoti_load_package  # noqa: PLC0415  # takes seconds

        path = shop.folder / "gpu_aoti.pt2"
        with torch.no_grad(), quiet():
            program = torch.export.export(model, to_device(shop.inputs, device))
            loaded: Callable[..., Any] = aoti_load_package(aoti_compile_and_package(program, package_path=str(path)))
        return loaded

    return _built(shop, packed)


GPU_FORMS: tuple[Form, ...] = (
    Form("eager on the GPU", "PyTorch and a CUDA device", lambda shop: _built(shop, _eager), device=GPU),
    Form("bf16 on the GPU", "PyTorch and a CUDA device", lambda shop: _built(shop, _bf16), False, "bfloat16", GPU),
    Form("CUDA graphs", "PyTorch and a CUDA device", lambda shop: _built(shop, CudaGraphs), device=GPU),
    Form(
        "torch.compile on the GPU",
        "PyTorch, Triton and a CUDA device",
        lambda shop: _built(shop, _compiled),
        device=GPU,
    ),
    Form("ONNX Runtime on the GPU", "onnxruntime-gpu and a CUDA device", _onnx, device=GPU),
    Form("AOTInductor on the GPU", "libtorch and a CUDA device of the same kind", _aoti, True, device=GPU),
)
"""The first one is what the others are compared with."""
