"""Traces a model by ``torch.export`` with as many free sizes as it allows: named, else automatic, else fixed.

A size is first declared with its own name. If torch refuses that because the size has limits, it is declared with them.
If torch refuses it for another reason, torch works the dimension out itself; what is one number then is fixed, and the
node during which it became one is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from pnne_nb.compiler import generated as parent
from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.module.call_errors import blame
from pnne_nb.errors import Diagnostic, ExportError
from pnne_nb.export.formats.base import (
    ExportRequest,
    FreeSize,
    NodeTensor,
    batch_size_of,
    free_sizes,
    free_sizes_in,
    with_fixed,
)
from pnne_nb.process.quiet import quiet

_SUGGESTED = re.compile(r"^\s+(\w+) = (?:Dim\('\w+'((?:, (?:min|max)=\d+)*)\)|(.+))$", re.MULTILINE)
_LIMIT = re.compile(r"(min|max)=(\d+)")
_CALLED = re.compile(r"The following call raised this error:\n(.*?)\n\n", re.DOTALL)


class TracedProgram(NamedTuple):
    """A model that was traced by ``torch.export``.

    Attributes:
        program: The exported program.
        sizes: What became of each free size.
        symbols: The symbol of torch that stands for each free size, ``{"N": "s77"}``.
    """

    program: ExportedProgram
    sizes: tuple[FreeSize, ...]
    symbols: Mapping[str, str]


def trace(request: ExportRequest) -> TracedProgram:
    """Return the exported program of a model, with as many free sizes as torch allows.

    Raises:
        ExportError: If the model cannot be traced; the diagnostic names the node.
    """
    _refuse_reserved(request.model)
    names = free_sizes(request.inputs)
    limits = {name: request.limits.get(name, (0, None)) for name in names}
    automatic: set[str] = set()
    fixing = _FixingNodes()
    # Each round gives a size its limits or makes it automatic, so that three rounds for each size are enough.
    for _ in range(3 * len(names) + 1):
        try:
            program = _export(request, limits, automatic, fixing)
        except ExportError:
            raise
        except Exception as error:  # noqa: BLE001  # `_with_fixed` raises what it is told
            refused = _refused(error, names)
            if not refused or automatic.issuperset(names):
                return _with_fixed(request, names, error)
            for name, found in refused.items():
                if found is None or name in automatic or limits[name] == found:
                    automatic.add(name)
                else:
                    limits[name] = found
            continue
        return TracedProgram(program, *_sizes(request, program, limits, automatic, fixing))
    raise ExportError(f"torch.export settles on no sizes for {', '.join(names)}; fix one: sizes={{{names[0]!r}: ...}}.")


def _with_fixed(request: ExportRequest, names: Sequence[str], error: Exception) -> TracedProgram:
    """Return the program of a model that torch cannot trace with all sizes free, with as few fixed sizes as possible."""
    values = free_sizes_in(request.inputs, request.example)
    free: list[str] = []
    kept: TracedProgram | None = None
    for tried in ([], *([name] for name in names)) if names else ():
        now = {*free, *tried}
        inputs = with_fixed(request.inputs, {name: value for name, value in values.items() if name not in now})
        fixing = _FixingNodes()
        limits = {name: request.limits.get(name, (0, None)) for name in now}
        attempt = replace(request, inputs=inputs)
        try:
            program = _export(attempt, limits, now, fixing)
        except Exception as again:
            if not tried:
                raise failure(error) from again
            continue
        free.extend(tried)
        kept = TracedProgram(program, *_sizes(attempt, program, limits, now, fixing))
    if kept is None:
        raise failure(error) from error
    found = {size.name: size for size in kept.sizes}
    at = blame(error)
    fixed = {
        name: FreeSize(name, "fixed", values[name], values[name], values[name], (at,) if at else ())
        for name in names
        if name not in found
    }
    return kept._replace(sizes=tuple(found.get(name) or fixed[name] for name in names))


def _refuse_reserved(model: nn.Module) -> None:
    """Raise an error for names that torch's exporter reserves."""
    taken = [name for name, _ in model.named_children() if hasattr(torch.fx.GraphModule, name)]
    if taken:
        hint = "Rename the node."
        findings = [
            Diagnostic("reserved-name", f"torch.export has another use for the name {name!r}.", name, hint=hint)
            for name in taken
        ]
        raise ExportError("; ".join(map(str, findings)), findings)


