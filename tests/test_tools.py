"""The benchmarks and the scripts for trials, which no other test runs: what they import is there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = [path for folder in ("benchmarks", "scripts") for path in sorted((ROOT / folder).glob("*.py"))]


@pytest.mark.parametrize("path", TOOLS, ids=[f"{path.parent.name}/{path.name}" for path in TOOLS])
def test_a_tool_finds_what_it_imports(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    spec = importlib.util.spec_from_file_location(f"tool_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
