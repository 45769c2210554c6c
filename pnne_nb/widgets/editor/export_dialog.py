"""Runs exports and export checks of an editor in a separate process, so that the kernel stays free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec
from torch import Tensor, nn

from pnne_nb.catalog.custom import is_custom
from pnne_nb.compiler import compile as compile_graph
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import CompileError, ExportError, PnneError
from pnne_nb.export.exporter import check_destination
from pnne_nb.export.formats import FORMATS, find_format, require_packages
from pnne_nb.export.formats.base import ExportFormat
from pnne_nb.export.formats.model_state import read_state, require_closed
from pnne_nb.export.subject.example_batches import first_batch
from pnne_nb.export.subject.subject import input_names
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.process.fork import fork_safe
from pnne_nb.protocol.export_messages import ExportCheck, ExportFormatState, ExportState
from pnne_nb.widgets.editor.export_process import Task, TaskResult, carry_out

PAUSE: Final = 0.4
"""Seconds without an edit before the graph is checked again."""

GRACE: Final = 5.0
"""Seconds for a process to remove half-written files."""


class Lent(NamedTuple):
    """A model to export, and data to prove the file on.

    Attributes:
        model: The model, which does not change meanwhile; None while the graph has errors.
        data: A batch in any form that `pn.export` takes; None to make one up.
    """

    model: nn.Module | None
    data: object = None


Lend = Callable[[], AbstractContextManager[Lent]]

TellExport = Callable[[ExportState | ExportCheck, str], None]
"""Takes an event, and the report of an export that has ended as HTML; else an empty text."""


def format_states() -> tuple[ExportFormatState, ...]:
    """Return every format, as a dialog offers it."""
    return tuple(ExportFormatState(each.name, each.suffixes[0], _note(each), _missing(each)) for each in FORMATS)


def _note(format: ExportFormat) -> str:
    slow = "Writing takes a minute or more, because a compiler runs." if format.slow else ""
    risky = "Opening such a file can run code that is in it." if format.runs_code else ""
    return " ".join(filter(None, (slow, risky, format.deprecated)))


def _missing(format: ExportFormat) -> str:
    try:
        require_packages(format)
    except ExportError as error:
        return error.message
    return ""


@final
class ExportDialog:
    """The exports of one document, one at a time, and the check that follows its edits.

    Args:
        graph: The document.
        lend: Gives the model to export, and data to prove the file on.
        tell: Takes events, and the report of an export that has ended.
    """

    def __init__(self, graph: NodeGraph, lend: Lend, tell: TellExport) -> None:
        self._graph = graph
        self._lend = lend
        self._tell = tell
        self._changed = fork_safe(threading.Condition())  # guards what follows
        self._state = ExportState()
        self._check = ExportCheck()
        self._edits = 0
        self._process: _Process | None = None  # of the export
        self._started = 0.0
        self._cancelled = False
        self._watching: threading.Thread | None = None

    @property
    def state(self) -> ExportState:
        """The state of the latest export."""
        with self._changed:
            running = self._state.state == "running"
            seconds = time.monotonic() - self._started if running else self._state.seconds
            return msgspec.structs.replace(self._state, seconds=seconds)

    @property
    def check(self) -> ExportCheck:
        """The findings of the latest check."""
        with self._changed:
            return self._check

    def start(self, format: str, path: str, *, overwrite: bool) -> None:
        """Start an export; `state` follows it.

        Raises:
            ExportError: An export runs already, the format or its packages are missing, or the file cannot be written.
        """
        found = find_format(format, "")
        require_packages(found)
        if find_format("auto", path) is not found:
            raise ExportError(f"The name of a file of the format {format!r} ends in {' or '.join(found.suffixes)}.")
        target = check_destination(Path(path).expanduser(), overwrite=overwrite).absolute()
        with self._changed:
            if self._state.state == "running":
                raise ExportError(f"{self._state.path!r} is being exported: wait for it, or cancel it.")
            self._cancelled = False
            self._started = time.monotonic()
            self._state = ExportState("running", format, str(target), cancellable=_is_portable(self._graph))
        threading.Thread(target=self._export, args=(overwrite, self._edits), name="pnne-export", daemon=True).start()

    def cancel(self) -> None:
        """Cancel the running export.

        Raises:
            ExportError: If it runs in the kernel's own process.
        """
        with self._changed:
            if self._state.state != "running":
                return
            if not self._state.cancellable:
                raise ExportError(
                    "This export runs in the kernel, because of node types of this notebook: it cannot be cancelled."
                )
            self._cancelled = True
            process = self._process
        if process is not None:
            process.end()

    def watch(self, format: str) -> None:
        """Check the graph now and after every edit; an empty `format` ends that.

        Raises:
            ExportError: If there is no such format, or its packages are missing.
        """
        if format:
            require_packages(find_format(format, ""))
        with self._changed:
            self._check = ExportCheck("checking" if format else "off", format)
            self._edits += 1  # the findings of a running check are outdated
            self._changed.notify_all()
            if format and self._watching is None:
                self._watching = threading.Thread(target=self._follow, name="pnne-export-check", daemon=True)
                self._watching.start()

    def edited(self) -> None:
        """Record that an edit changed what the graph computes."""
        told: list[ExportState | ExportCheck] = []
        with self._changed:
            self._edits += 1
            self._changed.notify_all()
            if self._state.result is not None and not self._state.stale:
                self._state = msgspec.structs.replace(self._state, stale=True)
                told.append(self._state)
            if self._check.state in ("done", "failed"):
                self._check = msgspec.structs.replace(self._check, state="checking", error="")
                told.append(self._check)
        for each in told:
            self._tell(each, "")

    def close(self) -> None:
        """Cancel what is running."""
        with self._changed:
            self._cancelled = True
            self._check = ExportCheck()
            self._changed.notify_all()
            process, watching = self._process, self._watching
        if process is not None:
            process.end()
        if watching is not None and watching is not threading.current_thread():
            watching.join(GRACE)

    # The threads

    def _export(self, overwrite: bool, edits: int) -> None:
        state = self._state
        task = Task("", state.format, state.path, overwrite)
        try:
            if state.cancellable:
                answer = self._exported_apart(task)
            else:
                with self._lend() as lent:
                    answer = carry_out(task, self._document_of(lent.model)[1], lent.data)
        except PnneError as error:
            answer = TaskResult(error.diagnostics, error=error.message)
        except Exception as error:  # noqa: BLE001  # a thread of ours must not print under a cell
            answer = TaskResult(error=f"The export failed with {type(error).__name__}: {error}")
        with self._changed:
            self._process = None
            ended = "done" if answer.result is not None else "cancelled" if self._cancelled else "failed"
            self._state = msgspec.structs.replace(
                state,
                state=ended,
                seconds=time.monotonic() - self._started,
                stale=answer.result is not None and edits != self._edits and self._check.state == "off",
                error=answer.error if ended == "failed" else "",
                diagnostics=answer.findings if ended == "failed" else (),
                result=answer.result,
            )
            state = self._state
        self._tell(state, answer.html)

    def _exported_apart(self, task: Task) -> TaskResult:
        with tempfile.TemporaryDirectory(prefix="pnne-weights-") as folder:
            batch: Sequence[Tensor] = ()
            with self._lend() as lent:
                text, compiled = self._document_of(lent.model)
                tensors, rest = read_state(compiled)
                with suppress(ExportError):  # as in `pn.export`, of which the data of a training need not be known
                    batch = first_batch(lent.data, input_names(compiled)) or ()
            weights, data = Path(folder) / "weights.safetensors", Path(folder) / "data.safetensors"
            tensor_file.write(weights, tensors)
            data.write_bytes(
                tensor_file.to_bytes({f"{place:04}": each.contiguous() for place, each in enumerate(batch)})
            )
            task = msgspec.structs.replace(
                task, graph=text, weights=str(weights), state=rest.to_json(), data=str(data) if batch else None
            )
            with closing(_Process(self._changed)) as process:
                with self._changed:
                    self._process = process
                    if self._cancelled:
                        return TaskResult()
                return process.ask(task)

    def _document_of(self, model: nn.Module | None) -> tuple[str, nn.Module]:
        """Return the graph of a model as JSON, and the model compiled from it.

        Raises:
            ExportError: If there is no model, because the graph has problems.
        """
        if model is None:
            raise ExportError("The graph has problems. Solve them before you export it.")
        document = loader.document_of(model)
        if document is not None:
            return document.text, model
        return self._graph.to_json(), compile_graph(self._graph, reuse=model)

    def _follow(self) -> None:
        with closing(_Process(self._changed)) as process:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._check.state in ("off", "checking"))
                    edits, wanted = self._edits, self._check.format
                    if not wanted:
                        self._watching = None
                        return
                    if self._changed.wait_for(lambda: self._edits != edits, PAUSE):  # noqa: B023  # called here only
                        continue
                found = self._checked(process, wanted)
                with self._changed:
                    if edits != self._edits:
                        continue
                    self._check = found
                self._tell(found, "")

    def _checked(self, process: _Process, format: str) -> ExportCheck:
        try:
            if not _is_portable(self._graph):
                message = "The graph has node types of this notebook or opaque nodes: pn.check_export(graph) checks it."
                return ExportCheck("failed", format, error=message)
            answer = process.ask(Task(self._graph.to_json(), format))
        except PnneError as error:
            return ExportCheck("failed", format, error.diagnostics, error.message)
        return ExportCheck("failed" if answer.error else "done", format, answer.findings, answer.error)


def _is_portable(graph: NodeGraph) -> bool:
    """Return whether another process can compile the graph: it has only torch's types, and no opaque modules."""
    for drawn in graph.state().graphs.values():
        for node in drawn.nodes:
            spec = registry.get(node.type)
            if spec is None or is_custom(spec):
                return False
    try:
        require_closed(graph)
    except CompileError:
        return True  # unfinished; the nodes show the errors
    except ExportError:
        return False
    return True


