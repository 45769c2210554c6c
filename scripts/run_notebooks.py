"""Run the notebooks and store their outputs: ``python scripts/run_notebooks.py``, or ``make notebooks``.

What cannot outlive its kernel is left out: a stored widget view shows "model not found" when a file is opened again,
so a widget's output keeps its text, and a picture where ``tests/artifacts`` has one of it.
"""

from __future__ import annotations

import base64
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"


def pictures(stem: str) -> dict[str, Path]:
    """Return the pictures that the browser tests have taken of a notebook's widgets, by their text."""
    folder = ROOT / "tests" / "artifacts"
    return {path.stem.removeprefix(f"{stem}-"): path for path in folder.glob(f"{stem}-*.png")}


def main() -> None:
    """Run all of them; a cell that raises ends it."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
        notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec", "language_info")}
        notebook.metadata["language_info"] = {"name": "python"}
        taken = pictures(path.stem)
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
            for output in cell.get("outputs", []):
                bundle = output.get("data", {})
                if bundle.pop(WIDGET, None) is not None:
                    kind = bundle["text/plain"].partition("(")[0]
                    if kind in taken and "text/html" not in bundle:  # a picture of its own
                        bundle["image/png"] = base64.b64encode(taken[kind].read_bytes()).decode()
        nbformat.write(notebook, path)
        print(f"{path.relative_to(ROOT)}: {len(notebook.cells)} cells")


if __name__ == "__main__":
    main()
