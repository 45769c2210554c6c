"""Writes ONNX files by torch's dynamo exporter, with the names of the document for inputs, outputs and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import onnxscript.optimizer
import torch
from onnxscript import ir
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

from pnne_nb.compiler import infer_shapes
from pnne_nb.compiler.analysis.buffers import kept_buffers
from pnne_nb.errors import Diagnostic, ExportError, PnneError
from pnne_nb.export.formats.base import METADATA_PREFIX, ExportRequest, FreeSize, WrittenFile
from pnne_nb.export.formats.traced_program import TracedProgram, node_at, trace
from pnne_nb.process.quiet import quiet

NODE = f"{METADATA_PREFIX}node"
"""The metadata key of an operator that holds the path of its drawn node."""

FREE_IN_ONNX = frozenset({"LSTM", "GRU", "RNN"})
"""Node types that torch unrolls over the length it sees, and ONNX has operators for that take any length."""

LARGEST = 2 * 2**30 - 2**20
"""Bytes that one ONNX file can hold: it is one protobuf message."""

_FX_NODE = re.compile(r"%(\w+)\b")
_STACK_TRACE = "pkg.torch.onnx.stack_trace"


def write_onnx(request: ExportRequest, path: Path) -> WrittenFile:
    """Write an ONNX file; see `ExportFormat.write`."""
    weights = sum(tensor.nbytes for tensor in [*request.model.parameters(), *request.model.buffers()])
    if weights > LARGEST:
        raise ExportError(
            f"The weights have {weights / 2**30:.1f} GiB, and one ONNX file holds 2 GiB. Export as 'pt2' instead."
        )
    traced = trace(request)
    sizes = _onnx_sizes(request, traced)
    proto = _translate(request, traced)
    _check_opset(request, proto)
    _name_sizes(request, traced, sizes, proto)
    _name_nodes(proto)
    for key, value in request.metadata.items():
        proto.metadata_props.add(key=key, value=value)
    onnx.save_model(proto, str(path))
    return WrittenFile(sizes, tuple(decomposed(operators(traced.program, request.opset))), _lost_state(request))


def _onnx_sizes(request: ExportRequest, traced: TracedProgram) -> tuple[FreeSize, ...]:
    """Return the free sizes in ONNX, where a length that only recurrent layers have fixed stays free."""
    types = {path: type(module).__name__ for path, module in request.model.named_modules(remove_duplicate=False)}
    return tuple(
        FreeSize(size.name, "automatic", None, *request.limits.get(size.name, (1, None)))
        if size.how == "fixed" and size.nodes and all(types.get(node) in FREE_IN_ONNX for node in size.nodes)
        else size
        for size in traced.sizes
    )


def _translate(request: ExportRequest, traced: TracedProgram) -> Any:
    try:
        with quiet(), torch.no_grad():
            program = torch.onnx.export(
                traced.program,
                opset_version=request.opset,
                external_data=False,
                verbose=False,
                # torch's own optimisation also fuses layers, after which a drawn node has no tensor to compare.
                # Runtimes fuse layers themselves when they load a file.
                optimize=False,
            )
            assert program is not None, "torch returns None for its older exporter only"
            onnxscript.optimizer.fold_constants(program.model)
            onnxscript.optimizer.remove_unused_nodes(program.model)
            _name_values(request, program.model.graph)
            return program.model_proto
    except Exception as error:
        findings = []
        with suppress(Exception):  # an operation that cannot be decomposed either is named by the first error
            findings = untranslated(operators(traced.program, request.opset))
        findings = findings or [_finding(traced, error)]
        raise ExportError(f"The model has no form in ONNX: {'; '.join(map(str, findings))}", findings) from error


def _lost_state(request: ExportRequest) -> tuple[str, ...]:
    """Return notes about buffers that the model changes in a call; an ONNX file keeps no state between calls."""
    with torch.no_grad(), kept_buffers(request.model) as changed:
        request.model(*(tensor.clone() for tensor in request.example))
    if not changed:
        return ()
    names = ", ".join(sorted(changed))
    return (f"The model changes {names} with each call. The file does not: each call begins with what they are now.",)


def _name_values(request: ExportRequest, graph: ir.Graph) -> None:
    """Give inputs and outputs the document's names, each a separate value: an output may repeat another or an input."""
    names = [*(info.name for info in request.inputs), *request.outputs]
    for value in tuple(graph.initializers.values()):
        if value.name in names:
            value.name = f"{value.name}.value"
    for node in graph:
        for number, value in enumerate(node.outputs):
            if value.name in names:
                value.name = f"{value.name}.{node.name}.{number}"
    for info, value in zip(request.inputs, graph.inputs, strict=True):
        value.name = info.name
    named = {*graph.inputs}
    for place, (name, value) in enumerate(zip(request.outputs, tuple(graph.outputs), strict=True)):
        if value in named or value.is_initializer():
            copied = ir.node("Identity", [value])
            graph.append(copied)
            (output,) = copied.outputs
            output.type, output.shape = value.type, value.shape
            graph.outputs[place] = output
        graph.outputs[place].name = name
        named.add(graph.outputs[place])


