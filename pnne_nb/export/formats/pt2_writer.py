"""Writes exported programs, with the names of the document beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from pnne_nb.export.formats.base import CONTENT, ExportRequest, WrittenFile, in_memory, with_fixed
from pnne_nb.export.formats.traced_program import Operation, TracedProgram, leaving, node_at, trace
from pnne_nb.process.quiet import quiet

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
NOTE = "Opening an exported program can run code that is in it: open only files that you trust."


def write_pt2(request: ExportRequest, path: Path) -> WrittenFile:
    """Write an exported program; see `ExportFormat.write`."""
    traced = trace(request)
    operations = []
    for node in traced.program.graph.nodes:
        # Stack traces contain paths of this machine, and are left out.
        place = node_at(node.meta.pop("stack_trace", None) or "")
        if node.op == "call_function":
            operations.append(Operation(place, [each.name for each in node.all_input_nodes], [node.name]))
    nodes = [(found.tensor, found.node) for found in leaving(operations, _returned(traced.program))]
    content = json.dumps({**describe(request, traced), "nodes": nodes})
    with quiet(), in_memory(path) as buffer:
        torch.export.save(traced.program, buffer, extra_files={CONTENT: content})
    return WrittenFile(traced.sizes, notes=(NOTE,))


def describe(request: ExportRequest, traced: TracedProgram) -> dict[str, Any]:
    """Return names, shapes and metadata as plain data for JSON."""
    fixed = {size.name: size.value for size in traced.sizes if size.value is not None}
    values = {node.name: node.meta["val"] for node in traced.program.graph.nodes if "val" in node.meta}
    outputs = zip(request.outputs, (values[name] for name in _returned(traced.program)), strict=True)
    return {
        "metadata": dict(request.metadata),
        "inputs": [(info.name, info.dtype, info.shape) for info in with_fixed(request.inputs, fixed)],
        "outputs": [
            (name, str(value.dtype).removeprefix("torch."), _named_shape(value, traced, fixed))
            for name, value in outputs
        ],
    }


def _named_shape(value: torch.Tensor, traced: TracedProgram, fixed: Mapping[str, int]) -> list[int | str]:
    """Return the shape of an output in the names of the document."""
    names = {symbol: name for name, symbol in traced.symbols.items()}

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
