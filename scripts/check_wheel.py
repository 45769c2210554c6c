"""Check the wheel as a stranger would get it: ``python scripts/check_wheel.py [--lab] [PIP OPTIONS]``.

Builds the wheel, installs it into an empty environment on a path without Node, runs ``pip check``, imports every
public name, trains, and draws. Options that are not known here go to ``pip install``, as the index of PyTorch for the
processor alone does: ``--extra-index-url https://download.pytorch.org/whl/cpu``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USE = """
import shutil, sys, time
assert shutil.which("node") is None, "Node is on the path"
before = time.perf_counter()
import pnne_nb as pn
print(f"import pnne_nb: {1000 * (time.perf_counter() - before):.0f} ms, from {pn.__file__}")
assert "site-packages" in pn.__file__
for name in pn.__all__:
    getattr(pn, name)
import torch
x = torch.randn(200, 8)
y = (x[:, 0] > 0).long()
graph = pn.sequential(("Linear", {"out_features": 16}), "ReLU", ("Linear", {"out_features": 2}), input=("N", 8))
editor = pn.GraphEditor(graph)
engine = pn.TrainingEngine(graph, (x, y), epochs=20, optimizer=("AdamW", {"lr": 1e-2}))
dashboard = pn.TrainingDashboard(engine)
engine.start()
engine.wait()
assert engine.history["train_accuracy"][-1] > 0.9
assert "Training finished" in dashboard.to_svg()
print(f"trained: accuracy {engine.history['train_accuracy'][-1]:.2f}")
"""


def without_node() -> dict[str, str]:
    """The environment without folders that hold Node, and without what Python is told by variables."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    clean = [folder for folder in folders if not any((Path(folder) / name).exists() for name in ("node", "npm"))]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PATH": os.pathsep.join(clean)}


def main() -> None:
    """Build, install, check, use; a step that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", action="store_true", help="install the extra that brings JupyterLab as well")
    parser.add_argument("--wheel", type=Path, help="a wheel that was built before")
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = arguments.wheel or built(Path(folder) / "dist")
        environment = Path(folder) / "environment"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        extra = "[lab]" if arguments.lab else ""
        for step in (
            ("-m", "pip", "install", "--quiet", "--no-compile", f"{wheel}{extra}", *options),
            ("-m", "pip", "check"),
            ("-c", USE),
        ):
            print("==", " ".join(step[1:3]) if step[0] == "-m" else "import, train, draw", flush=True)
            began = time.perf_counter()
            subprocess.run([python, *step], cwd=folder, env=without_node(), check=True)
            print(f"   {time.perf_counter() - began:.1f} s", flush=True)
    print("The wheel is good.")


def built(folder: Path) -> Path:
    """Build the wheel into a folder, with the tools of this environment."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    [wheel] = folder.glob("*.whl")
    return wheel


if __name__ == "__main__":
    main()