LARGEST_BATCH = 1024
"""Samples up to which a compiled file is made, where the caller says nothing."""


def bounded(request: ExportRequest) -> ExportRequest:
    """Return a request whose free sizes all have an upper limit, for runtimes without an allocator."""
    batch = batch_size_of(request.inputs)
    limits = {}
    for name, value in free_sizes_in(request.inputs, request.example).items():
        smallest, largest = request.limits.get(name, (1, None))
        limits[name] = smallest, largest or (LARGEST_BATCH if name == batch else 8 * value)
    return replace(request, limits=limits)


def size_findings(sizes: Sequence[FreeSize]) -> list[Diagnostic]:
    """Return a warning for each size that is free in the document and fixed in a file."""
    return [
        Diagnostic(
            "size-fixed",
            f"The size {size.name} would be fixed to {size.value}, the size of the example.",
            node,
            hint=f"Another node would leave it free; or choose the value: sizes={{{size.name!r}: {size.value}}}.",
            severity="warning",
        )
        for size in sizes
        if size.how == "fixed"
        for node in size.nodes or (None,)
    ]


def failure(error: Exception) -> ExportError:
    """Return a diagnostic for a failure of torch.export, with its node."""
    node = blame(error)
    where = f"at node {node!r}" if node else "in the model"
    text = str(error)
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode):
        called = _CALLED.search(text)
        line = called.group(1).strip().splitlines()[-1].strip() if called else ""
        message = f"What is computed {where} depends on the values of a tensor{f' ({line})' if line else ''}."
        hint = "A file holds one way of computing: choose by torch.where, or by a property of the node."
        return ExportError(f"{message} {hint}", [Diagnostic("data-dependent", message, node, hint=hint)])
    message = f"torch.export cannot trace the model {where}: {first[:300]}"
    hint = (
        "Write the node with torch's operations alone, without .item(), .numpy() or Python's own choices by values; "
        "or keep it as it is in a package: pn.save."
    )
    return ExportError(f"{message} {hint}", [Diagnostic("not-traceable", message, node, hint=hint)])


def _export(
    request: ExportRequest, limits: Mapping[str, tuple[int, int | None]], automatic: set[str], fixing: _FixingNodes
) -> ExportedProgram:
    def dimension(name: str) -> Any:
        if name in automatic:
            return Dim.AUTO
        smallest, largest = limits[name]
        return Dim(name, min=smallest or None, max=largest)

    dims = {name: dimension(name) for name in free_sizes(request.inputs)}
    shapes = tuple(
        {axis: dims[size] for axis, size in enumerate(info.shape) if isinstance(size, str)} for info in request.inputs
    )
    # A failed export leaves marks on the tensors that it was given.
    example = tuple(tensor.detach().clone() for tensor in request.example)
    with quiet(), _without_dump(), torch.no_grad(), fixing.watch(request.model, len(example)):
        return torch.export.export(
            request.model,
            example,
            dynamic_shapes=shapes if any(shapes) else None,
            strict=False,
            # Torch rules out sizes that only other layouts of memory would need ("H - 4 is not 1"); they are
            # asserted where the program runs, instead of being refused.
            prefer_deferred_runtime_asserts_over_guards=True,
        )


@contextmanager
def _without_dump() -> Iterator[None]:
    """Keep torch.export from printing the traced graph of a failure, which the error describes."""
    trace: Any = import_module("torch.export._trace")  # torch itself imports it with the first export
    trace.print = lambda *_, **__: None  # its own name for it: everybody else goes on printing
    try:
        yield
    finally:
        del trace.print


def _refused(error: Exception, names: Sequence[str]) -> dict[str, tuple[int, int | None] | None]:
    """Return the sizes whose declaration torch.export refused, with the limits that it suggests, or None."""
    text = str(error)
    if "Suggested fixes:" not in text and "Constraints violated" not in text:
        return {}
    found: dict[str, tuple[int, int | None] | None] = {}
    for name, suggested, other in _SUGGESTED.findall(text.partition("Suggested fixes:")[2]):
        if name in names:
            limits = {kind: int(value) for kind, value in _LIMIT.findall(suggested)}
            found[name] = None if other or not limits else (limits.get("min", 0), limits.get("max"))
    violated = re.search(r"Constraints violated \((.*?)\)", text)
    for name in violated.group(1).split(", ") if violated and not found else ():
        if name in names:
            found[name] = None
    return found or dict.fromkeys(names)


