"""An import that begins before somebody waits for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from pnne_nb.process import background_import
from pnne_nb.process.background_import import import_in_background, imported_late, ipython, wait_for_import


def test_only_a_notebook_imports_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert ipython() is None
    import_in_background()
    assert not background_import._threads
    wait_for_import()


def test_who_wants_a_module_waits_for_the_one_under_way_and_not_for_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, enough, came = threading.Event(), threading.Event(), list[str]()

    def import_module(name: str) -> None:
        if name == "first_of_nobody":
            begun.set()
            enough.wait(60)
        came.append(name)

    monkeypatch.setattr(background_import, "import_module", import_module)
    monkeypatch.setattr(background_import, "SLOW", ("first_of_nobody", "second_of_nobody"))
    monkeypatch.setattr(background_import, "_HANDOVER", 0.1)
    thread = threading.Thread(target=background_import._import)
    thread.start()
    assert begun.wait(60)
    assert imported_late("json") is sys.modules["json"]
    # In the middle of its import, a module is there as well.
    half = ModuleType("half_made")
    half.__spec__ = ModuleSpec("half_made", None)
    half.__spec__._initializing = True  # type: ignore[attr-defined]  # private to importlib
    monkeypatch.setitem(sys.modules, "half_made", half)
    threading.Timer(0.05, enough.set).start()
    imported_late("half_made")
    thread.join()
    assert came == ["first_of_nobody", "half_made", "second_of_nobody"]


NOTEBOOK = """
import os, signal, sys, threading
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance()
from pnne_nb.process import background_import
"""

FORK = f"""{NOTEBOOK}
begun, gate, end, behind = (threading.Event() for _ in range(4))
gate.set()
fork = os.fork

def import_module(name):
    if name == background_import.SLOW[0]:
        begun.set()
        end.wait(60)
        gate.wait(60)
        raise ImportError("harms nobody")
    if name in background_import.SLOW:
        behind.wait(60)
        return
    # As filelock does: until a fork is over, nobody goes on who is about to define a lock.
    os.register_at_fork(before=gate.clear, after_in_parent=gate.set)

background_import.import_module = import_module
background_import.import_in_background()
begun.wait(60)
background_import.import_in_background()
threading.Timer(0.05, end.set).start()
assert os.fork is fork
child = os.fork()
if child == 0:
    signal.alarm(30)
    behind.set()
    background_import.wait_for_import()
    os._exit(0 if end.is_set() else 1)
print(len(background_import._threads), os.waitpid(child, 0)[1])
behind.set()
"""

EDITOR = f"""{NOTEBOOK}
import pnne_nb as pn
assert not background_import._threads
pn.NodeGraph
background_import._threads[0].join()
assert set(background_import.SLOW) <= set(sys.modules)
registered = []
os.register_at_fork = lambda **calls: registered.append(calls)
import filelock
print(registered)
"""


@pytest.mark.parametrize(("code", "printed"), [(FORK, "1 0"), (EDITOR, "[]")], ids=["fork", "editor"])
def test_a_notebook_imports_in_the_background_and_a_fork_waits_for_it(code: str, printed: str) -> None:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert ended.stdout.strip() == printed, ended.stderr