@final
class _Process:
    """A process that carries out tasks. It starts with the first task and ends with this process.

    Args:
        lock: Of the dialog, whose other threads may end it.
    """

    def __init__(self, lock: threading.Condition) -> None:
        self._lock = lock
        self._running: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process

    def close(self) -> None:
        self.end()
        self._said.close()

    def ask(self, task: Task) -> TaskResult:
        """Carry out a task and return its answer.

        Raises:
            ExportError: If the process ends without an answer.
        """
        process = self._started()
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(msgspec.json.encode(task) + b"\n")
            stdin.flush()
            line = stdout.readline()
        except OSError:
            line = b""
        if line:
            return msgspec.json.decode(line, type=TaskResult)
        status = process.wait()
        with self._lock:
            self._running = None
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        raise ExportError(
            f"The process that exports ended with status {status}: {said[-1][:300] if said else 'no word'}"
        )

    def end(self) -> None:
        """End the process and its children; half-written files are removed."""
        with self._lock:
            self._ended = True
            process, self._running = self._running, None
        if process is None:
            return
        with process:  # closes its pipes
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ended:
                raise ExportError("The export was cancelled.")
            if self._running is None:
                module = "pnne_nb.widgets.editor.export_process"
                self._running = subprocess.Popen(  # noqa: S603  # our own interpreter
                    [sys.executable, "-m", "pnne_nb.process.parent", str(os.getpid()), module],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._said,
                    start_new_session=True,  # so that an interrupt of the kernel does not reach it
                )
            return self._running
