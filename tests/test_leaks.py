"""What a test leaves behind is found: otherwise the check of every test would be worth nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import comm
import ipywidgets
import pytest
import torch
from torch import nn

from pnne_nb.inspector.capture.hooks import HookOwner
from tests import leaks


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "GRACE", 0.0)


def thread() -> Callable[[], object]:
    over = threading.Event()
    waiting = threading.Thread(target=over.wait, name="left")
    waiting.start()

    def end() -> None:
        over.set()
        waiting.join()

    return end


def process() -> Callable[[], object]:
    waiting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    return waiting.communicate


def file() -> Callable[[], object]:
    path = Path(tempfile.gettempdir(), f"left-{random.random()}")
    path.touch()
    return path.unlink


def variable() -> Callable[[], object]:
    os.environ["PNNE_LEFT"] = "1"
    return lambda: os.environ.pop("PNNE_LEFT")


def dtype() -> Callable[[], object]:
    torch.set_default_dtype(torch.float64)
    return lambda: torch.set_default_dtype(torch.float32)


def generator() -> Callable[[], object]:
    original = torch.default_generator
    torch.default_generator = torch.Generator()
    return lambda: setattr(torch, "default_generator", original)


def anomaly_mode() -> Callable[[], object]:
    torch.autograd.set_detect_anomaly(True)
    return lambda: torch.autograd.set_detect_anomaly(False)


def global_hook() -> Callable[[], object]:
    return nn.modules.module.register_module_forward_hook(lambda *_: None).remove


def widget() -> Callable[[], object]:
    slider = ipywidgets.IntSlider()

    def end() -> None:
        for part in (slider.layout, slider.style, slider):
            part.close()

    return end


def line_to_a_page() -> Callable[[], object]:
    opened = comm.create_comm(target_name="left")
    comm.get_comm_manager().register_comm(opened)
    return opened.close


@pytest.mark.parametrize(
    ("leave", "found"),
    [
        (thread, "the thread left"),
        (process, "the process "),
        (file, "the file "),
        (variable, "environment variable PNNE_LEFT"),
        (dtype, "torch's default dtype is torch.float64, and was torch.float32"),
        (generator, "torch's default generator is False"),
        (anomaly_mode, r"torch's anomaly mode is (True, True), and was (False, True)"),
        (global_hook, "torch's hooks of all modules"),
        (widget, "open widgets (1 IntSlider, 1 Layout, 1 SliderStyle)"),
        (line_to_a_page, "1 open comms of no widget"),
    ],
)
def test_what_is_left_is_found_until_it_is_gone(leave: Callable[[], Callable[[], object]], found: str) -> None:
    before = leaks.now()
    assert not leaks.left_since(before)
    end = leave()
    left = leaks.left_since(before)
    end()
    assert any(found in each for each in left), left
    assert not leaks.left_since(before)


def test_hooks_of_those_who_watch_are_found_while_their_model_lives() -> None:
    model = nn.Linear(2, 2)
    before = leaks.now()
    model.register_forward_hook(lambda *_: None)  # a model's own
    assert not leaks.left_since(before)
    with HookOwner() as owner:
        owner.on_output(model, lambda _: None)
        assert any("a hook, registered at pnne_nb.inspector.capture.hooks" in each for each in leaks.left_since(before))
    assert not leaks.left_since(before)
