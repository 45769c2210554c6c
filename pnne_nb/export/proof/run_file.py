"""Runs an exported file in this process, which imports the file's runtime and nothing else of the model.

``python -m pnne_nb.export.proof.run_file FOLDER`` reads ``FOLDER/runs.json`` and the inputs beside it, and leaves the
outputs and ``results.json`` there. `proof.fresh_process` writes the one and reads the other.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from pnne_nb.errors import PnneError
from pnne_nb.export import formats


def main(folder: Path) -> None:
    """Do what ``runs.json`` says."""
    wanted = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
    path = Path(wanted["path"])
    if "class" in wanted and wanted["format"] not in {each.name for each in formats.FORMATS}:
        module, name = wanted["class"]
        formats.register_format(getattr(importlib.import_module(module), name))
    format = formats.find_format(wanted["format"], path)
    results: list[dict[str, object]] = []
    before = _memory_with(wanted["imported"]) if "imported" in wanted else None
    for session in wanted["sessions"]:
        model = None
        for number in session["runs"]:
            try:
                if model is None:
                    model = format.open(path, session["watched"], session["given"])
                with np.load(folder / f"inputs{number}.npz", allow_pickle=False) as stored:
                    inputs = dict(stored)
                outputs = model.run(inputs)
                np.savez(folder / f"outputs{number}.npz", **outputs)  # type: ignore[arg-type]  # by name
                results.append({"run": number, "error": None, "node": None})
                if before is not None:
                    results[-1] |= {"memory": max(0, _most_memory() - before), "modules": list(sys.modules)}
                if session["fresh"]:
                    model.close()
                    model = None
            except PnneError as error:
                node = next((finding.node for finding in error.diagnostics), None)
                results.append({"run": number, "error": error.message, "node": node})
        if model is not None:
            model.close()
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


def _memory_with(modules: Sequence[str]) -> int:
    """Return the bytes of this process after importing modules; names that are not modules are skipped."""
    for module in modules:
        with suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    bytes: int = psutil.Process().memory_info().rss
    return bytes


def _most_memory() -> int:
    """Return the peak bytes of this process, or its current bytes if the system does not tell."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    bytes: int = psutil.Process().memory_info().rss
    return bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]))
