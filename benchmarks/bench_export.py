"""What an export costs: the proof against torch's own exporter, in one run, and how often the file is run for it.

Ratios of CPU time of this process and its children, for machines are shared.
"""

from __future__ import annotations

import resource
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

import pnne_nb as pn
from benchmarks.budgets import Budgets
from tests.export.kinds import KINDS


def seconds(function: Callable[[], object]) -> float:
    """Return the CPU time of a call, that of the processes it starts included."""

    def now() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in used)

    before = now()
    function()
    return now() - before


def main() -> None:
    warnings.simplefilter("ignore")
    budgets = Budgets()
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("cnn", "attention"):
            model = pn.compile(KINDS[kind]()).eval()
            shape = (3, 1, 28, 28) if kind == "cnn" else (3, 7, 16)
            path = Path(folder) / kind

            def plain(model: torch.nn.Module = model, shape: tuple[int, ...] = shape, path: Path = path) -> None:
                torch.onnx.export(model, (torch.randn(shape),), f"{path}-plain.onnx", verbose=False)

            plain()  # what is imported once is no part of either
            bare = seconds(plain)
            reports: list[pn.ExportReport] = []
            proved = seconds(lambda: reports.append(pn.export(model, f"{path}.onnx")))  # noqa: B023  # called at once
            budgets.report(f"{kind}: exported and proved, against torch.onnx.export alone", proved / bare, 6, "×")
            budgets.report(f"{kind}: runs of the file for its outputs", reports[0].inferences, 4, "")
            budgets.report(f"{kind}: sessions with the tensors of nodes", reports[0].sessions, 1, "")
    budgets.end()
