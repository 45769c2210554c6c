"""TorchScript, which torch has deprecated: for C++ programs that load nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.errors import Diagnostic, ExportError
from pnne_nb.export.formats.base import (
    CONTENT,
    ExportRequest,
    FreeSize,
    NodeTensor,
    TensorInfo,
    WrittenFile,
    as_array,
    as_tensor,
    in_memory,
)
from pnne_nb.process.quiet import quiet


@final
class TorchScriptFormat:
    """A traced module."""

    name = "torchscript"
    suffixes = (".torchscript", ".ts")
    extra = ""
    packages = ()
    runs_code = True
    slow = False
    deprecated = "torch deprecates TorchScript; its successors are 'pt2', and 'aoti' for C++."
    outputs_only = "the runtime of TorchScript gives the outputs alone"

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        import torch  # noqa: PLC0415  # imported late, as everywhere in this folder

        from pnne_nb.compiler.analysis.buffers import kept_buffers  # noqa: PLC0415  # as above

        content = {
            "metadata": dict(request.metadata),
            "inputs": [(info.name, info.dtype, info.shape) for info in request.inputs],
            "outputs": request.outputs,
        }
        try:
            with quiet(), torch.no_grad():
                example = tuple(tensor.clone() for tensor in request.example)
                with kept_buffers(request.model):  # tracing runs the model, and the file has its buffers
                    traced = torch.jit.trace(request.model, example, check_trace=False)  # type: ignore[no-untyped-call]  # torch's
        except Exception as error:
            message = f"torch.jit cannot trace the model: {str(error).strip().partition(chr(10))[0][:300]}"
            raise ExportError(
                message, [Diagnostic("not-traceable", message, hint="Export as 'pt2' or 'onnx'.")]
            ) from error
        with quiet(), in_memory(path) as buffer:
            torch.jit.save(traced, buffer, _extra_files={CONTENT: json.dumps(content)})
        free = dict.fromkeys(size for info in request.inputs for size in info.shape if isinstance(size, str))
        note = "TorchScript checks no sizes: use only those that the report names."
        return WrittenFile(tuple(FreeSize(name, "automatic") for name in free), notes=(note,))

    def node_tensors(self, path: Path) -> tuple[NodeTensor, ...]:  # noqa: ARG002  # of the protocol
        return ()

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> TorchScriptModel:  # noqa: ARG002  # the protocol gives it, and the runtime has no such inputs
        return TorchScriptModel(path)


@final
class TorchScriptModel:
    """A traced module in torch, on the CPU."""

    def __init__(self, path: Path) -> None:
        import torch  # noqa: PLC0415  # as above

        extra = {CONTENT: ""}
        try:
            with quiet():
                self._module = torch.jit.load(str(path), map_location="cpu", _extra_files=extra)  # type: ignore[no-untyped-call]  # torch leaves it untyped
            content = json.loads(extra[CONTENT])
        except Exception as error:
            said = str(error).strip().partition("\n")[0][:300]
            raise ExportError(f"{path.name} is no TorchScript file that pnne_nb wrote: {said}") from error
        self.metadata: Mapping[str, str] = content["metadata"]
        self.inputs = tuple(TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in content["inputs"])
        self.outputs = tuple(TensorInfo(name, "", ()) for name in content["outputs"])

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        import torch  # noqa: PLC0415  # as above

        try:
            with torch.no_grad():
                found = self._module(*(as_tensor(inputs[info.name], info.dtype) for info in self.inputs))
        except Exception as error:
            said = str(error).strip().splitlines()[-1][:300]
            raise ExportError(f"torch cannot run the TorchScript file: {said}") from error
        leaves = torch.utils._pytree.tree_leaves(found)
        return {info.name: as_array(value) for info, value in zip(self.outputs, leaves, strict=True)}

    def close(self) -> None:
        del self._module
