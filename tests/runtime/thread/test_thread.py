"""A kernel that shuts down is never held up by a training, wherever that is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pnne_nb.runtime.thread import thread

START = """
import sys, threading
sys.path.insert(0, ".")
import torch
from torch.utils.data import Dataset
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime.tasks import engine, images, network
ready = threading.Event()
"""

ENDINGS = {
    "a running training": """
made = engine(epochs=10**6, checkpoint_dir=sys.argv[1])
made.on("step", lambda frame: ready.set())
made.start()
ready.wait()
print("leaving")
""",
    "a halted training": """
made = engine(epochs=10**6, checkpoint_dir=sys.argv[1])
made.step(3)
print("leaving")
""",
    "a cell that parks the training": """
from pnne_nb.runtime.thread.cells import cells
made = engine(epochs=10**6, checkpoint_dir=sys.argv[1])
made.on("step", lambda frame: ready.set())
made.start()
ready.wait()
cells.began()
made.model.state_dict()
print("leaving")
""",
    "an uncaught exception": """
made = engine(epochs=10**6, checkpoint_dir=sys.argv[1])
made.on("step", lambda frame: ready.set())
made.start()
ready.wait()
print("leaving")
raise SystemExit(0)
""",
}

STUCK = """
from pnne_nb.runtime.thread import thread
thread._SECONDS_AT_EXIT = 0.2
class Stuck(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, index):
        ready.set()
        threading.Event().wait()
made = engine(train_data=Stuck())
made.start()
ready.wait()
print("leaving")
"""

DEEP_IN_A_STEP = """
class Heavy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()
    def forward(self, x):
        ready.set()
        for _ in range(30):
            torch.ones(700, 700) @ torch.ones(700, 700)
        return self.net(x)
made = engine(model=Heavy())
made.start()
ready.wait()
print("leaving")
"""


def leave(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + code, str(directory)], capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize("ending", list(ENDINGS))
def test_a_process_ends_and_keeps_the_last_checkpoint(ending: str, tmp_path: Path) -> None:
    ended = leave(ENDINGS[ending], tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "leaving\n", "")
    assert list(tmp_path.glob("*.ckpt"))


@pytest.mark.parametrize("code", [STUCK, DEEP_IN_A_STEP], ids=["stuck in the data", "deep in a step"])
def test_a_process_ends_in_the_middle_of_a_step(code: str, tmp_path: Path) -> None:
    ended = leave(code, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "leaving\n")


def test_one_core_is_left_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert thread.threads_for_training() == 7
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert thread.threads_for_training() == 1
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread.threads_for_training() == 1
