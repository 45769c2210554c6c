"""`TorchCompiler`: compiles with passes and with ``torch.compile``."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, final

import torch
from torch import nn

from pnne_nb.compiler.analysis.example_inputs import call_inputs
from pnne_nb.compiler.passes.equivalence import Promise, compare, outputs_of
from pnne_nb.compiler.passes.graph_pass import Pass
from pnne_nb.compiler.passes.pass_manager import Transformed, checked_passes, transform, transformed
from pnne_nb.compiler.passes.report import Change, Report, forward_gain
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.pipeline.compile import to_source
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import PassError, choose, expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.process.random_state import private_random_state

_PROMISE = Promise(modes=("eval",), outputs=1e-3, gradients=None)
"""Of ``torch.compile``, whose kernels sum in another order."""


@final
class TorchCompiler:
    """Compiles documents, with passes before and ``torch.compile`` behind.

    Args:
        passes: From ``pn.passes``, applied in order to a copy of the document.
        backend: Of ``torch.compile``: ``"inductor"``, ``"aot_eager"`` …; None leaves the model to Python.

    Raises:
        ArgumentError: If something in `passes` is no pass, or torch has no such backend.
    """

    def __init__(self, passes: Iterable[Pass] = (), *, backend: str | None = None) -> None:
        expect(backend, (str, NoneType), "backend", "the name of a backend of torch.compile")
        self._passes = checked_passes(passes)
        self._backend = backend
        if backend is not None:
            choose(backend, ("eager", "aot_eager", *torch.compiler.list_backends()), "backend")

    def __repr__(self) -> str:
        return f"TorchCompiler(passes=[{', '.join(one.name for one in self._passes)}], backend={self._backend!r})"

    def compile(
        self, graph: NodeGraph, reuse: Reuse = OWN, args: Any = None, kwargs: Mapping[str, Any] | None = None
    ) -> nn.Module:
        """Return the model alone that `transform` gives; for the arguments and what is raised, see there.

        Args:
            graph: The document; it is not changed.
            reuse: Other weights than those of the graph, as in ``pn.compile``.
            args: Positional example inputs.
            kwargs: Those by name.
        """
        if not self._passes and self._backend is None:
            return compile_graph(graph, reuse)
        return self.transform(graph, reuse, args, kwargs).model

    def transform(
        self, graph: NodeGraph, reuse: Reuse = OWN, args: Any = None, kwargs: Mapping[str, Any] | None = None
    ) -> Transformed:
        """Return the new document, its model, and what each pass did.

        Args:
            graph: The document; it is not changed.
            reuse: Other weights than those of the graph, as in ``pn.compile``.
            args: Positional example inputs on which each pass is proved; from the shapes of the Input nodes if neither
                these nor `kwargs` are given.
            kwargs: Those by name.

        Raises:
            CompileError: If the document cannot be compiled, or ``torch.compile`` does not work here: with its reason.
            PassError: If a pass cannot do what was asked of it.
        """
        done = transform(graph, self._passes, args, kwargs, reuse)
        return done if self._backend is None else _accelerated(done, self._backend, args, kwargs)

    def to_source(self, graph: NodeGraph) -> str:
        """Return the source of the document after the passes, as ``pn.to_source`` does.

        Args:
            graph: The document; it is not changed.

        Raises:
            CompileError: If the document cannot be compiled.
            PassError: If a pass cannot do what was asked of it.
        """
        return to_source(transformed(graph, self._passes, None, None, OWN, "look").graph if self._passes else graph)


def _accelerated(done: Transformed, backend: str, args: Any, kwargs: Mapping[str, Any] | None) -> Transformed:
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
    proof = compare(outputs_of(results[0]), outputs_of(results[1]), _PROMISE, "eval")
    name = f"torch.compile({backend!r})"
    skipped = {
        path: "torch.compile leaves recurrent layers as they are"
        for path, module in done.model.named_modules()
        if isinstance(module, nn.RNNBase)
    }
    if proof.holds:
        change = Change("compiled", ("the whole model",), "again for each new kind of inputs")
        report = Report(name, (change,), skipped, (forward_gain(before, after, args, kwargs),), proof)
        done.model.compile(backend=backend)
    else:
        report = Report(name, skipped=skipped, proof=proof, refused=proof.difference)
    return Transformed(done.graph, done.model, (*done.reports, report))
