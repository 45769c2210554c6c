"""Torch's process-wide switches: one file sets them, and what a training sets for its steps is put back."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

from pnne_nb.runtime.thread import determinism
from pnne_nb.runtime.thread.determinism import Determinism
from tests.runtime.tasks import engine


class Asks(nn.Module):
    """Notes what torch's switches say while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(36, 4)
        self.found: set[tuple[bool, bool]] = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.found.add((torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark))
        scores: torch.Tensor = self.fc(x.flatten(1))
        return scores


def switches() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
    )


def test_steps_and_validations_are_deterministic_and_nothing_else() -> None:
    before = switches()
    model = Asks()
    trained = engine(model=model, deterministic=True, val_data=(torch.zeros(4, 1, 6, 6), torch.zeros(4).long()))
    found = []
    trained.on("step", lambda _: found.append(switches()))
    assert trained.start().wait(60)
    trained.validate()
    assert model.found == {(True, False)}
    assert set(found) == {before}
    assert switches() == before


def test_a_training_leaves_the_switches_alone_unless_asked() -> None:
    model = Asks()
    trained = engine(model=model)
    trained.step()
    trained.stop()
    assert model.found == {(False, False)}


def test_the_switches_of_others_come_back() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with Determinism(torch.device("cpu"), wanted=True):
            assert switches()[:2] == (True, False)
        assert switches()[:2] == (True, True)
    finally:
        torch.use_deterministic_algorithms(False)


SETTERS = (
    "set_default_dtype",
    "set_default_device",
    "set_detect_anomaly",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "use_deterministic_algorithms",
)
FLAGS = re.compile(r"\b(torch\.backends\.[\w.]+|torch\.default_generator|_random\.default_generator) = ")


def test_no_other_file_sets_a_switch_of_the_process() -> None:
    package = Path(determinism.__file__).parents[2]
    found = set()
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if any(f"{name}(" in text for name in SETTERS) or FLAGS.search(text):
            found.add(path.relative_to(package).as_posix())
    # What `to_script` writes is a program of its own: its template sets the switches of whoever runs that. After an import,
    # the default dtype is set back, in case the forward that was followed has set it.
    # Off the CPU, an import is proved with deterministic kernels, which are set back at its end. The name of the default
    # generator waits for the end of a step.
    others = {
        "runtime/script/to_script.py",
        "compiler/weights/deepcopy.py",
        "compiler/analysis/own_noise.py",
        "runtime/thread/running_trainings.py",
    }
    assert found - others == {"runtime/thread/determinism.py"}


def test_the_switches_of_one_process_are_taken_over_by_another() -> None:
    here = determinism.switches()
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        there = determinism.switches()
        assert there != here
        determinism.set_switches(here)
        assert determinism.switches() == here
        determinism.set_switches(there)
        assert determinism.switches() == there
    finally:
        determinism.set_switches(here)
