"""The process that runs an editor's exports and checks, so that the kernel stays free and each can be cancelled.

It reads one task per line and writes one answer per line, both as JSON. The kernel calls `carry_out` itself for graphs
that only its own process can compile.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from dataclasses import astuple
from math import isfinite
from types import FrameType

import msgspec
from torch import nn

from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import Diagnostic, PnneError
from pnne_nb.export.export_report import ExportReport
from pnne_nb.export.exporter import check_export, export_model
from pnne_nb.export.formats.model_state import ModelState, make_model
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.export_messages import ExportResult, NodeError, ValueHistograms


class Task(msgspec.Struct, frozen=True):
    """An export or a check.

    Attributes:
        graph: The document as JSON.
        format: The name of a format.
        path: Path of the file; None for a check.
        overwrite: Whether to replace an existing file.
        weights: A safetensors file with the model's weights; None for a check.
        state: The rest of the model's state, as `ModelState.to_json` writes it.
        data: A safetensors file with the inputs to prove on, in order; None to make them up.
    """

    graph: str
    format: str
    path: str | None = None
    overwrite: bool = False
    weights: str | None = None
    state: str = ""
    data: str | None = None


class TaskResult(msgspec.Struct, frozen=True):
    """The answer to a task: the findings of a check, the result of an export, or an error.

    Attributes:
        html: The result as HTML for a notebook.
    """

    findings: tuple[Diagnostic, ...] = ()
    result: ExportResult | None = None
    html: str = ""
    error: str = ""


def carry_out(task: Task, model: nn.Module | None = None, data: object = None) -> TaskResult:
    """Check or export.

    Args:
        task: The task.
        model: The model to export, instead of the task's graph and weights.
        data: The inputs to prove on, instead of the task's.
    """
    try:
        if task.path is None:
            return TaskResult(tuple(check_export(NodeGraph.from_json(task.graph), task.format)))
        if task.data is not None:
            data = tuple(tensor for _, tensor in sorted(tensor_file.read(task.data)[0].items()))
        if model is None:
            tensors = tensor_file.read(task.weights)[0] if task.weights is not None else {}
            state = ModelState.from_json(task.state, "export")
            model = make_model(NodeGraph.from_json(task.graph), tensors, state, "export")
        report = export_model(model, task.path, task.format, data=data, overwrite=task.overwrite)
        return TaskResult(result=_result(report), html=report._repr_html_())
    except PnneError as error:
        return TaskResult(error.diagnostics, error=error.message)
    except Exception as error:  # noqa: BLE001  # whoever asked must hear of it
        return TaskResult(error=f"The export failed with {type(error).__name__}: {error}")


def _result(report: ExportReport) -> ExportResult:
    nodes = tuple(
        NodeError(
            each.node,
            each.type,
            _finite(each.error),
            _finite(each.ratio),
            each.ok,
            each.note or ("" if each.ok else f"differs: {each.difference}"),
            None if each.histograms is None else ValueHistograms(*astuple(each.histograms)),
        )
        for each in report.nodes.values()
    )
    return ExportResult(report.ok, report.headline, report.facts, nodes)


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(1)  # raises, so that half-written files are removed


def main() -> None:
    """Carry out tasks until there are no more."""
    signal.signal(signal.SIGTERM, _end)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # exporters print to stdout, which carries the answers
    warnings.simplefilter("ignore")
    for line in sys.stdin.buffer:
        answers.write(msgspec.json.encode(carry_out(msgspec.json.decode(line, type=Task))) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
