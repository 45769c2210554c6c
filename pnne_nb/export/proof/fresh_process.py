"""Runs a written file in a separate process that imports only the file's runtime."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnne_nb.errors import ExportError
from pnne_nb.export.formats import is_built_in
from pnne_nb.export.formats.base import ExportFormat
from pnne_nb.export.proof.run_file import main

Arrays = Mapping[str, NDArray[np.generic]]

LIMIT = 600.0
"""Seconds after which a runtime that does not answer is ended."""


@dataclass(frozen=True, slots=True)
class ProofProcess:
    """One session of the file, with the batches that it runs in order.

    Attributes:
        batches: The inputs by name, and the values of given tensors.
        watched: Names of tensors inside the file that are returned too.
        given: Names of tensors inside the file that are given instead of computed.
        fresh: Whether the file is opened again for each batch, because it may keep something from one to the next.
    """

    batches: Sequence[Arrays]
    watched: Sequence[str] = ()
    given: Sequence[str] = ()
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """The runtime's result for one batch.

    Attributes:
        outputs: By name; empty if it failed.
        error: What the runtime said, if it failed.
        node: The drawn node at which it failed, where that is known.
    """

    outputs: Arrays = field(default_factory=dict)
    error: str | None = None
    node: str | None = None


def run_file(format: ExportFormat, path: Path, sessions: Sequence[ProofProcess]) -> list[list[Run]]:
    """Return the results of every batch of every session.

    Raises:
        ExportError: If the process ends without an answer.
    """
    with tempfile.TemporaryDirectory(prefix="pnne-proof-") as name:
        folder = Path(name)
        count = itertools.count()
        numbered = [[next(count) for _ in session.batches] for session in sessions]
        wanted = []
        for session, numbers in zip(sessions, numbered, strict=True):
            for number, batch in zip(numbers, session.batches, strict=True):
                np.savez(folder / f"inputs{number}.npz", **batch)  # type: ignore[arg-type]  # by name
            wanted.append({
                "runs": numbers, "watched": list(session.watched), "given": list(session.given), "fresh": session.fresh
            })  # fmt: skip
        document = {"path": str(path.resolve()), "format": format.name, "sessions": wanted}
        runs = {each["run"]: _read(folder, each) for each in _results(format, folder, document)}
        return [[runs[number] for number in numbers] for numbers in numbered]


def peak_memory(format: ExportFormat, path: Path, batch: Arrays) -> int:
    """Return the peak bytes of a process that opens a file and runs it once, without its runtime's own code.

    A first process tells which modules that imports, and a second one imports them before it begins to count.

    Raises:
        ExportError: If the file does not run.
    """
    with tempfile.TemporaryDirectory(prefix="pnne-memory-") as name:
        folder = Path(name)
        np.savez(folder / "inputs0.npz", **batch)  # type: ignore[arg-type]  # by name
        sessions = [{"runs": [0], "watched": [], "given": [], "fresh": False}]
        document = {"path": str(path.resolve()), "format": format.name, "sessions": sessions, "imported": []}
        for _ in range(2):
            (result,) = _results(format, folder, document)
            if result["error"] is not None:
                raise ExportError(str(result["error"]))
            document["imported"] = result["modules"]
        return int(result["memory"])


def _read(folder: Path, result: Mapping[str, object]) -> Run:
    if result["error"] is not None:
        return Run({}, str(result["error"]), None if result["node"] is None else str(result["node"]))
    with np.load(folder / f"outputs{result['run']}.npz", allow_pickle=False) as stored:
        return Run(dict(stored))


def _results(format: ExportFormat, folder: Path, document: Mapping[str, object]) -> list[dict[str, Any]]:
    kind = type(format)
    if not is_built_in(format):
        document = {**document, "class": [kind.__module__, kind.__name__]}
    (folder / "runs.json").write_text(json.dumps(document), encoding="utf-8")
    if kind.__module__ == "__main__" or getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind:
        main(folder)  # no other process has its class
        return _answers(folder)
    command = [sys.executable, "-m", "pnne_nb.export.proof.run_file", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ExportError(
            f"The runtime of {format.name!r} has not run the file within {LIMIT:.0f} seconds; it was ended."
        ) from error
    if done.returncode != 0 or not (folder / "results.json").exists():
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ExportError(
            f"The process that runs the file ended with status {done.returncode}: {said[-1][:300] if said else 'no word'}"
        )
    return _answers(folder)


def _answers(folder: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return results