def _finding(traced: TracedProgram, error: BaseException) -> Diagnostic:
    """Return torch's error about a failed translation, at the node that it was translating."""
    places = {call.name: node_at(call.meta.get("stack_trace") or "") for call in traced.program.graph.nodes}
    current: BaseException | None = error
    said, node = str(error).partition("\n")[0], None
    while current is not None:
        node = next((places[name] for name in _FX_NODE.findall(str(current)) if places.get(name)), node)
        said, current = str(current).partition("\n")[0], current.__cause__
    return Diagnostic("no-translation", f"torch.onnx cannot translate it: {said[:300]}", node, hint=REPAIR)


def _check_opset(request: ExportRequest, proto: Any) -> None:
    """Raise an error if the file has another opset than requested; torch only logs that."""
    written = {entry.domain: entry.version for entry in proto.opset_import}.get("")
    if request.opset is not None and written != request.opset:
        raise ExportError(
            f"Opset {request.opset} was asked for, and torch {torch.__version__} writes this model as opset {written}. "
            f"Pass opset={written}, or opset=None for torch's own choice."
        )


def _name_sizes(request: ExportRequest, traced: TracedProgram, sizes: tuple[FreeSize, ...], proto: Any) -> None:
    """Name the dimensions of the file as in the document instead of by torch's symbols."""
    kept = {size.name: size for size in sizes}
    names = {traced.symbols[name]: name for name in kept if name in traced.symbols}
    guessed = {size.name for size in traced.sizes if size.how == "fixed"} & {s.name for s in sizes if s.how != "fixed"}
    if guessed:
        del proto.graph.value_info[:]  # what follows from the one length that torch saw is wrong for others
    for value in [*proto.graph.input, *proto.graph.value_info, *proto.graph.output]:
        for dimension in _dimensions(value):
            if dimension.dim_param:
                named = re.sub(
                    r"[A-Za-z_]\w*", lambda found: names.get(found.group(), found.group()), dimension.dim_param
                )
                dimension.dim_param = named
    for info, value in zip(request.inputs, proto.graph.input, strict=True):
        for size, dimension in zip(info.shape, _dimensions(value), strict=True):
            declared = kept[size].value if isinstance(size, str) and kept[size].how == "fixed" else size
            _set(dimension, declared)
    for value, shape in _declared_outputs(request, proto):
        for size, dimension in zip(shape, _dimensions(value), strict=True):
            if guessed or isinstance(size, str):
                fixed = kept.get(str(size))
                _set(dimension, fixed.value if fixed is not None and fixed.how == "fixed" else size)


def _declared_outputs(request: ExportRequest, proto: Any) -> Iterator[tuple[Any, tuple[int | str, ...]]]:
    """Yield the outputs of the file, each with its shape in the document, if there is one."""
    shapes: Mapping[str, tuple[int | str, ...]] = {}
    if request.graph is not None:
        try:
            specs = infer_shapes(request.graph)
        except PnneError:
            specs = {}
        ends = {target.rpartition(".")[0]: source for source, target in request.graph.edges}
        shapes = {name: specs[source].shape for name, source in ends.items() if source in specs}
    for value in proto.graph.output:
        shape = shapes.get(value.name, ())
        dimensions = list(_dimensions(value))
        if len(shape) == len(dimensions):
            yield value, tuple("" if size == "?" else size for size in shape)
        else:
            yield value, tuple("" for _ in dimensions)


def _dimensions(value: Any) -> Any:
    return value.type.tensor_type.shape.dim


def _set(dimension: Any, size: int | str | None) -> None:
    dimension.Clear()
    if isinstance(size, int):
        dimension.dim_value = size
    elif size:
        dimension.dim_param = size


