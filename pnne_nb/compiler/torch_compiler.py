"""`TorchCompiler`: compiles with passes and with ``torch.compile``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, final

from torch import nn

from pnne_nb.compiler.passes.graph_pass import Pass
from pnne_nb.compiler.passes.pass_manager import Transformed, checked_passes, transform
from pnne_nb.compiler.passes.torch_compile import accelerate, check_backend
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.pipeline.compile import to_source
from pnne_nb.errors import expect
from pnne_nb.graph.document import NodeGraph


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
            check_backend(backend)

    def __repr__(self) -> str:
        return f"TorchCompiler(passes=[{', '.join(one.name for one in self._passes)}], backend={self._backend!r})"

    def compile(
        self,
        graph: NodeGraph,
        reuse: nn.Module | None = None,
        args: Any = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> nn.Module:
        """Return the model alone that `transform` gives; for the arguments and what is raised, see there.

        Args:
            graph: The document; it is not changed.
            reuse: A model whose weights to take.
            args: Positional example inputs.
            kwargs: Those by name.
        """
        if not self._passes and self._backend is None:
            return compile_graph(graph, reuse)
        return self.transform(graph, reuse, args, kwargs).model

    def transform(
        self,
        graph: NodeGraph,
        reuse: nn.Module | None = None,
        args: Any = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Transformed:
        """Return the new document, its model, and what each pass did.

        Args:
            graph: The document; it is not changed.
            reuse: A model whose weights to take, as in ``pn.compile``.
            args: Positional example inputs on which each pass is proved; from the shapes of the Input nodes if neither
                these nor `kwargs` are given.
            kwargs: Those by name.

        Raises:
            CompileError: If the document cannot be compiled, or ``torch.compile`` does not work here: with its reason.
            PassError: If a pass cannot do what was asked of it.
        """
        done = transform(graph, self._passes, args, kwargs, reuse)
        return done if self._backend is None else accelerate(done, self._backend, args, kwargs)

    def to_source(self, graph: NodeGraph) -> str:
        """Return the source of the document after the passes, as ``pn.to_source`` does.

        Args:
            graph: The document; it is not changed.

        Raises:
            CompileError: If the document cannot be compiled.
            PassError: If a pass cannot do what was asked of it.
        """
        return to_source(transform(graph, self._passes).graph if self._passes else graph)
