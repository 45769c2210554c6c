"""Run the notebooks and store their outputs: ``python scripts/run_notebooks.py [NAME...]``, or ``make notebooks``.

What cannot outlive its kernel is left out: a stored widget view shows "model not found" when a file is opened again.
The text of a widget stays, and the picture that it leaves in an output of its own. So are the lines of progress bars.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"


def main(names: list[str]) -> None:
    """Run those whose file names begin with one of `names`, or all of them; a cell that raises ends it."""
    os.environ["PNNE_PROGRESS"] = "0"
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts or (names and not path.name.startswith(tuple(names))):
            continue
        notebook = nbformat.read(path, as_version=4)
        nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
        notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec", "language_info")}
        notebook.metadata["language_info"] = {"name": "python"}
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
                for output in cell.outputs:
                    output.get("data", {}).pop(WIDGET, None)
        nbformat.write(notebook, path)
        print(f"{path.relative_to(ROOT)}: {len(notebook.cells)} cells", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
