"""Figures of how the code is laid out: ``python scripts/house_measures.py [-v]``, from the root of the project.

One line for each measure, with the bound that the project keeps to; ``-v`` lists what was counted. Nothing fails here:
what must never be otherwise is a contract in ``.importlinter`` or a test.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import threading
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import networkx as nx  # type: ignore[import-untyped]  # torch brings it, without types

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PACKAGE = ROOT / "pnne_nb"
FRONT_END = ROOT / "js" / "src"
TESTS = ROOT / "tests"
VERBOSE = "-v" in sys.argv[1:]

SAME_THING = {"layers", "functions", "optimizers", "worker"}
"""Module names that stand in several rooms for the same thing."""

FIRST_CALLS = 400
TENSOR_FOLDERS = ("runtime/loop", "runtime/objective", "runtime/data", "inspector/statistics")
SHAPE = re.compile(r"Shape:|`\[[A-Za-z0-9*., …]+\]`")
LOCKS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}


def row(name: str, value: object, bound: str, details: Iterable[object] = ()) -> None:
    """Print one measure, and with ``-v`` what it is made of."""
    print(f"{name:<62} {value!s:<28} {bound}")
    if VERBOSE:
        for detail in details:
            print(f"    {detail}")


def short(path: Path) -> str:
    """Return a path as it stands in the project."""
    return path.relative_to(ROOT).as_posix()


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)
MODULES = [path for path in SOURCES if path.name != "__init__.py"]
TEXTS = {path: path.read_text(encoding="utf-8") for path in SOURCES}
TREES = {path: ast.parse(text) for path, text in TEXTS.items()}
SCRIPTS = sorted(path for path in FRONT_END.rglob("*") if path.suffix in (".ts", ".tsx") and ".d." not in path.name)
STYLES = sorted(FRONT_END.rglob("*.css"))
LENGTHS = {path: TEXTS[path].count("\n") for path in MODULES}


def name_of(path: Path) -> str:
    """Return the dotted name of a module or package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path): path for path in SOURCES}


