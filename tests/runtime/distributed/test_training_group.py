"""Real processes: each test starts a group with torchrun. They are few, because each costs seconds."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest
import torch
import torchmetrics
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from pnne_nb.errors import TrainingError
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop.fault_replay import NotFiniteError
from pnne_nb.telemetry.frames import (
    CostFrame,
    EpochFrame,
    HistogramFrame,
    NormsFrame,
    StateFrame,
    StatisticsFrame,
    StepFrame,
)
from pnne_nb.telemetry.probe import Cadence
from tests.runtime import tasks
from tests.runtime.distributed import groups, nodes

pytestmark = pytest.mark.timeout(400)


def test_two_processes_train_as_one_does_and_are_watched_as_one_is() -> None:
    options: dict[str, Any] = {"scheduler": ("OneCycleLR", {"max_lr": 0.01}), "grad_clip": 0.5}
    alone, together = groups.engine(**options), groups.engine(**options)
    for engine in (alone, together):
        engine.add_probe(LiveProbe(engine.module, {"fc": ("activations", "parameters")}), Cadence(1e9, 1.0))
    inspector = Inspector(together.module)
    inspector.watch("relu1", what=("activations",))
    inspector.attach(together, budget=1.0, hz=1e9)
    steps: list[int] = []
    together.on("step", lambda frame: steps.append(frame.step))
    group = together.launch(nproc=2)
    assert groups.state_of(together) == "running"
    # None of them can have imported torch by now.
    waits_for = together.waiting_for
    assert waits_for == "2 processes to start"
    assert together.wait(groups.SECONDS)
    assert together.waiting_for is None
    alone.start().wait()
    assert groups.state_of(together) == "finished"
    assert steps == list(range(1, 13))
    groups.assert_close(alone, together)
    told = together.channel.drain()
    assert [frame.epoch for frame in told if isinstance(frame, EpochFrame)] == [1, 2]
    assert len([frame for frame in told if isinstance(frame, StepFrame)]) == 12
    assert [frame.state for frame in told if isinstance(frame, StateFrame)] == ["running", "finished"]
    assert group.processes == {}
    assert not group.directory.exists()
    assert groups.children() == []
    norms = [{f.step: f for f in frames if isinstance(f, NormsFrame)} for frames in (alone.channel.drain(), told)]
    observed = norms[0].keys() & norms[1].keys()
    assert 1 in observed
    for step in observed:
        assert norms[1][step].total == pytest.approx(norms[0][step].total, abs=1e-5)
        assert norms[1][step].norms == pytest.approx(norms[0][step].norms, abs=1e-5)
    layers = {(f.layer, f.quantity) for f in told if isinstance(f, HistogramFrame)}
    assert layers == {("fc", "activations"), ("fc", "parameters"), ("relu1", "activations")}
    assert any(isinstance(f, StatisticsFrame) and f.layer == "relu1" for f in told)
    assert any(isinstance(f, CostFrame) for f in told)


class _Pair(nn.Module):
    """A plain module with a part that a step function may call, and one that nothing calls."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Linear(9, tasks.CLASSES))
        self.idle = nn.Linear(2, 2)

    def features(self, x: Tensor) -> Tensor:
        """What is known before the classes are."""
        found: Tensor = self.conv(x).relu()
        return found

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(self.features(x))
        return y


_WEIGHED = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2, 1.0]), ignore_index=3)


def _normalised() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, tasks.CLASSES)
        )


def _pair() -> _Pair:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return _Pair()


def _compared(model: nn.Module, batch: Any) -> Tensor:
    """The model on a batch, and a part of it twice more: some of which no forward pass of the model begins."""
    pictures, classes = batch
    assert isinstance(model, _Pair)
    twins = model.features(pictures) - model.features(pictures.flip(-1))
    return nn.functional.cross_entropy(model(pictures), classes) + twins.square().mean()


_FIRST_IS_BEST = {"restore_best_weights": True, "monitor": ("train_loss", "max")}


@pytest.mark.parametrize("options", [_FIRST_IS_BEST, {"step_function": _compared}])
def test_processes_that_each_hold_a_part_of_a_plain_module_train_as_one_does(options: dict[str, Any]) -> None:
    def engine() -> TrainingEngine:
        loader = DataLoader(TensorDataset(*tasks.images()), batch_size=20, shuffle=True, drop_last=True)
        return groups.engine(_pair(), train_data=loader, grad_clip=0.5, **options)

    def look() -> None:
        with together.paused():
            pass

    alone, together = engine(), engine()
    # What the group holds in parts is put together for this, and taken apart again.
    groups.at_step(together, 3, look)
    together.launch(nproc=2, strategy="fsdp")
    alone.start().wait()
    assert together.wait(groups.SECONDS)
    groups.assert_close(alone, together)


