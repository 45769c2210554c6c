"""The size of the project: a feature pays for its lines by simplifying another, so these numbers only fall."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}

BUDGET = {"package": 101_903, "front end": 22_640, "tests": 87_700, "modules": 536, "locks": 30}
"""Lines, modules and locks at most. Lower a number when it can be; CONTRIBUTING says where they shall go."""


def lines(files: Iterable[Path]) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in files)


def python(folder: str) -> list[Path]:
    return [path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts]


def locks() -> int:
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "threading"
        and node.func.attr in LOCKS
        for path in python("pnne_nb")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


SIZES = {
    "package": lambda: lines(python("pnne_nb")),
    "front end": lambda: lines(
        path for path in (ROOT / "js" / "src").rglob("*") if path.suffix in (".ts", ".tsx", ".css")
    ),
    "tests": lambda: lines(python("tests")),
    "modules": lambda: len(python("pnne_nb")),
    "locks": locks,
}


@pytest.mark.parametrize("name", BUDGET)
def test_the_project_stays_within_its_budget(name: str) -> None:
    size = SIZES[name]()
    assert size <= BUDGET[name], f"{name}: {size:,}, and the budget is {BUDGET[name]:,}. Simplify something else first."


def test_the_tests_of_the_layout_import_neither_torch_nor_playwright() -> None:
    code = "import sys, pytest; pytest.main(sys.argv[1:]); print(*{'torch', 'playwright'} & set(sys.modules), 'end')"
    run = [sys.executable, "-c", code, "tests/graph/layout", "-n", "0", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.splitlines()[-1] == "end"