def imports_of(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of the package that a file imports from, each with the name that it takes."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE.name:
            for alias in node.names:
                found = NAMES.get(f"{node.module}.{alias.name}") or NAMES.get(node.module)
                if found is not None and found != path:
                    yield found, alias.name


IMPORTS = {path: list(imports_of(path)) for path in SOURCES}


def room_of(path: Path) -> str:
    """Return the first folder or file below the package."""
    return path.relative_to(PACKAGE).parts[0]


def layout() -> None:
    """Folders, and what imports what."""
    folders = Counter(path.parent for path in MODULES)
    fullest, most = folders.most_common(1)[0]
    row("files in one folder, most", f"{most} ({short(fullest)})", "at most 14",
        [f"{short(folder)}: {count}" for folder, count in folders.most_common() if count > 14])  # fmt: skip
    scripts = Counter(path.parent for path in SCRIPTS)
    fullest, most = scripts.most_common(1)[0]
    row("files in one folder of js/src, most", f"{most} ({short(fullest)})", "at most 16")
    ways: defaultdict[tuple[Path, Path], list[str]] = defaultdict(list)
    for path, imported in IMPORTS.items():
        for other, name in imported:
            # What a package gathers in its __init__ belongs to nobody below it.
            if "__init__.py" not in (path.name, other.name) and path.parent != other.parent:
                ways[path.parent, other.parent].append(f"{short(path)} takes {name} of {short(other)}")
    both = [pair for pair in ways if pair[::-1] in ways and short(pair[0]) < short(pair[1])]
    both = [pair for pair in both if room_of(pair[0] / "x") == room_of(pair[1] / "x")]
    row("folders of one room that import each other", len(both), "0",
        [f"{short(a)} and {short(b)}: {min(ways[a, b], ways[b, a], key=len)}" for a, b in both])  # fmt: skip
    private = [
        f"{short(path)}: {name} of {short(other)}"
        for path, imported in IMPORTS.items()
        for other, name in imported
        if name.startswith("_") and not name.startswith("__") and room_of(path) != room_of(other)
    ]
    row("private names imported across rooms", len(private), "0", private)
    # What a package gathers in its __init__ is no circle.
    graph = nx.DiGraph((path, other) for path, imported in IMPORTS.items() for other, _ in imported)
    graph.remove_nodes_from([path for path in graph if path.name == "__init__.py"])
    circles = [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1]
    row("import circles", len(circles), "0", [", ".join(map(short, circle)) for circle in circles])


def names() -> None:
    """Names of modules and classes."""
    stems = Counter(path.stem for path in MODULES)
    twice = [stem for stem, count in stems.items() if count > 1]
    row("module names that stand twice", len(twice), "at most 5, each the same thing",
        [f"{stem}: {', '.join(short(path) for path in MODULES if path.stem == stem)}" for stem in twice])  # fmt: skip
    other = [stem for stem in twice if stem not in SAME_THING]
    row("  of these, not known to be the same thing", len(other), "0", other)
    gerunds = [path for path in MODULES if path.stem.split("_")[-1].endswith("ing")]
    row("gerunds among module names", f"{len(gerunds)} of {len(MODULES)}", "at most 20", map(short, gerunds))
    classes: defaultdict[str, list[Path]] = defaultdict(list)
    for path in MODULES:
        for node in TREES[path].body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(path)
    repeated = {name: paths for name, paths in classes.items() if len(paths) > 1}
    row("public classes with the same name", len(repeated), "0",
        [f"{name}: {', '.join(map(short, paths))}" for name, paths in repeated.items()])  # fmt: skip


def sizes() -> None:
    """Lines."""
    lengths = sorted(LENGTHS.values())
    row("modules below 60 lines", sum(length < 60 for length in lengths), "at most 35",
        [short(path) for path, length in LENGTHS.items() if length < 60])  # fmt: skip
    p90 = lengths[int(len(lengths) * 0.9)]
    row("modules / median / p90 / max",
        f"{len(lengths)} / {statistics.median(lengths):g} / {p90} / {lengths[-1]}", "347 / 130 / 300 / 450",
        [f"{short(path)}: {length}" for path, length in LENGTHS.items() if length > 450])  # fmt: skip
    python = sum(text.count("\n") for text in TEXTS.values())
    script = sum(path.read_text(encoding="utf-8").count("\n") for path in [*SCRIPTS, *STYLES])
    row("lines of pnne_nb and of js/src", f"{python / 1000:.1f} k + {script / 1000:.1f} k", "fewer")


def ideas() -> None:
    """What should have one owner."""
    reads = [
        f"{short(path)}:{number}"
        for path, text in TEXTS.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"isinstance\([\w.\[\]]*origin, dict\)", line)
    ]
    row("untyped reads of origin", f"{len(reads)} in {len({read.split(':')[0] for read in reads})} files", "0", reads)
    mirrors = [
        f"{short(path)}: {line.strip()}"
        for path in [*MODULES, *SCRIPTS]
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\bmirrors?\b", line, re.IGNORECASE)
    ]
    row("lines that say that they mirror the other language", len(mirrors), "fewer", mirrors)
    locks = [
        f"{short(path)}:{node.lineno} {node.func.attr}"
        for path in MODULES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "threading"
        and node.func.attr in LOCKS
    ]
    files = {lock.split(":")[0] for lock in locks}
    row("locks", f"{len(locks)} in {len(files)} files", "listed in one table", locks)


