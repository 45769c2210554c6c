"""Proves an import that an editor shows already, between the kernel's messages."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import accumulate
from typing import Final, final

from torch import nn

from pnne_nb.compiler import UnprovedImport
from pnne_nb.compiler.weights.weight_source import inherit, keep_given
from pnne_nb.errors import GraphError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.progress_line import runs_unattended
from pnne_nb.widgets.host.piecework import Piecework

BEING_PROVED: Final = (
    "Being proved: it is drawn from the original's code, and is compared with it while the kernel is free"
)
"""What a badge says until the proof has ended."""


@final
class LiveProof:
    """The proof of an import whose document is shown and edited meanwhile.

    What the proof closes is closed beneath the edits. Where an edit does not fit that, the drawing stays as it is, and says
    at the node that it is not proved.

    Attributes:
        graph: The document.
    """

    def __init__(self, drawn: UnprovedImport, net: nn.Module, ended: Callable[[], None]) -> None:
        self.graph = drawn.graph
        self._whose = f"the imported {type(net).__name__}"
        keep_given(self.graph, net, self._whose)
        self._start = self.graph.to_json()
        self._net = weakref.ref(net)
        self._drawn: UnprovedImport | None = drawn
        self._ended = ended
        self._work = Piecework()
        self._turn = fork_safe(threading.RLock())

    @property
    def is_going_on(self) -> bool:
        """Whether the proof has not ended."""
        return self._drawn is not None

    def start(self) -> None:
        """Go on whenever the kernel has nothing else to do; where nobody waits for the picture, prove it at once."""
        if runs_unattended() or (self._drawn is not None and self._drawn.is_proved):
            self.finish()
        self._work.start(self._pieces())

    def stop(self) -> None:
        """Go on no more, except where it is waited for."""
        self._work.stop()

    def finish(self) -> None:
        """Wait for the proof: do what is left of it."""
        self._go_on(until_proved=True)

    def _pieces(self) -> Generator[None, None, None]:
        yield  # the cell that shows the document ends first
        while self.is_going_on:
            with suppress(KeyboardInterrupt):  # it was meant for a cell: the proof begins again
                self._go_on()
            yield

    def _go_on(self, *, until_proved: bool = False) -> None:
        with self._turn:
            if self._drawn is not None and self._drawn.go_on(until_proved=until_proved):
                self._end(self._drawn)

    def _end(self, drawn: UnprovedImport) -> None:
        self._drawn = None
        if drawn.error is not None:
            self.graph.withdraw_proofs(f"comparing it with the original failed: {drawn.error}".rstrip("."))
        elif drawn.graph.to_json() == self._start or drawn.graph is self.graph:
            self.graph.note_sizes(drawn.sizes)
        elif self.graph.begin_as(drawn.graph):
            self._keep_weights(drawn.graph)
            self.graph.note_sizes(drawn.sizes)
        else:
            self._mark(drawn.graph)
        self._ended()

    def _keep_weights(self, proved: NodeGraph) -> None:
        net = self._net()
        with self.graph.reading():
            if net is not None:
                keep_given(proved, net, self._whose)
                for step in self.graph.changes:  # which renames what has weights
                    proved.apply(step.ops)
            inherit(self.graph, proved)

    def _mark(self, proved: NodeGraph) -> None:
        """Say which nodes differ from the original, where edits are in the way of closing them."""
        before = NodeGraph.from_json(self._start)
        closed = {row.path: row.reason for row in proved.import_report.rows if row.state == "closed"}
        new = {path: reason for path, reason in closed.items() if path not in before or before[path].type != "Module"}
        around = {part: reason for path, reason in new.items() for part in accumulate(path.split("."), "{}.{}".format)}
        for path, reason in around.items() or {"": "it computes something else than the original"}.items():
            said = f"edits are in the way of keeping the original's code here, which does something else: {reason}"
            with suppress(GraphError):  # removed meanwhile
                self.graph.withdraw_proofs(said.rstrip("."), [path] if path else ())
