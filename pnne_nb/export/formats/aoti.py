"""Writes AOTInductor packages: the model as compiled machine code, for torch in Python and in C++."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import final

from pnne_nb.errors import ExportError
from pnne_nb.export.formats.base import (
    CONTENT,
    ExportFormat,
    ExportRequest,
    WholeProgram,
    WrittenFile,
    in_memory,
    not_written,
    summary,
)
from pnne_nb.process.quiet import quiet

NOTES = (
    "An AOTInductor package is machine code: open only files that you trust.",
    "It runs on this kind of processor, with this version of torch, and needs a C++ compiler even to be opened.",
)


@final
class AotiFormat(ExportFormat):
    """An AOTInductor package; making one takes minutes."""

    name = "aoti"
    suffixes = (".aoti.pt2",)
    runs_code = True
    slow = True
    unchecked = "AOTInductor's own runtime gives wrong numbers at other sizes, and does not refuse them."
    outputs_only = "the compiler of AOTInductor fuses nodes into kernels, which keep no tensor of one node"

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        import torch  # noqa: PLC0415  # imported late, as everywhere in this folder

        from pnne_nb.export.formats.pt2_writer import describe  # noqa: PLC0415  # as above
        from pnne_nb.export.formats.traced_program import bounded, trace  # noqa: PLC0415  # as above

        if shutil.which("g++") is None and shutil.which("clang++") is None:
            raise ExportError("AOTInductor compiles the model, and there is no C++ compiler: install g++ or clang++.")
        request = bounded(request)
        traced = trace(request)
        content = json.dumps(describe(request, traced))
        try:
            with quiet(), torch.no_grad(), in_memory(path) as buffer:
                torch._inductor.aoti_compile_and_package(
                    traced.program, package_path=buffer, inductor_configs={"aot_inductor.metadata": {CONTENT: content}}
                )
        except OSError:
            raise
        except Exception as error:
            raise not_written("not-compiled", "AOTInductor cannot compile the model", error) from error
        return WrittenFile(traced.sizes, notes=NOTES)

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> WholeProgram:  # noqa: ARG002  # as `node_tensors` says, there are none
        import torch  # noqa: PLC0415  # as above

        try:
            model = torch._inductor.aoti_load_package(str(path))
            content = json.loads(model.loader.get_metadata()[CONTENT])
        except Exception as error:
            raise ExportError(f"{path.name} is no AOTInductor package that pnne_nb wrote: {summary(error)}") from error
        return WholeProgram(content, model, "torch cannot run the AOTInductor package")
