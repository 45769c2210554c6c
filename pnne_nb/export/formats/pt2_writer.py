"""Writes exported programs, with the names of the document beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from pnne_nb.export.formats.base import CONTENT, ExportRequest, FreeSize, WrittenFile, in_memory
from pnne_nb.export.formats.node_places import Operation, leaving, node_at
from pnne_nb.export.formats.traced_program import TracedProgram, trace
from pnne_nb.process.quiet import quiet

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
NOTE = "Opening an exported program can run code that is in it: open only files that you trust."


def write_pt2(request: ExportRequest, path: Path) -> WrittenFile:
    """Write an exported program; see `ExportFormat.write`."""
    traced = trace(request)
    nodes = leaving(_operations(traced.program), _returned(traced.program))
    content = json.dumps({**describe(request, traced), "nodes": [(found.tensor, found.node) for found in nodes]})
    with quiet(), in_memory(path) as buffer:
        torch.export.save(without_places(traced.program), buffer, extra_files={CONTENT: content})
    return WrittenFile(traced.sizes, notes=(NOTE,))


def describe(request: ExportRequest, traced: TracedProgram) -> dict[str, Any]:
    """Return names, shapes and metadata as plain data for JSON."""
    fixed: Mapping[str, FreeSize] = {size.name: size for size in traced.sizes if size.how == "fixed"}

    def shape(sizes: tuple[int | str, ...]) -> list[int | str | None]:
        return [fixed[size].value if size in fixed else size for size in sizes]  # type: ignore[index]  # a free size has a name

    return {
        "metadata": dict(request.metadata),
        "inputs": [(info.name, info.dtype, shape(info.shape)) for info in request.inputs],
        "outputs": [
            (name, str(value.dtype).removeprefix("torch."), output_shape(value, traced))
            for name, value in zip(request.outputs, output_values(traced.program), strict=True)
        ],
    }


def output_values(program: ExportedProgram) -> list[torch.Tensor]:
    """Return the outputs of a program as tensors without data."""
    values = {node.name: node.meta["val"] for node in program.graph.nodes if "val" in node.meta}
    return [values[name] for name in _returned(program)]


def output_shape(value: torch.Tensor, traced: TracedProgram) -> list[int | str]:
    """Return the shape of an output in the names of the document."""
    names = {symbol: name for name, symbol in traced.symbols.items()}
    fixed = {size.name: size.value for size in traced.sizes if size.how == "fixed"}

    def size(found: int | torch.SymInt) -> int | str:
        if isinstance(found, int):
            return found
        expression = found.node.expr
        values = {each: fixed[names[str(each)]] for each in expression.free_symbols if names.get(str(each)) in fixed}
        text = str(expression.subs(values))
        return int(text) if text.isdecimal() else _SYMBOL.sub(lambda each: names.get(each.group(), each.group()), text)

    return [size(each) for each in value.shape]


def _returned(program: ExportedProgram) -> list[str]:
    return [name for name in program.graph_signature.user_outputs if isinstance(name, str)]


def _operations(program: ExportedProgram) -> list[Operation]:
    return [
        Operation(
            node_at(node.meta.get("stack_trace") or ""), [each.name for each in node.all_input_nodes], [node.name]
        )
        for node in program.graph.nodes
        if node.op == "call_function"
    ]


def without_places(program: ExportedProgram) -> ExportedProgram:
    """Return the program without stack traces, which contain paths of this machine."""
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program
