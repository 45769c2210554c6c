"""Writes ExecuTorch programs for phones and small devices, with the XNNPACK backend."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from pnne_nb.errors import ExportError
from pnne_nb.export.formats.base import (
    ExportFormat,
    ExportRequest,
    FreeSize,
    WholeProgram,
    WrittenFile,
    batch_size_of,
    free_sizes_in,
    not_written,
    summary,
)
from pnne_nb.process.quiet import quiet

if TYPE_CHECKING:
    from torch import Tensor

CONTENT = "pnne_nb"
"""The method of a program that returns names and metadata, as JSON in a tensor of bytes: programs hold no other text."""

MANY = 16
"""On one thread, ATen chooses the kernel of a convolution by whether there are so many samples. ExecuTorch takes that
for a limit of the program: traced with 3 samples, it has memory for 15 at most; traced with 18, for as many as declared."""


@final
class ExecuTorchFormat(ExportFormat):
    """An ExecuTorch program."""

    name = "executorch"
    suffixes = (".pte",)
    extra = "executorch"
    packages = ("executorch",)
    slow = True
    unchecked = "ExecuTorch's own runtime fails or gives wrong numbers at other sizes, and does not refuse them."
    outputs_only = "an ExecuTorch program runs as a whole and names no tensor inside it"

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        import torch  # noqa: PLC0415  # imported late, as everywhere in this folder

        from pnne_nb.export.formats.pt2_writer import describe  # noqa: PLC0415  # as above
        from pnne_nb.export.formats.traced_program import bounded, trace  # noqa: PLC0415  # as above

        with quiet():
            from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner  # noqa: PLC0415  # an extra, imported late
            from executorch.exir import to_edge_transform_and_lower  # noqa: PLC0415  # an extra
        request = _with_many_samples(bounded(request))
        traced = trace(request)
        content = json.dumps(describe(request, traced))
        try:
            with quiet(), torch.no_grad():
                lowered = to_edge_transform_and_lower(
                    traced.program,
                    partitioner=[XnnpackPartitioner()],
                    constant_methods={CONTENT: torch.tensor(list(content.encode()), dtype=torch.uint8)},
                )
                written = lowered.to_executorch()
        except Exception as error:
            raise not_written("not-lowered", "ExecuTorch cannot lower the model", error) from error
        path.write_bytes(written.buffer)
        sizes = _sizes_taken(written.executorch_program.execution_plan, request, traced.sizes)
        return WrittenFile(sizes, notes=("Operations without an XNNPACK kernel run on ExecuTorch's portable kernels.",))

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> WholeProgram:  # noqa: ARG002  # as `node_tensors` says, there are none
        with quiet():
            from executorch.runtime import Runtime, Verification  # noqa: PLC0415  # an extra
        try:
            program: Any = Runtime.get().load_program(path, verification=Verification.InternalConsistency)
            (encoded,) = program.load_method(CONTENT).execute([])
            content = json.loads(bytes(encoded.tolist()))
            program.load_method("forward")  # which it keeps
        except Exception as error:
            raise ExportError(f"{path.name} is no ExecuTorch program that pnne_nb wrote: {summary(error)}") from error

        def call(*arguments: Tensor) -> list[Tensor]:
            # Results lie in the program's memory, which the next call writes again.
            return [value.clone() for value in program.load_method("forward").execute(list(arguments))]

        return WholeProgram(content, call, "ExecuTorch cannot run the program")


def _with_many_samples(request: ExportRequest) -> ExportRequest:
    """Return a request whose example has `MANY` samples or more, if the model takes so many."""
    import torch  # noqa: PLC0415  # as above

    pairs = list(zip(request.inputs, request.example, strict=True))
    batch = batch_size_of(request.inputs)
    if batch is None:
        return request
    count = free_sizes_in(request.inputs, request.example)[batch]
    others = {
        size for info, tensor in pairs for name, size in zip(info.shape, tensor.shape, strict=True) if name != batch
    }
    times = next(times for times in itertools.count(-(-MANY // count)) if count * times not in others)
    if count * times > (request.limits[batch][1] or 0):
        return request
    example = tuple(tensor.repeat([times if size == batch else 1 for size in info.shape]) for info, tensor in pairs)
    try:
        with torch.no_grad():
            request.model(*example)
    except Exception:  # noqa: BLE001  # it takes fewer only, and the file will
        return request
    return replace(request, example=example)


def _sizes_taken(plans: Sequence[Any], request: ExportRequest, sizes: Sequence[FreeSize]) -> tuple[FreeSize, ...]:
    """Return the sizes that the program accepts: its memory limits them, whatever was declared."""
    plan = next(each for each in plans if each.name == "forward")
    taken: dict[int | str, int] = {}
    for info, place in zip(request.inputs, plan.inputs, strict=True):
        for name, size in zip(info.shape, plan.values[place].val.sizes, strict=True):
            taken[name] = min(size, taken.get(name, size))
    return tuple(
        size if size.largest is None else replace(size, largest=min(size.largest, taken[size.name])) for size in sizes
    )
