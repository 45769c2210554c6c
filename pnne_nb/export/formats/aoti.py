"""Writes AOTInductor packages: the model as compiled machine code, for torch in Python and in C++."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.errors import Diagnostic, ExportError
from pnne_nb.export.formats.base import (
    CONTENT,
    ExportRequest,
    NodeTensor,
    TensorInfo,
    WrittenFile,
    as_array,
    as_tensor,
    in_memory,
)
from pnne_nb.process.quiet import quiet

NOTES = (
    "An AOTInductor package is machine code: open only files that you trust.",
    "It runs on this kind of processor, with this version of torch, and needs a C++ compiler even to be opened.",
)


@final
class AotiFormat:
    """An AOTInductor package; making one takes minutes."""

    name = "aoti"
    suffixes = (".aoti.pt2",)
    extra = ""
    packages = ()
    runs_code = True
    slow = True
    deprecated = ""
    outputs_only = "the compiler of AOTInductor fuses nodes into kernels, which keep no tensor of one node"

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        import torch  # noqa: PLC0415  # imported late, as everywhere in this folder

        from pnne_nb.export.formats.pt2_writer import describe  # noqa: PLC0415  # as above
        from pnne_nb.export.formats.traced_program import bounded, trace  # noqa: PLC0415  # as above

        if shutil.which("g++") is None and shutil.which("clang++") is None:
            raise ExportError("AOTInductor compiles the model, and there is no C++ compiler: install g++ or clang++.")
        request = bounded(request)
        traced = trace(request)
        content = json.dumps({key: value for key, value in describe(request, traced).items() if key != "nodes"})
        try:
            with quiet(), torch.no_grad(), in_memory(path) as buffer:
                torch._inductor.aoti_compile_and_package(
                    traced.program,
                    package_path=buffer,
                    inductor_configs={"aot_inductor.metadata": {CONTENT: content}},
                )
        except OSError:
            raise
        except Exception as error:
            message = f"AOTInductor cannot compile the model: {str(error).strip().partition(chr(10))[0][:300]}"
            raise ExportError(
                message, [Diagnostic("not-compiled", message, hint="Export as 'pt2' or 'onnx'.")]
            ) from error
        return WrittenFile(traced.sizes, notes=NOTES)

    def node_tensors(self, path: Path) -> tuple[NodeTensor, ...]:  # noqa: ARG002  # of the protocol
        return ()

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> AotiModel:  # noqa: ARG002  # the protocol gives it, and the runtime has no such inputs
        return AotiModel(path)


@final
class AotiModel:
    """An AOTInductor package in torch, on the CPU."""

    def __init__(self, path: Path) -> None:
        import torch  # noqa: PLC0415  # as above

        try:
            self._model = torch._inductor.aoti_load_package(str(path))
            content = json.loads(self._model.loader.get_metadata()[CONTENT])
        except Exception as error:
            said = str(error).strip().partition("\n")[0][:300]
            raise ExportError(f"{path.name} is no AOTInductor package that pnne_nb wrote: {said}") from error
        self.metadata: Mapping[str, str] = content["metadata"]
        self.inputs = tuple(TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in content["inputs"])
        self.outputs = tuple(TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in content["outputs"])

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        import torch  # noqa: PLC0415  # as above

        try:
            with torch.no_grad():
                found = self._model(*(as_tensor(inputs[info.name], info.dtype) for info in self.inputs))
        except Exception as error:
            said = str(error).strip().partition("\n")[0][:300]
            raise ExportError(f"torch cannot run the AOTInductor package: {said}") from error
        leaves = torch.utils._pytree.tree_leaves(found)
        return {info.name: as_array(value) for info, value in zip(self.outputs, leaves, strict=True)}

    def close(self) -> None:
        del self._model