def tests() -> None:
    """Where tests are, and what fails them."""
    places = {path: TESTS / path.relative_to(PACKAGE).with_name(f"test_{path.name}") for path in MODULES}
    missing = [short(path) for path, place in places.items() if not place.is_file()]
    mirrored = len(MODULES) - len(missing)
    row("tests at the mirrored path", f"{mirrored} of {len(MODULES)}", "at least 250 of 347", missing)
    locking = ast.parse((TESTS / "test_locks.py").read_text(encoding="utf-8"))
    stress = [
        node.name
        for node in locking.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and "together(" in ast.unparse(node)
    ]
    row("tests in which threads fight for a lock", len(stress), "at least 12", stress)
    guards = [
        node.name.strip("_")
        for node in ast.parse((TESTS / "conftest.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any("autouse" in ast.unparse(one) for one in node.decorator_list)
    ]
    row("what every test is checked for", len(guards), "leaks of any kind", guards)


def words() -> None:
    """Docstrings with shapes, and rules that are left out."""
    told, all_of_them = [], []
    for path in MODULES:
        if not path.relative_to(PACKAGE).as_posix().startswith(TENSOR_FOLDERS):
            continue
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                given = [one.annotation for one in (*node.args.args, *node.args.kwonlyargs) if one.annotation]
                if any(re.search(r"\bTensor\b", ast.unparse(annotation)) for annotation in given):
                    all_of_them.append(f"{short(path)}: {node.name}")
                    if SHAPE.search(ast.get_docstring(node) or ""):
                        told.append(all_of_them[-1])
    row("functions of tensors whose docstring has shapes", f"{len(told)} of {len(all_of_them)}", "all",
        [name for name in all_of_them if name not in told])  # fmt: skip
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    row("global lint ignores", len(ruff["ignore"]), "at most 25")
    bare = []
    for path in tracked("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.search(r"#\s*(?:noqa(?::\s*[A-Z0-9, ]+)?|type: ignore(?:\[[\w, -]+\])?)(.*)$", line)
            if found is not None and not re.search(r"[a-z]{2}", re.sub(r"type: ignore\[[\w, -]+\]", "", found[1])):
                bare.append(f"{short(path)}:{number} {line.strip()[-60:]}")
    own = sum(line.startswith("pnne_nb/") for line in bare)
    row("suppressions without a reason", f"{len(bare)}, {own} in pnne_nb", "0", bare)


def tracked(pattern: str) -> list[Path]:
    """Return the files of the project by a pattern of git's."""
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def file_of(frame: FrameType) -> str | None:
    """Return the file of a frame inside the package."""
    name = frame.f_code.co_filename
    return Path(name).relative_to(PACKAGE).as_posix() if name.startswith(f"{PACKAGE}/") else None


def levels() -> dict[str, int]:
    """Return the height of each folder of the compiler, the lowest 0, as its contract has it."""
    text = (ROOT / ".importlinter").read_text(encoding="utf-8")
    found = re.search(r"containers = pnne_nb\.compiler\n(?:.*\n)*?layers =\n((?: +.*\n)+)", text)
    lines = found[1].split("\n") if found else []
    rows = [re.split(r"[|:]", line) for line in lines if line.strip()]
    return {part.strip(): height for height, layer in enumerate(reversed(rows)) for part in layer}


def walks() -> None:
    """What runs: a compilation, and a step of a training."""
    import torch  # noqa: PLC0415  # the rest of this script needs no torch

    import pnne_nb as pn  # noqa: PLC0415  # the same

    def net(features: int) -> Any:
        layers = torch.nn.Linear(8, features), torch.nn.ReLU(), torch.nn.Linear(features, 2)
        return pn.sequential(*layers, input=("N", 8))

    pn.compile(net(4))  # what is imported late, and read once from torch
    graph = net(5)
    files: list[str] = []
    upward: list[str] = []
    heights = levels()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        file = file_of(frame)
        if event != "call" or file is None or frame.f_code.co_name == "<module>" or len(files) >= FIRST_CALLS:
            return
        files.append(file)
        caller = file_of(frame.f_back) if frame.f_back is not None else None
        if caller is not None and height(file) > height(caller) >= 0:
            upward.append(f"{caller} calls {file}")

    def height(file: str) -> int:
        parts = file.split("/")
        return heights.get(parts[1].removesuffix(".py"), -1) if parts[0] == "compiler" else -1

    sys.setprofile(profile)
    try:
        pn.compile(graph)
    finally:
        sys.setprofile(None)
    row(
        f"files that compile passes in its first {FIRST_CALLS} calls", len(set(files)), "at most 22", sorted(set(files))
    )
    row("  of these calls, up the compiler's layers", len(set(upward)) if heights else "no layers", "at most 3",
        sorted(set(upward)))  # fmt: skip
    row("shells between engine.start() and forward", *shells(torch, pn))


def shells(torch: Any, pn: Any) -> tuple[int, str, Sequence[str]]:
    """Return how many files of the runtime are entered between `start` and the model's forward."""
    seen: list[str] = []

    def look() -> None:
        frame: FrameType | None = sys._getframe(1)
        found = []
        while frame is not None:
            file = file_of(frame)
            if file is not None and file.startswith("runtime/"):
                found.append(file)
            frame = frame.f_back
        seen.extend(file for file in dict.fromkeys(reversed(found)) if file not in seen)

    class Net(torch.nn.Module):  # type: ignore[misc]  # torch is imported late
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            look()
            return self.fc(x)

    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if threading.current_thread() is threading.main_thread():  # the training's own thread starts guards
            look()
        begin(thread)

    data = torch.rand(8, 4), torch.rand(8, 1)
    engine = pn.TrainingEngine(Net(), data, loss="MSELoss", epochs=1)
    threading.Thread.start = start  # type: ignore[method-assign]  # to see who starts the thread
    try:
        engine.start()
        engine.wait()
    finally:
        threading.Thread.start = begin  # type: ignore[method-assign]  # as it was
    inner = [file for file in seen if not file.startswith("runtime/thread")]
    return len(inner), "4", seen


if __name__ == "__main__":
    layout()
    names()
    sizes()
    ideas()
    tests()
    words()
    walks()
