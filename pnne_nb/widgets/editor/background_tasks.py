"""Long-running tasks of an editor: exports, export checks, runs up to a port, and arrangements of large graphs.

Their imports wait for the first request, because most editors never need them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, assert_never, final

import msgspec
from ipywidgets import Widget
from torch import nn

from pnne_nb.errors import ArgumentError, PnneError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.idle import OutOfDateError, idle_work
from pnne_nb.protocol.export_messages import (
    CancelExport,
    ExportCheck,
    ExportFormats,
    ExportState,
    GetExportFormats,
    StartExport,
    WatchExport,
)
from pnne_nb.protocol.messages import Event, RunToHere, SeenTensor
from pnne_nb.protocol.train_messages import TrainEvent, TrainRequest
from pnne_nb.widgets.editor.training_overlay import OverlaidTraining

if TYPE_CHECKING:
    from pnne_nb.runtime.engine import TrainingEngine
    from pnne_nb.widgets.editor.export_dialog import ExportDialog, Lend, Lent, TellExport
    from pnne_nb.widgets.editor.run_to_here import Example
    from pnne_nb.widgets.editor.train_form import TrainForm

GRACE: Final = 5.0
"""Seconds for which a closing editor waits for a run."""

ExportRequest = GetExportFormats | StartExport | CancelExport | WatchExport


class Lender(Protocol):
    """An editor, as the owner of the model for an export or a run."""

    @property
    def training(self) -> OverlaidTraining | None:
        """The training that it shows."""

    @property
    def model(self) -> nn.Module | None:
        """Its own model; None while the document has errors."""


@contextmanager
def lent_model(lender: Callable[[], Lender | None]) -> Iterator[Lent]:
    """Lend the model to export or to run: the trained one, between two steps, or the editor's own.

    Args:
        lender: A weak reference to the editor; a deleted editor lends nothing.
    """
    from pnne_nb.export.subject.example_batches import SAMPLES  # noqa: PLC0415  # few ask for it
    from pnne_nb.widgets.editor.export_dialog import Lent  # noqa: PLC0415  # as above

    editor = lender()
    engine = None if editor is None else editor.training
    if engine is None:
        yield Lent(None if editor is None else editor.model)
    else:
        with engine.paused() as model:
            yield Lent(model, engine.examples(SAMPLES))


def weights_of(training: OverlaidTraining | None, *, is_imported: bool) -> str:
    """Return the sentence that says which weights an export writes, and on what data it proves the file."""
    if training is not None:
        return "The weights are those of the training, and the file is proved on its data."
    whose = "the imported module, as editor.model has them" if is_imported else "editor.model"
    return (
        f"The weights are those of {whose}, and the file is proved on made-up inputs. "
        "Set editor.training = engine to export the weights of a training and prove the file on its data."
    )


@final
class BackgroundTasks:
    """The long work of one editor.

    Args:
        graph: The document.
        lend: Gives the model to export or to run, and data if there is a training.
        tell: Sends an export's events to every view, and keeps the report of one that has ended.
    """

    def __init__(self, graph: NodeGraph, lend: Lend, tell: TellExport) -> None:
        self._graph = graph
        self._lend = lend
        self._tell = tell
        self._run: threading.Thread | None = None
        self._arranging: tuple[threading.Thread, ...] = ()
        self._is_closed = False
        self._exports: ExportDialog | None = None
        self._training: TrainForm | None = None

    def run_to_here(
        self,
        request: RunToHere,
        latest: nn.Module | None,
        example: Example | None,
        tell: Callable[[SeenTensor | PnneError], None],
    ) -> None:
        """Run up to a port in a thread, and pass its value or an error to `tell`, once; see `seen_at`.

        Raises:
            ArgumentError: If another run is not finished.
        """
        from pnne_nb.widgets.editor.run_to_here import seen_at  # noqa: PLC0415  # few ask for it

        if self._run is not None and self._run.is_alive():
            raise ArgumentError("An example is running already: wait until it is done.")
        graph, lend = self._graph, self._lend

        def work() -> None:
            try:
                tell(seen_at(graph, lend, request, latest, example))
            except PnneError as error:
                tell(error)
            except Exception as error:  # noqa: BLE001  # a thread of ours must not print under a cell
                tell(PnneError(f"The run to {request.port} failed with {type(error).__name__}: {error}"))

        self._run = threading.Thread(target=work, name="pnne-run-to-here", daemon=True)
        self._run.start()

    def arrange(self, arrange: Callable[[], object], fail: Callable[[PnneError], None]) -> None:
        """Call `arrange` in pieces in a thread, and `fail` with its error."""

        def work() -> None:
            try:
                with idle_work(lambda: self._is_closed):
                    arrange()
            except OutOfDateError:
                pass  # the editor was closed
            except PnneError as error:
                fail(error)
            except Exception as error:  # noqa: BLE001  # a thread of ours must not print under a cell
                fail(PnneError(f"The graph could not be arranged: {type(error).__name__}: {error}"))

        self._is_closed = False
        thread = threading.Thread(target=work, name="pnne-arrange", daemon=True)
        self._arranging = (*(each for each in self._arranging if each.is_alive()), thread)
        thread.start()

    def finish_arranging(self) -> None:
        """Wait for the arrangements that have begun: what is undone next may be one of them."""
        for thread in self._arranging:
            thread.join()

    def answer(self, request: ExportRequest, weights: str) -> Callable[[], Event]:
        """Carry out a request about exports; return a function that makes the answer when it is sent.

        Raises:
            ExportError: If the request is refused.
        """
        from pnne_nb.widgets.editor.export_dialog import ExportDialog, format_states  # noqa: PLC0415  # few ask for it

        if self._exports is None:
            self._exports = ExportDialog(self._graph, self._lend, self._tell)
            # A deleted editor ends the processes that it has started.
            weakref.finalize(self, self._exports.close).atexit = False
        id, client, exports = request.id, request.client, self._exports
        match request:
            case GetExportFormats():
                formats, folder = format_states(), str(Path.cwd())
                return lambda: ExportFormats(id, client, formats, folder, weights)
            case StartExport(format=format, path=path, overwrite=overwrite):
                exports.start(format, path, overwrite=overwrite)
            case CancelExport():
                exports.cancel()
            case WatchExport(format=format):
                exports.watch(format)
                return lambda: msgspec.structs.replace(exports.check, id=id, client=client)
            case _:
                assert_never(request)
        return lambda: msgspec.structs.replace(exports.state, id=id, client=client)

    def train(self, request: TrainRequest, editor: Widget) -> TrainEvent:
        """Carry out a request of the Train form; see `TrainForm.answer`."""
        from pnne_nb.widgets.editor.train_form import TrainForm  # noqa: PLC0415  # few ask for it

        if self._training is None:
            self._training = TrainForm(self._graph)
        return self._training.answer(request, editor)

    @property
    def engine(self) -> TrainingEngine | None:
        """The training that a page has started."""
        return None if self._training is None else self._training.engine

    def export_events(self) -> Iterator[ExportState | ExportCheck]:
        """Yield the state of exports for a new view; nothing before the first request for one."""
        if self._exports is not None:
            yield self._exports.state
            yield self._exports.check

    def edited(self) -> None:
        """Record that an edit changed what the document computes."""
        if self._exports is not None:
            self._exports.edited()

    def close(self) -> None:
        """Cancel a running export and arrangements, and wait for a run."""
        if self._exports is not None:
            self._exports.close()
            self._exports = None
        self._is_closed = True
        self.finish_arranging()
        if self._run is not None and self._run is not threading.current_thread():
            self._run.join(GRACE)
