"""Imports that begin before somebody waits for them."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import ModuleType

import pytest

from pnne_nb.process import background_import
from pnne_nb.process.background_import import (
    _asked,
    import_in_background,
    in_notebook,
    wait_for_import,
    wait_for_imports,
)

UNUSED = "sndhdr_of_nobody"


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ModuleType("IPython")
    kernel.get_ipython = object  # type: ignore[attr-defined]  # the test knows its type
    monkeypatch.setitem(sys.modules, "IPython", kernel)


def test_only_a_notebook_imports_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    import_in_background("turtledemo")
    assert "turtledemo" not in _asked


@pytest.mark.usefixtures("notebook")
def test_a_module_is_imported_once_and_one_that_cannot_be_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "turtledemo", raising=False)
    for _ in range(2):
        import_in_background(UNUSED, "turtledemo")
    wait_for_import("turtledemo")
    assert "turtledemo" in sys.modules
    assert UNUSED not in sys.modules
    wait_for_imports()
    wait_for_import("of_which_nobody_spoke")
    for module in ("turtledemo", UNUSED):
        assert _asked.pop(module).is_set()


@pytest.mark.usefixtures("notebook")
def test_who_waits_for_one_module_does_not_wait_for_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hold, came = threading.Event(), []

    def import_module(name: str) -> None:
        if name == "second_of_nobody":
            hold.wait(60)
        came.append(name)

    monkeypatch.setattr(background_import, "import_module", import_module)
    import_in_background("first_of_nobody", "second_of_nobody")
    wait_for_import("first_of_nobody")
    assert came == ["first_of_nobody"]
    hold.set()
    wait_for_imports()
    assert came == ["first_of_nobody", "second_of_nobody"]
    for module in came:
        _asked.pop(module)


def test_a_graph_in_a_notebook_begins_what_shapes_need_and_an_editor_what_comes_after() -> None:
    script = """
import sys
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance()
import pnne_nb as pn
from pnne_nb.process.background_import import wait_for_imports
pn.NodeGraph
wait_for_imports()
assert "torch._dynamo" in sys.modules
editor = pn.GraphEditor()
wait_for_imports()
assert "pnne_nb.widgets.dashboard.dashboard" in sys.modules
print("imported")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.strip() == "imported", ended.stderr
