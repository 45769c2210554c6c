"""The benchmarks and the scripts for trials, which no other test runs: what they import is there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = [path for folder in ("benchmarks", "scripts") for path in sorted((ROOT / folder).glob("*.py"))]


@pytest.mark.parametrize("path", TOOLS, ids=[f"{path.parent.name}/{path.name}" for path in TOOLS])
def test_a_tool_finds_what_it_imports(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(path, monkeypatch)


def test_the_checks_for_a_gpu_say_what_they_had_no_time_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = loaded(ROOT / "scripts" / "gpu_checks.py", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["gpu_checks.py", "--device", "cpu", "--seconds", "0"])
    assert checks._main() == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(table) == 1 + len(checks.CHECKS)
    assert all("| not tried | the seconds were over |" in line for line in table[1:])


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    spec = importlib.util.spec_from_file_location(f"tool_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module