def _name_nodes(proto: Any) -> None:
    """Record the node of each operator, and remove torch's stack traces, which contain paths of this machine."""
    for operator in proto.graph.node:
        traces = [entry.value for entry in operator.metadata_props if entry.key == _STACK_TRACE]
        node = node_at(traces[0]) if traces else ""
        del operator.metadata_props[:]
        if node:
            operator.metadata_props.add(key=NODE, value=node)
    for value in proto.graph.value_info:
        del value.metadata_props[:]


try:
    from torch.onnx._internal.exporter import _dispatching, _fx_passes, _registration
except ImportError:  # pragma: no cover  # another version of torch
    _REGISTRY = False
else:
    _REGISTRY = True

REPAIR = "Draw it from other nodes, or export as 'pt2'."
"""What to do about a node that ONNX has no form for."""

OLDEST = 18
"""The opset that torch's own translations are written for; an older file is converted from it."""


class Operators(NamedTuple):
    """The ONNX operators of one node.

    Attributes:
        node: The path of the node.
        before: The operations as torch traced them.
        after: Those that they are decomposed into; the same if they are translated as they are.
        untranslated: Those of `after` that ONNX has no form for, with what torch says of each.
    """

    node: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    untranslated: tuple[tuple[str, str], ...]


def operators(program: ExportedProgram, opset: int | None) -> list[Operators]:
    """Return the ONNX operators of each node, in the order of the program."""
    if not _REGISTRY:
        return []
    _forget_pending(program)
    with quiet():
        registry = _registration.ONNXRegistry.from_torchlib(opset_version=max(opset or OLDEST, OLDEST))
        decomposed = _fx_passes.decompose_with_registry(program, registry)
        before, after = _by_node(program), _by_node(decomposed)
        found = []
        for node, calls in after.items():
            lacking = []
            for call in calls:
                if isinstance(call.target, torch._ops.OpOverload) and not _is_assertion(call):
                    translation, message = _dispatching.dispatch(call, registry)
                    if translation is None:
                        lacking.append((_name(call), message))
            names = tuple(_name(call) for call in calls if not _is_assertion(call))
            originally = tuple(_name(call) for call in before.get(node, ()) if not _is_assertion(call))
            found.append(Operators(node, originally, names, tuple(lacking)))
    return found


def untranslated(found: Sequence[Operators]) -> list[Diagnostic]:
    """Return an error for each node with an operation that ONNX cannot express."""
    return [
        Diagnostic(
            "no-translation",
            f"ONNX has no operator for {', '.join(dict.fromkeys(name for name, _ in each.untranslated))}, which the "
            "node computes with.",
            each.node or None,
            hint=REPAIR,
        )
        for each in found
        if each.untranslated
    ]


def decomposed(found: Sequence[Operators]) -> list[Diagnostic]:
    """Return a finding for each node whose operations are decomposed into others."""
    return [
        Diagnostic(
            "decomposed",
            f"{', '.join(dict.fromkeys(each.before))} is written as {', '.join(dict.fromkeys(each.after))}.",
            each.node,
            severity="info",
        )
        for each in found
        if each.node and each.before and not each.untranslated and set(each.before) != set(each.after)
    ]


def _forget_pending(program: ExportedProgram) -> None:
    """Drop the data-dependent sizes that an earlier decomposition has left unbound.

    torch makes such a size (``nonzero``) each time it decomposes a program, and refuses to go on at the next time.
    """
    values = (node.meta.get("val") for node in program.graph.nodes)
    mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    if mode is not None and mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _by_node(program: ExportedProgram) -> dict[str, list[torch.fx.Node]]:
    found: dict[str, list[torch.fx.Node]] = {}
    for call in program.graph.nodes:
        if call.op == "call_function":
            found.setdefault(node_at(call.meta.get("stack_trace") or ""), []).append(call)
    return found


def _name(call: torch.fx.Node) -> str:
    target: Any = call.target
    return str(getattr(target, "overloadpacket", None) or getattr(target, "__name__", target)).removeprefix("aten.")


def _is_assertion(call: torch.fx.Node) -> bool:
    """Return whether a call is only an assertion, or computes a size for one; such calls are not written."""
    return not isinstance(call.target, torch._ops.OpOverload) or "assert" in _name(call) or "sym_" in _name(call)
