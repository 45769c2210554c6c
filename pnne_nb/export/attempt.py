"""Runs one export, from the model to a proved file: `pn.export` keeps the file, and `pn.check_export` discards it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pnne_nb.compiler import blame
from pnne_nb.compiler.analysis.buffers import kept_buffers
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import Diagnostic, ExportError, Fix, PnneError, Retype, shown
from pnne_nb.export.export_report import ExportReport
from pnne_nb.export.formats.base import (
    METADATA_PREFIX,
    ExportFormat,
    ExportRequest,
    FreeSize,
    TensorInfo,
    WrittenFile,
    batch_size_of,
    free_sizes_in,
    summary,
    with_fixed,
)
from pnne_nb.export.proof.parity import Tolerance
from pnne_nb.export.proof.prove import prove
from pnne_nb.export.subject.example_batches import SAMPLES, BatchMaker, first_batch, is_whole
from pnne_nb.export.subject.fixed_axes import axis_findings, fixed_axes, freed
from pnne_nb.export.subject.subject import HasExamples, Sizes, Subject, input_names, plain_result, subject_of
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.process import __version__


def attempt(
    given: object,
    format: ExportFormat,
    path: Path,
    data: object = None,
    sizes: Sizes | None = None,
    opset: int | None = None,
    tolerance: Tolerance = "auto",
    reuse: Reuse = OWN,
) -> ExportReport:
    """Write a file and prove it. If it is wrong at a free size, write it again with that size fixed.

    If the file is wrong only at size 1, the size stays free and its least value is 2.

    Raises:
        ExportError: If the model has no form in the format, or the file does not run.
    """
    _check_arguments(format, sizes, opset, tolerance)
    subject, batch, example = prepare(given, data, sizes, reuse)
    declared = subject.inputs
    fixed: dict[str, FreeSize] = {}
    while True:
        maker = BatchMaker(subject.model, subject.inputs, subject.limits, subject.seen)
        request = request_of(subject, maker.tensors(example), opset)
        written = _write(format, request, path)
        usable, notes = _fitting(batch, declared, [*written.sizes, *fixed.values()])
        proof = prove(subject, format, path, written.sizes, maker, example, usable, tolerance)
        if not proof.wrong_sizes:
            deprecated = (format.deprecated,) if format.deprecated else ()
            asked = replace(subject, inputs=declared)
            axes = fixed_axes(asked, sizes, example)
            findings = axis_findings(axes, freed(declared, axes), format.unchecked)
            one_size = fixed or axes or any(size.how == "fixed" for size in written.sizes)
            told = [f"{each.message} {each.hint}" for each in findings if each.hint]
            unchecked = (format.unchecked,) if format.unchecked and one_size and not told else ()
            return ExportReport(
                path=path,
                format=format.name,
                sizes={**{size.name: size for size in written.sizes}, **fixed},
                nodes=proof.nodes,
                comparisons=proof.comparisons,
                random=proof.random,
                exempt=proof.exempt,
                findings=(*findings, *written.findings),
                notes=(*deprecated, *subject.notes, *told, *unchecked, *written.notes, *notes, *proof.notes),
                bytes=sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")),
                inferences=proof.inferences,
                sessions=proof.sessions,
                fixed=axes,
            )
        values = {**example, **({} if batch is None else free_sizes_in(subject.inputs, batch))}
        batch_size = batch_size_of(subject.inputs)
        if batch_size in example:
            values[batch_size] = example[batch_size]
        limits = dict(subject.limits)
        for name, (wrong, node) in proof.wrong_sizes.items():
            smallest, largest = limits.get(name, (1, None))
            if wrong == smallest == 1:  # larger ones are right: torch treats a size of 1 as a case of its own
                limits[name] = 2, largest
            else:
                fixed[name] = FreeSize(name, "fixed", values[name], values[name], values[name], (node,) if node else ())
        known = {size.name: size.value for size in fixed.values() if size.value is not None}
        subject = replace(subject, inputs=with_fixed(subject.inputs, known), limits=limits)


def prepare(
    given: object, data: object, sizes: Sizes | None, reuse: Reuse = OWN
) -> tuple[Subject, tuple[Tensor, ...] | None, dict[str, int]]:
    """Return the subject of the export, a batch of the data if there is any, and the sizes of the example.

    Raises:
        ExportError: If the model is unfinished, or takes neither the data nor any example.
    """
    if data is None and isinstance(given, HasExamples):
        try:
            return _prepare(given, given.examples(SAMPLES), sizes, reuse)
        except ExportError as error:
            # A batch may hold more than the inputs, in a form that only the training knows.
            if error.diagnostics:
                raise
    return _prepare(given, data, sizes, reuse)


def _prepare(
    given: object, data: object, sizes: Sizes | None, reuse: Reuse
) -> tuple[Subject, tuple[Tensor, ...] | None, dict[str, int]]:
    batch = first_batch(data, input_names(given))
    subject = subject_of(given, batch, sizes, reuse)
    if batch is not None:
        _check_data(subject.inputs, batch)
        whole = {
            info.name: tensor
            for info, tensor in zip(subject.inputs, batch, strict=True)
            if tensor.numel() and is_whole(tensor.dtype)
        }
        subject = replace(subject, seen=whole)
    example = _example(subject, batch)
    tensors = BatchMaker(subject.model, subject.inputs, subject.limits, subject.seen).tensors(example)
    return _with_named_outputs(subject, tensors), batch, example


def request_of(subject: Subject, example: tuple[Tensor, ...], opset: int | None = None) -> ExportRequest:
    """Return the request for a format."""
    metadata = {
        f"{METADATA_PREFIX}version": __version__,
        f"{METADATA_PREFIX}torch": torch.__version__,
        f"{METADATA_PREFIX}inputs": json.dumps([[info.name, info.dtype, info.shape] for info in subject.inputs]),
        f"{METADATA_PREFIX}outputs": json.dumps(subject.outputs),
    }
    return ExportRequest(
        subject.model, subject.inputs, subject.outputs, example, subject.graph, subject.limits, opset, metadata
    )


def _check_arguments(format: ExportFormat, sizes: Any, opset: Any, tolerance: Any) -> None:
    if sizes is not None and not isinstance(sizes, Mapping):
        raise ExportError(f"sizes must be a mapping from names of sizes or inputs, not {shown(sizes)}.")
    if opset is not None and format.name != "onnx":
        raise ExportError(f"opset is a version of ONNX's operators; a {format.name!r} file has none.")
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or opset < 1):
        raise ExportError(f"opset must be a whole number above 0, not {shown(opset)}.")
    number = isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool) and tolerance >= 0
    if tolerance != "auto" and not number:
        raise ExportError(f"tolerance must be 'auto' or a distance of at least 0, not {shown(tolerance)}.")


def _check_data(inputs: Sequence[TensorInfo], batch: Sequence[Tensor]) -> None:
    """Raise an error if the data do not match the Input nodes."""
    free: dict[str, tuple[int, str]] = {}
    findings: list[Diagnostic] = []

    def refuse(info: TensorInfo, message: str) -> None:
        findings.append(Diagnostic("data-mismatch", message, info.name))

    for info, tensor in zip(inputs, batch, strict=True):
        has = f"The data has the shape {tuple(tensor.shape)}"
        if not any(each.numel() for each in batch):
            refuse(info, f"{has}, with nothing in it to compare.")
            continue
        pairs = list(zip(info.shape, tensor.shape, strict=False))
        if tensor.dim() != len(info.shape) or any(size != found for size, found in pairs if isinstance(size, int)):
            refuse(info, f"{has}, and the input is ({', '.join(map(str, info.shape))}).")
            continue
        for size, found in pairs:
            if isinstance(size, str) and free.setdefault(size, (found, info.name))[0] != found:
                other, name = free[size]
                refuse(info, f"The size {size} is {found} in the data of {info.name}, and {other} in that of {name}.")
        if str(tensor.dtype) != f"torch.{info.dtype}":
            refuse(info, f"The data is {str(tensor.dtype).removeprefix('torch.')}, and the input is {info.dtype}.")
    if findings:
        raise ExportError("\n".join(map(str, findings)), findings)


def _with_named_outputs(subject: Subject, example: Sequence[Tensor]) -> Subject:
    """Return the subject with a name for each output tensor; an Output may return several in a structure."""
    with torch.no_grad(), kept_buffers(subject.model):
        result = plain_result(subject.model, subject.model(*example))
    if subject.graph is None:
        leaves = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
        wrong = next((leaf for leaf in leaves if not isinstance(leaf, Tensor)), None)
        if wrong is not None or not leaves:
            raise ExportError(f"The model gives {shown(wrong)}, not a tensor: have its forward return tensors only.")
        numbered = tuple(f"output_{number}" for number, _ in enumerate(leaves))
        return replace(subject, outputs=numbered if len(leaves) > 1 else ("output",))
    values = list(result) if isinstance(result, (tuple, list)) and len(subject.outputs) > 1 else [result]
    names: list[str] = []
    notes: list[str] = []
    findings: list[Diagnostic] = []
    for name, value in zip(subject.outputs, values, strict=False):
        leaves = [(path, leaf) for path, leaf in pytree.tree_leaves_with_path(value) if leaf is not None]
        wrong = next((leaf for _, leaf in leaves if not isinstance(leaf, Tensor)), None)
        if wrong is not None or not leaves:
            hint = "Give each tensor an Output node of its own." if leaves else "Remove this Output node."
            message = f"The Output gives {shown(wrong if leaves else value)}, not a tensor."
            findings.append(Diagnostic("not-a-tensor", message, name, hint=hint))
        parts = ["_".join([name, *re.findall(r"\w+", pytree.keystr(path))]) for path, _ in leaves]
        if parts != [name]:
            notes.append(f"The Output {name} gives several tensors, which are called {', '.join(parts)} in the file.")
        names += parts
    if findings:
        raise ExportError("; ".join(map(str, findings)), findings)
    return replace(subject, outputs=tuple(names), notes=(*subject.notes, *notes))


def _example(subject: Subject, batch: Sequence[Tensor] | None) -> dict[str, int]:
    """Return the sizes of the example: those of the data if they are general, else chosen ones."""
    maker = BatchMaker(subject.model, subject.inputs, subject.limits, subject.seen)
    if batch is not None:
        found = free_sizes_in(subject.inputs, batch)
        samples = batch_size_of(subject.inputs)
        if samples is not None:
            found[samples] = next((n for n in (3, 4, 5, 6) if n not in {*found.values()} - {found[samples]}), 3)
        if min(found.values(), default=2) > 1 and len({*found.values()}) == len(found) and maker.accepts(found):
            return found
    try:
        return maker.example()
    except ExportError:
        if subject.imported and maker.accepts(subject.imported):
            return dict(subject.imported)
        raise


def _write(format: ExportFormat, request: ExportRequest, path: Path) -> WrittenFile:
    try:
        with with_repairs(request.graph), kept_buffers(request.model):  # tracing may run what counts batches
            return format.write(request, path)
    except (PnneError, OSError):
        raise
    except Exception as error:
        node = blame(error)
        message = f"The model has no form as {format.name!r}{f', at node {node!r}' if node else ''}: {summary(error)}"
        hint = "Draw the node from others, or choose another format."
        raise ExportError(f"{message}. {hint}", [Diagnostic("not-exportable", message, node, hint=hint)]) from error


def _fitting(
    batch: Sequence[Tensor] | None, inputs: Sequence[TensorInfo], sizes: Sequence[FreeSize]
) -> tuple[Sequence[Tensor] | None, tuple[str, ...]]:
    """Return the part of the data that the file accepts, and a note if there is none."""
    if batch is None:
        return None, ()
    fixed = {size.name: size.value for size in sizes if size.how == "fixed" and size.value is not None}
    samples = batch_size_of(inputs)
    cut = []
    for info, tensor in zip(inputs, batch, strict=True):
        for axis, size in enumerate(info.shape):
            if not isinstance(size, str) or size not in fixed or tensor.shape[axis] == fixed[size]:
                continue
            if size != samples or tensor.shape[axis] < fixed[size]:
                note = (
                    f"The data has {size}={tensor.shape[axis]}, and the file takes {fixed[size]} only: "
                    "it was proved on examples."
                )
                return None, (note,)
            tensor = tensor.narrow(axis, 0, fixed[size])
        cut.append(tensor)
    return cut, ()


NEAREST: Final = {
    "AdaptiveMaxPool1d": "AdaptiveAvgPool1d",
    "AdaptiveMaxPool2d": "AdaptiveAvgPool2d",
    "adaptive_max_pool1d": "adaptive_avg_pool1d",
    "adaptive_max_pool2d": "adaptive_avg_pool2d",
    "FractionalMaxPool2d": "MaxPool2d",
    "FractionalMaxPool3d": "MaxPool3d",
    "fractional_max_pool2d": "max_pool2d",
    "fractional_max_pool3d": "max_pool3d",
    "RReLU": "LeakyReLU",
    "rrelu": "leaky_relu",
    "fmax": "maximum",
    "fmin": "minimum",
}
"""Types that torch.onnx does not translate, each with the nearest one that it does translate and that has the same ports.

