"""Runs an exported file in this process, which imports the file's runtime and nothing else of the model.

``python -m pnne_nb.export.proof.run_file FOLDER`` reads ``FOLDER/runs.json`` and the inputs beside it, and leaves the
outputs and ``results.json`` there. `proof.fresh_process` writes the one and reads the other.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from pnne_nb.errors import PnneError
from pnne_nb.export import formats


def main(folder: Path) -> None:
    """Do what ``runs.json`` says."""
    wanted = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
    path = Path(wanted["path"])
    format = formats.find_format(wanted["format"], path)
    results: list[dict[str, object]] = []
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
                if session["fresh"]:
                    model.close()
                    model = None
            except PnneError as error:
                node = next((finding.node for finding in error.diagnostics), None)
                results.append({"run": number, "error": error.message, "node": node})
        if model is not None:
            model.close()
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