def _sizes(
    request: ExportRequest,
    program: ExportedProgram,
    limits: Mapping[str, tuple[int, int | None]],
    automatic: set[str],
    fixing: _FixingNodes,
) -> tuple[tuple[FreeSize, ...], dict[str, str]]:
    """Return the treatment of each free size, and torch's symbols."""
    ranges = {str(symbol): found for symbol, found in program.range_constraints.items()}
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"][-len(request.inputs) :]
    sizes: dict[str, FreeSize] = {}
    symbols: dict[str, str] = {}
    for position, (info, node) in enumerate(zip(request.inputs, inputs, strict=True)):
        for axis, name in enumerate(info.shape):
            if not isinstance(name, str):
                continue
            size = node.meta["val"].shape[axis]
            found = ranges.get(str(size))
            value = size if isinstance(size, int) else None
            if value is None:
                symbols[name] = str(size)
                value = int(found.lower) if found and found.lower == found.upper else None
            if value is not None:
                sizes[name] = FreeSize(name, "fixed", value, value, value, fixing.found.get((position, axis), ()))
            elif name not in sizes:
                smallest, largest = limits[name]
                if found is not None and found.lower.is_number:
                    smallest = max(smallest, int(found.lower))
                sizes[name] = FreeSize(
                    name, "automatic" if name in automatic else "named", None, max(smallest, 1), largest
                )
    return tuple(sizes.values()), symbols


class _FixingNodes:
    """Records the node of a compiled model at which a free size becomes fixed.

    Attributes:
        found: The nodes, by the position of the input and the axis.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], tuple[str, ...]] = {}

    @contextmanager
    def watch(self, model: nn.Module, count: int) -> Iterator[None]:
        if loader.loaded_from(model) is None:
            yield
            return
        arguments: list[Any] = []

        def observe(step: NodeExecution) -> None:
            if not step.node:
                arguments[:] = list(step.outputs.values())[:count]
                return
            for position, argument in enumerate(arguments):
                for axis, size in enumerate(getattr(argument, "shape", ())):
                    if (position, axis) not in self.found and _is_one_number(size):
                        self.found[position, axis] = (step.node,)

        with stepping(model, observe):
            yield


def _is_one_number(size: Any) -> bool:
    """Return whether a symbolic size has become fixed."""
    if not isinstance(size, torch.SymInt):
        return False
    expression = size.node.expr
    found = size.node.shape_env.var_to_range.get(expression)
    return bool(expression.is_number or (found is not None and found.lower == found.upper))


_PLACE = re.compile(rf'File "<({re.escape(parent.__name__)}\.[^>]+)>", line (\d+)')


class Operation(NamedTuple):
    """An operation of a file.

    Attributes:
        node: The path of the drawn node that it belongs to; ``""`` if it belongs to none.
        inputs: The names of the tensors that it reads.
        outputs: The names of those that it makes.
    """

    node: str
    inputs: Sequence[str]
    outputs: Sequence[str]


def node_at(stack_trace: str) -> str:
    """Return the path of the node whose line of generated code is the outermost one in a stack trace.

    Args:
        stack_trace: As ``torch.export`` keeps it; ``""`` is returned if no line belongs to a node.
    """
    names = []
    for key, number in _PLACE.findall(stack_trace):
        loaded = loader.find(key)
        line = loaded.generated.lines.get(int(number)) if loaded is not None else None
        if line is not None and line.calls:
            names.append(line.node)
    return ".".join(names)


def leaving(operations: Iterable[Operation], outputs: Mapping[str, str] | Sequence[str]) -> Iterator[NodeTensor]:
    """Yield the tensors that another node or the caller reads, in the order of their computation.

    Args:
        operations: All of them, in order.
        outputs: The names of the tensors that the file returns.
    """
    operations = list(operations)
    maker = {tensor: operation.node for operation in operations for tensor in operation.outputs if tensor}
    left = {tensor for tensor in outputs if tensor in maker}
    for operation in operations:
        left.update(tensor for tensor in operation.inputs if maker.get(tensor, operation.node) != operation.node)
    for tensor, node in maker.items():
        if node and tensor in left:
            yield NodeTensor(tensor, node)
