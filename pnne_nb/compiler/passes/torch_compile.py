"""Compiles a model with ``torch.compile``, and reports the result."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pnne_nb.compiler.analysis.example_inputs import call_inputs
from pnne_nb.compiler.passes.equivalence import Promise, compare, outputs_of
from pnne_nb.compiler.passes.pass_manager import Transformed
from pnne_nb.compiler.passes.report import Change, Report, forward_gain
from pnne_nb.errors import PassError, choose
from pnne_nb.process.random_state import private_random_state

PROMISE = Promise(modes=("eval",), outputs=1e-3, gradients=None)
"""Compiled kernels sum in another order."""


def check_backend(name: str) -> None:
    """Raise if torch has no such backend.

    Raises:
        ArgumentError: If there is none of that name.
    """
    choose(name, ("eager", "aot_eager", *torch.compiler.list_backends()), "backend")


def accelerate(done: Transformed, backend: str, args: Any, kwargs: Mapping[str, Any] | None) -> Transformed:
    """Return `done` with its model compiled by ``torch.compile``, proved on the example inputs, with a report.

    The model stays the same module, with the same keys; copies and pickles of it are not compiled. Hooks that are
    added afterwards are not seen, and nodes are no longer named when they fail.

    Raises:
        PassError: If it does not work here, as without a C++ compiler; with torch's reason.
    """
    args, kwargs = call_inputs(done.graph, done.model, args, kwargs)
    before, after = copy.deepcopy(done.model).eval(), copy.deepcopy(done.model).eval()
    after.compile(backend=backend)
    results = []
    with torch.inference_mode(), private_random_state():
        results.append(before(*args, **kwargs))
        try:
            results.append(after(*args, **kwargs))
        except Exception as error:
            reason = " ".join(str(error).partition("\n\n")[0].split())
            raise PassError(f"torch.compile with backend {backend!r} does not work here: {reason}") from error
    proof = compare(outputs_of(results[0]), outputs_of(results[1]), PROMISE, "eval")
    name = f"torch.compile({backend!r})"
    skipped = {
        path: "torch.compile leaves recurrent layers as they are"
        for path, module in done.model.named_modules()
        if isinstance(module, nn.RNNBase)
    }
    if not proof.holds:
        report = Report(name, skipped=skipped, proof=proof, refused=proof.difference)
        return Transformed(done.graph, done.model, (*done.reports, report))
    change = Change("compiled", ("the whole model",), "again for each new kind of inputs")
    report = Report(name, (change,), skipped, (forward_gain(before, after, args, kwargs),), proof)
    done.model.compile(backend=backend)
    return Transformed(done.graph, done.model, (*done.reports, report))
