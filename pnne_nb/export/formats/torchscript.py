"""TorchScript, which torch has deprecated: for C++ programs that load nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import final

from pnne_nb.errors import ExportError
from pnne_nb.export.formats.base import (
    CONTENT,
    ExportFormat,
    ExportRequest,
    FreeSize,
    WholeProgram,
    WrittenFile,
    free_sizes,
    in_memory,
    not_written,
    summary,
)
from pnne_nb.process.quiet import quiet


@final
class TorchScriptFormat(ExportFormat):
    """A traced module."""

    name = "torchscript"
    suffixes = (".torchscript", ".ts")
    runs_code = True
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
            raise not_written("not-traceable", "torch.jit cannot trace the model", error) from error
        with quiet(), in_memory(path) as buffer:
            torch.jit.save(traced, buffer, _extra_files={CONTENT: json.dumps(content)})
        note = "TorchScript checks no sizes: use only those that the report names."
        return WrittenFile(tuple(FreeSize(name, "automatic") for name in free_sizes(request.inputs)), notes=(note,))

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> WholeProgram:  # noqa: ARG002  # as `node_tensors` says, there are none
        import torch  # noqa: PLC0415  # as above

        extra = {CONTENT: ""}
        try:
            with quiet():
                module = torch.jit.load(str(path), map_location="cpu", _extra_files=extra)  # type: ignore[no-untyped-call]  # torch leaves it untyped
            content = json.loads(extra[CONTENT])
        except Exception as error:
            raise ExportError(f"{path.name} is no TorchScript file that pnne_nb wrote: {summary(error)}") from error
        content["outputs"] = [(name, "", ()) for name in content["outputs"]]
        return WholeProgram(content, module, "torch cannot run the TorchScript file")
