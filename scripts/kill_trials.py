"""Kill trainings with SIGKILL at random moments, resume them, and compare every loss with an undisturbed run's.

    python scripts/kill_trials.py [TRIALS] [SEED]

Each trial takes one of the forms below (all data shuffled, the model with dropout and batch norm; most draw from the
global generator of torch, Python or NumPy somewhere: in the forward pass, the loss, a step function, a metric, the data,
some of them late or seldom), trains with a checkpoint every few steps, while somebody draws and seeds between two steps
as a cell would, is killed one to four times, and resumed from its directory each time. Half of the
kills come at a random time (before the first checkpoint, in a step, in a validation, after the last step), and half at
a random moment of writing a checkpoint (before, between and after what is done to its files, or with a part of it
written). A trial has failed if any loss that was ever reported for a step differs in one bit from the undisturbed
run's, or if a checkpoint was taken for damaged. Between the steps of the undisturbed run nobody draws. Exits with 1 then.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # an optimizer imports it, in a second: here once, not in each child
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

sys.path.insert(0, str(Path(__file__).parents[1]))

from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime.tasks import EXAMPLES, Noisy, images, network
from tests.runtime.tasks import FORMS as DRAWING_FORMS

WEIGHTS = torch.linspace(0.1, 1, EXAMPLES).tolist()
FORMS: dict[str, Callable[[], dict[str, Any]]] = {
    "tensors": dict,
    "tensors, bf16, clipped, accumulated": lambda: {"precision": "bf16", "grad_clip": 1.0, "accumulate": 2},
    "tensors, fp16 with scaled gradients": lambda: {"precision": "16"},
    "dataset that draws": lambda: {"train_data": Noisy()},
    "dataset that draws, 2 workers": lambda: {"train_data": DataLoader(Noisy(), 8, shuffle=True, num_workers=2)},
    "weighted sampler": lambda: {
        "train_data": DataLoader(TensorDataset(*images()), 8, sampler=WeightedRandomSampler(WEIGHTS, EXAMPLES))
    },
    **DRAWING_FORMS,
}
OPTIONS: dict[str, Any] = {
    "epochs": 6,
    "batch_size": 8,
    "device": "cpu",
    "optimizer": ("AdamW", {"lr": 0.01}),
    "scheduler": ("OneCycleLR", {"max_lr": 0.02, "total_steps": 72}),
    "validate_every": (7, "steps"),
    "checkpoint_every": (3, "steps"),
    "seed": 5,
}


def disturb(_: object) -> None:
    """Draw and seed between two steps, as cells do."""
    torch.manual_seed(1)
    torch.rand(3)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002  # the old generator is what is tested
    random.gauss(0, 1)
    np.random.randn(3)  # noqa: NPY002  # the old generator is what is tested


OPERATIONS = 210
"""What is done to the files of one undisturbed training, about."""


def die_writing(directory: Path, operation: int, share: float) -> None:
    """Kill this process before so many operations on files in `directory`, from 1.

    Where that is the moment when a file is complete, it is cut to a `share` of its length before.
    """
    count = 0

    def dies() -> bool:
        nonlocal count
        count += 1
        return count == operation

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"open", "os.rename", "os.remove"} and str(arguments[0]).startswith(str(directory)) and dies():
            os.kill(os.getpid(), signal.SIGKILL)

    def synchronize(descriptor: int) -> None:
        if dies():
            with contextlib.suppress(OSError):  # a directory has no length
                os.ftruncate(descriptor, int(os.fstat(descriptor).st_size * share))
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    fsync, os.fsync = os.fsync, synchronize
    sys.addaudithook(look)


def train(form: str, directory: Path, log: Path, dies: tuple[int, float] | None = None, *, alone: bool = False) -> None:
    """Begin the training or go on from `directory`, and append each step's number and loss to `log`."""
    if dies is not None:
        die_writing(directory, *dies)
    warnings.simplefilter("error")  # a damaged checkpoint warns
    torch.set_num_threads(1)
    data = {"train_data": images(), "val_data": images(2)}
    options = {"model": network(), **data, **FORMS[form](), "checkpoint_dir": directory}
    if any(directory.glob("*.ckpt")):
        engine = TrainingEngine.resume_from(directory, **options)
    else:
        engine = TrainingEngine(**{**OPTIONS, **options})
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    engine.on("step", lambda frame: os.write(file, f"{frame.step} {frame.loss.hex()}\n".encode()))
    if not alone:
        engine.on("step", disturb)
    engine.start()
    engine.wait()


def losses(log: Path) -> dict[int, set[str]]:
    """Every loss that was reported for each step."""
    found: dict[int, set[str]] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        step, loss = line.split()
        found.setdefault(int(step), set()).add(loss)
    return found


def undisturbed(form: str) -> tuple[dict[int, set[str]], float]:
    """The losses of a run that nobody kills, and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "log"
        child = FORK.Process(target=train, args=(form, Path(place) / "checkpoints", log), kwargs={"alone": True})
        began = time.perf_counter()
        child.start()
        child.join()
        return losses(log), time.perf_counter() - began


def trial(form: str, expected: dict[int, set[str]], seconds: float, draw: random.Random) -> tuple[int, int, str]:
    """Kills, those of them in the middle of writing a checkpoint, and what went wrong, if anything."""
    with tempfile.TemporaryDirectory() as place:
        directory, log = Path(place) / "checkpoints", Path(place) / "log"
        kills = writing = 0
        wanted = draw.randint(1, 4)
        for left in range(wanted, -1, -1):
            dies = (draw.randint(1, OPERATIONS // wanted), draw.random()) if left and draw.random() < 0.5 else None
            child = FORK.Process(target=train, args=(form, directory, log, dies))
            child.start()
            child.join(120.0 if dies or not left else draw.uniform(0.0, seconds * 1.5 / wanted))
            if child.exitcode is None:
                child.kill()
                child.join()
                kills += 1
                if not left:
                    return kills, writing, "did not end"
            elif dies is not None and child.exitcode == -signal.SIGKILL:
                kills, writing = kills + 1, writing + 1
            elif child.exitcode != 0:
                return kills, writing, f"ended with {child.exitcode}"
        return kills, writing, "" if losses(log) == expected else "the losses differ"


def main() -> int:
    """Run the trials and print what came of them."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    expected: dict[str, tuple[dict[int, set[str]], float]] = {}
    failures = kills = writing = 0
    for number in range(1, trials + 1):
        form = draw.choice(list(FORMS))
        if form not in expected:
            expected[form] = undisturbed(form)
        killed, in_write, fault = trial(form, *expected[form], draw)
        kills, writing, failures = kills + killed, writing + in_write, failures + bool(fault)
        if fault:
            print(f"trial {number} ({form}): {fault}", flush=True)
    print(
        f"{trials} trials, {kills} kills ({writing} while a checkpoint was written), "
        f"{trials - failures} bit-identical to the undisturbed run, {failures} not"
    )
    return 1 if failures else 0


FORK = multiprocessing.get_context("fork")

if __name__ == "__main__":
    sys.exit(main())