Measured with torch 2.13 by drawing and translating every type of the catalogue.
"""

CAUSAL: Final = {"TransformerEncoder": "is_causal", "TransformerDecoder": "tgt_is_causal"}
"""Types that look into their mask to see whether it is causal, with the property that says so instead."""


PACKED: Final = (
    "torch.export traces no packed sequences: leave pack_padded_sequence out, and take the output at the last step of each "
    "sequence by gather; or keep the model as it is in a package: pn.save."
)
"""What to do where sequences are packed: torch fails in the recurrent layer behind it."""


@contextmanager
def with_repairs(graph: NodeGraph | None) -> Iterator[None]:
    """Add known repairs to the diagnostics of an error in this block.

    Raises:
        ExportError: What was raised inside.
    """
    try:
        yield
    except ExportError as error:
        if graph is None:
            raise
        message = error.message
        repaired = []
        for finding in error.diagnostics:
            found = repair(finding, graph)
            if finding.hint and found.hint and finding.hint in message:
                message = message.replace(finding.hint, found.hint)
            repaired.append(found)
        raise ExportError(message, repaired) from error


def repair(finding: Diagnostic, graph: NodeGraph) -> Diagnostic:
    """Return a finding of an export with its repair, if one is known."""
    if finding.node is None or finding.node not in graph:
        return finding
    node = graph[finding.node]
    if finding.code == "no-translation" and node.type in NEAREST:
        other = NEAREST[node.type]
        hint = f"A {other} in its place has a form there, and computes something similar; or export as 'pt2'."
        return msgspec.structs.replace(
            finding, hint=hint, fix=Retype(finding.node, other, f"Change {finding.node} to {other}")
        )
    packs = any(each.type.endswith("pack_padded_sequence") for each in graph.nodes.values())
    if finding.code == "not-traceable" and packs:
        return msgspec.structs.replace(finding, hint=PACKED)
    if finding.code == "data-dependent" and node.type in CAUSAL and node.properties.get(CAUSAL[node.type]) is None:
        name = CAUSAL[node.type]
        hint = f"Set its property {name} to False: it then uses the mask as it is, without looking into it."
        return msgspec.structs.replace(
            finding, hint=hint, fix=Fix(finding.node, name, False, f"Set {name} of {finding.node} to False")
        )
    return finding
