"""Imports that begin before somebody waits for them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from pnne_nb.process import background_import
from pnne_nb.process.background_import import (
    _asked,
    import_in_background,
    imported_late,
    importing_alone,
    ipython,
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
    assert ipython() is None
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


@pytest.mark.usefixtures("notebook")
def test_nothing_is_imported_beside_who_imports_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one of two threads that import parts of a package which need each other is given one half made."""
    names = [f"number_{number}_of_nobody" for number in range(200)]
    alone = [False]
    came: list[str] = []
    beside: list[str] = []

    def import_module(name: str) -> None:
        (beside if alone[0] else came).append(name)

    monkeypatch.setattr(background_import, "import_module", import_module)
    import_in_background(*names)
    for _ in range(2000):
        with importing_alone(), importing_alone():
            alone[0] = True
            time.sleep(0)  # gives Python's lock away
            alone[0] = False
    wait_for_imports()
    assert (came, beside) == (names, [])
    for name in names:
        _asked.pop(name)


def test_a_module_that_is_imported_late_is_imported_alone_and_one_that_is_there_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, bool]] = []

    def import_module(name: str) -> ModuleType:
        asked.append((name, background_import._here.imports))
        return ModuleType(name)

    monkeypatch.setattr(background_import, "import_module", import_module)
    held, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with importing_alone():
            held.set()
            enough.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    assert imported_late("json") is sys.modules["json"]
    # In the middle of its import, a module is there as well.
    half = ModuleType("half_made")
    half.__spec__ = ModuleSpec("half_made", None)
    half.__spec__._initializing = True  # type: ignore[attr-defined]  # private to importlib
    monkeypatch.setitem(sys.modules, "half_made", half)
    assert not asked
    enough.set()
    for name in ("half_made", UNUSED):
        assert imported_late(name).__name__ == name
    thread.join()
    assert asked == [("half_made", True), (UNUSED, True)]


FORK = """
import os, signal, sys, threading
from types import ModuleType
kernel = ModuleType("IPython")
kernel.get_ipython = object
sys.modules["IPython"] = kernel
from pnne_nb.process import background_import
begun, end, behind = threading.Event(), threading.Event(), threading.Event()

def import_module(name):
    if name == "first":
        begun.set()
        end.wait(60)
    else:
        behind.wait(60)

background_import.import_module = import_module
background_import.import_in_background("first", "second", "third")
begun.wait(60)
threading.Timer(0.05, end.set).start()
child = os.fork()
if child == 0:
    signal.alarm(30)
    background_import.wait_for_import("second")
    background_import.wait_for_import("third")
    background_import.wait_for_imports()
    os._exit(0 if end.is_set() else 1)
print("forked", end.is_set(), behind.is_set(), os.waitpid(child, 0)[1])
behind.set()
background_import.wait_for_imports()
"""

GATE = """
import os, sys, threading
from types import ModuleType
kernel = ModuleType("IPython")
kernel.get_ipython = object
sys.modules["IPython"] = kernel
from pnne_nb.process import background_import
begun, gate = threading.Event(), threading.Event()
gate.set()
os.register_at_fork(before=gate.clear, after_in_parent=gate.set)
forks = os.fork, os.forkpty

def import_module(name):
    begun.set()
    threading.Event().wait(0.05)
    gate.wait(60)

background_import.import_module = import_module
background_import.import_in_background("first", "second")
begun.wait(60)
replaced = os.fork is not forks[0]
child = os.fork()
if child == 0:
    os._exit(0 if (os.fork, os.forkpty) == forks else 1)
print("forked", replaced, os.waitpid(child, 0)[1])
background_import.wait_for_imports()
print((os.fork, os.forkpty) == forks)
"""
"""As filelock does: until a fork is over, nobody goes on who is about to define a lock."""

USES = """
import os, sys
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance()
from pnne_nb.process.background_import import _asked

late_calls, register = [], os.register_at_fork
def noted(**calls):
    caller = sys._getframe(1).f_globals["__name__"].partition(".")[0]
    modules = [module.partition(".")[0] for module, there in list(_asked.items()) if not there.is_set()]
    if modules and caller != modules[0]:
        late_calls.append(f"{caller} in {modules[0]}")
    register(**calls)
os.register_at_fork = noted

import torch
from torch import nn
import pnne_nb as pn
from pnne_nb.process.background_import import wait_for_imports

net, x = nn.Sequential(nn.Linear(4, 3)), torch.zeros(2, 4)
graph = pn.sequential(nn.Linear(4, 3), input=("N", 4))
wait_for_imports()
assert "torch._dynamo" in sys.modules
pn.GraphEditor(graph)._repr_mimebundle_()
wait_for_imports()
there = set(sys.modules)
pn.infer_shapes(graph)
pn.to_source(graph)
model = pn.compile(graph)
pn.from_module(net, args=(x,))
engine = pn.TrainingEngine(graph, (torch.zeros(8, 4), torch.arange(8) % 3), epochs=1, device="cpu")
pn.TrainingDashboard(engine)._repr_mimebundle_()
engine.start()
engine.wait()
pn.Inspector(net).run_inspection(x)
pn.ModuleExplorer(net)._repr_mimebundle_()
pn.summary(net, x)
pn.InferenceEngine(model)
import pnne_nb.export.formats.onnx_writer
late = {name for name in set(sys.modules) - there if not name.startswith("pnne_nb.")}
print(sorted(late) if len(late) > 30 else late_calls or "imported")
"""
"""Each thing that somebody does in the first hour; each module that is still imported then is one that they wait for.

A module that registers calls at each fork comes by itself: a fork that waits for a larger one makes half of those calls.
"""


def test_a_fork_waits_for_the_module_under_way_and_no_longer() -> None:
    ended = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.strip() == "forked True False 0", ended.stderr


def test_a_fork_waits_before_anybody_prepares_for_it() -> None:
    ended = subprocess.run([sys.executable, "-c", GATE], capture_output=True, text=True, timeout=50, check=False)
    assert ended.stdout.split() == ["forked", "True", "0", "True"], ended.stderr


def test_after_an_editor_no_first_use_waits_for_an_import_nor_does_a_fork_make_half_of_its_calls() -> None:
    ended = subprocess.run([sys.executable, "-c", USES], capture_output=True, text=True, timeout=240, check=False)
    assert ended.stdout.strip() == "imported", ended.stdout + ended.stderr