def test_batch_norm_sees_the_whole_batch_on_request() -> None:
    # In the last batch of one example, the second process has none.
    options: dict[str, Any] = {"optimizer": ("SGD", {"lr": 0.1}), "accumulate": 2, "loss": _WEIGHED}
    alone, together = groups.engine(_normalised(), **options), groups.engine(_normalised(), **options)
    together.launch(nproc=2, sync_batch_norm=True)
    alone.start().wait()
    assert together.wait(groups.SECONDS)
    groups.assert_close(alone, together)


def test_commands_reach_the_group_and_one_process_goes_on_from_where_it_was() -> None:
    def twice(model: nn.Module, batch: Any) -> dict[str, Tensor]:
        pictures, classes = batch
        both = model(pictures) + model(pictures.flip(-1))
        loss = nn.functional.cross_entropy(both, classes)
        return {"loss": loss, "size": both.abs().mean(), "output": both, "target": classes}

    alone, together = (groups.engine(nodes.graph(), accumulate=2, step_function=twice) for _ in range(2))
    reached = threading.Event()
    groups.at_step(together, 2, reached.set)
    together.launch(nproc=2, imports="tests.runtime.distributed.nodes")
    assert reached.wait(groups.SECONDS)
    together.pause()
    assert groups.state_of(together) == "paused"
    done = int(together.history.steps()[-1])
    together.step(4 - done)
    assert list(together.history.steps()) == [1, 2, 3, 4]
    together.set_optimizer(lr=0.02)
    together.step()
    together.stop()
    assert groups.state_of(together) == "stopped"
    assert groups.children() == []
    assert together.optimizer.param_groups[0]["lr"] == 0.02
    assert together.start().wait(groups.SECONDS)
    alone.step(4)
    alone.set_optimizer(lr=0.02)
    alone.start().wait()
    groups.assert_close(alone, together)


def test_a_killed_process_is_started_again_and_changes_nothing(tmp_path: Path) -> None:
    # The undisturbed training is the printed command, typed by hand on two machines that this one plays.
    undisturbed = groups.drawn_engine()
    with socket.create_server(("localhost", 0)) as free:
        rdzv = f"localhost:{free.getsockname()[1]}"
    # Its processes end well, also with something in them that aborts in an interpreter on its way out.
    imports = "tests.runtime.distributed.ending"
    command = undisturbed.launch_command(nproc=1, nnodes=2, rdzv=rdzv, directory=tmp_path / "run", imports=imports)
    torchrun = [str(Path(sys.executable).with_name("torchrun")), *shlex.split(command)[1:]]
    machines = [subprocess.Popen(torchrun, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    try:
        said = [machine.communicate(timeout=groups.SECONDS)[0] for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
    assert [machine.returncode for machine in machines] == [0, 0], said
    undisturbed.load_checkpoint(tmp_path / "run")

    class Pictures(Dataset[Any]):
        """No module has it, and no file holds it: whoever is started, again too, is handed it."""

        def __init__(self) -> None:
            self.pictures, self.classes = tasks.images()

        def __len__(self) -> int:
            return len(self.classes)

        def __getitem__(self, index: int) -> Any:
            return self.pictures[index], self.classes[index]

    engine = groups.drawn_engine(Pictures())
    killed: list[int] = []

    def kill() -> None:
        killed.append(group.processes[1])
        os.kill(killed[0], signal.SIGKILL)
        engine.stop(wait=False)

    groups.at_step(engine, 9, kill)
    group = engine.launch(nproc=2)
    assert engine.wait(groups.SECONDS)
    # It stops where it was asked to: all are started again, and make the lost steps once more before.
    assert groups.state_of(engine) == "stopped"
    assert list(engine.history.steps()) == list(range(1, 10))
    assert group.restarts == 1
    assert not psutil.pid_exists(killed[0])
    (anomaly,) = engine.history.anomalies
    assert anomaly.kind == "worker-restarted"
    assert "Process 1 of the group was killed" in anomaly.message
    assert "from the checkpoint of step 6" in anomaly.message
    engine.launch(nproc=2)
    assert engine.wait(groups.SECONDS)
    assert list(engine.history.steps()) == list(range(1, 19))
    groups.assert_close(undisturbed, engine, tolerance=0)


def test_objects_of_a_notebook_s_own_classes_are_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defined here, not in a module that processes could import; but for one, from where only this process looks."""
    (tmp_path / "halving_of_rates.py").write_text("def halved(epoch):\n    return 0.5**epoch\n")
    monkeypatch.syspath_prepend(tmp_path)
    halved = import_module("halving_of_rates").halved

    class Pictures(Dataset[Any]):
        def __init__(self, seed: int) -> None:
            self.pictures, self.classes = tasks.images(seed)

        def __len__(self) -> int:
            return len(self.classes)

        def __getitem__(self, index: int) -> Any:
            return self.pictures[index], self.classes[index]

    class Undrawable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(36, tasks.CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(x.flatten(1))
            return y if y.sum().item() > -1e9 else -y

    def engine() -> TrainingEngine:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            model = Undrawable()
            parameters: list[dict[str, Any]] = [{"params": model.layer.weight}, {"params": model.layer.bias, "lr": 0.2}]
            optimizer = torch.optim.SGD(parameters, lr=0.1)

            def weighed(output: Tensor, target: Tensor) -> Tensor:
                return 2 * nn.functional.cross_entropy(output, target) + model.layer.weight.square().mean()

            weighed.reduction = "mean"  # type: ignore[attr-defined]  # functions take attributes
            return groups.engine(
                model,
                train_data=DataLoader(Pictures(1), batch_size=19, shuffle=True),
                val_data=Pictures(2),
                loss=weighed,
                optimizer=optimizer,
                scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, halved),
                metrics=("accuracy", ("f1", torchmetrics.F1Score("multiclass", num_classes=tasks.CLASSES))),
            )

    alone, together = engine(), engine()
    alone.start().wait()
    loss = together._loop.recipe.loss
    del loss.reduction  # type: ignore[union-attr]  # functions take attributes
    with pytest.raises(TrainingError, match=r"the loss weighed does not say .* Write loss\.reduction = \"mean\""):
        together.launch(nproc=2)
    loss.reduction = "mean"  # type: ignore[union-attr]  # functions take attributes
    together.launch(nproc=2)
    assert together.wait(groups.SECONDS)
    groups.assert_close(alone, together)


def test_a_group_that_hangs_is_ended_and_says_so() -> None:
    engine = groups.engine(checkpoint_every=(2, "steps"))

    def halt() -> None:
        os.kill(group.processes[1], signal.SIGSTOP)
        # Not before: on a busy machine, steps may take as long.
        group._plan = msgspec.structs.replace(group._plan, timeout=5.0)

    groups.at_step(engine, 3, halt)
    group = engine.launch(nproc=2)
    with pytest.raises(
        TrainingError, match=r"hangs: no news for 5 seconds after step 3\. All its processes were ended"
    ):
        engine.wait(groups.SECONDS)
    assert groups.children() == []
    # What nobody can undo is told no more: the training stands at the last checkpoint.
    assert list(engine.history.steps()) == [1, 2]
    engine.step()
    assert list(engine.history.steps()) == [1, 2, 3]
    engine.stop()


def test_memory_too_small_in_one_is_eased_in_all_and_what_fails_in_one_fails_in_the_notebook_at_the_same_node() -> None:
    pictures, classes = tasks.images()
    pictures[77] = torch.inf
    options: dict[str, Any] = {"train_data": (pictures, classes), "validate_every": (1, "steps")}
    alone, together = (groups.engine(nodes.graph("Cramped"), **options) for _ in range(2))
    together.launch(nproc=2, imports=nodes.__name__)
    alone.start()
    with pytest.raises(NotFiniteError) as expected:
        alone.wait()
    with pytest.raises(NotFiniteError) as found:
        together.wait(groups.SECONDS)
    assert found.value.diagnostics == expected.value.diagnostics
    assert any("of the group, while training on batch" in note for note in found.value.__notes__)
    assert [frame.kind for frame in together.history.anomalies] == [*["out-of-memory"] * 3, "nan-loss"]
    assert "each batch is cut into 4 pieces" in together.history.anomalies[1].message
    # One process alone goes by an event more than the other, unless all of them tell of it.
    assert "in the validation after step 1 with 5 examples" in together.history.anomalies[2].message
    groups.assert_close(alone, together)


def test_without_torchrun_no_process_trains_on() -> None:
    engine = groups.engine()
    started: list[psutil.Process] = []

    def kill() -> None:
        started.extend(groups.children())
        next(process for process in started if process.ppid() == os.getpid()).kill()

    groups.at_step(engine, 2, kill)
    engine.launch(nproc=2)
    with pytest.raises(TrainingError, match=r"The group of 2 processes ended \(torchrun: exit status -9\)"):
        engine.wait(groups.SECONDS)
    assert len(started) == 3
    groups.assert_gone(started)


_KERNEL = """
import threading
from tests.runtime.distributed import groups

engine = groups.engine()

def halt():
    print(*(process.pid for process in groups.children()), flush=True)
    threading.Event().wait()

groups.at_step(engine, 2, halt)
engine.launch(nproc=2)
engine.wait()
"""


def test_without_the_kernel_no_process_trains_on(tmp_path: Path) -> None:
    # Who is killed leaves files behind.
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", _KERNEL], stdout=subprocess.PIPE, text=True, env=variables) as kernel:
        assert kernel.stdout is not None
        started = [psutil.Process(int(pid)) for pid in kernel.stdout.readline().split()]
        # Nobody who hangs can hear that the line has ended.
        for process in started:
            process.suspend()
        kernel.kill()
    assert len(started) == 3
    groups.assert_gone(started)
