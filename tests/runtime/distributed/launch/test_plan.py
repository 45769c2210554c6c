"""What cannot be launched is refused before any process starts."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.distributed.launch import strategies
from pnne_nb.runtime.distributed.launch.plan import LaunchPlan
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime import tasks
from tests.runtime.distributed import groups, nodes

_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"nproc": 0}, "nproc must be a whole number, at least 1, not 0"),
    ({"nproc": "two"}, r"of the wrong kind: Expected `int`, got `str` - at `\$.nproc`"),
    ({"nproc": 3}, "nproc=3 is more than this machine has, 2 CPU cores: give nproc=2 or less"),
    ({"nprocs": 2}, "launch takes no argument 'nprocs'. Did you mean 'nproc'"),
    ({"nnodes": 0}, "nnodes must be a number of machines, at least 1, or a range such as '1:4', not 0"),
    ({"nnodes": "4:1"}, "nnodes must be a number of machines, .* not '4:1'"),
    ({"nnodes": 2}, "nnodes=2 needs rdzv, the place where the machines meet: give rdzv="),
    ({"nnodes": 2, "rdzv": "node1:29400"}, "nnodes=2 needs a directory that all machines see"),
    ({"rdzv": "node1"}, "rdzv must be a host and a port such as \"node1:29400\", not 'node1'"),
    ({"rdzv": "no.such.host.invalid:29400"}, "rdzv='no.such.host.invalid:29400' is no place on this machine"),
    ({"strategy": "ffsdp"}, "strategy must be 'ddp' or 'fsdp', not 'ffsdp'. Did you mean 'fsdp'"),
    ({"backend": "glo"}, "There is no backend 'glo'; there is .*gloo.* Did you mean 'gloo'"),
    ({"backend": "nccl"}, "The backend 'nccl' does not work here on cpu: give 'gloo', or none"),
    ({"max_restarts": -1}, "max_restarts must be a whole number, at least 0, not -1"),
    ({"bucket_cap_mb": 0}, "bucket_cap_mb must be a positive number of MiB, or None, not 0.0"),
    (
        {"strategy": "fsdp", "static_graph": True},
        "static_graph is an option of DistributedDataParallel, and strategy='fsdp' does without it: leave it out, or give",
    ),
    ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
]


@pytest.mark.parametrize(("arguments", "message"), _ARGUMENTS)
def test_arguments_that_cannot_be(arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    engine = groups.engine()
    with pytest.raises(TrainingError, match=message):
        engine.launch(**arguments)
    assert engine.state == "idle"
    assert groups.children() == []


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("localhost", 0)) as other:
        place = f"localhost:{other.getsockname()[1]}"
        with pytest.raises(TrainingError, match=f"Port {other.getsockname()[1]} of localhost is in use"):
            groups.engine().launch(nproc=1, rdzv=place)


def test_devices_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(TrainingError, match="nproc=2 is more than this machine has, 1 GPU: give nproc=1 or less"):
        LaunchPlan(nproc=2).check(torch.device("cuda", 0), listens=True)
    with pytest.raises(TrainingError, match="on CPUs or CUDA GPUs, not on mps: make the engine with device='cpu'"):
        LaunchPlan(nproc=1).check(torch.device("mps"), listens=False)


def test_without_distributed_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_available", lambda: False)
    with pytest.raises(TrainingError, match=r"no torch\.distributed, and so no torchrun"):
        groups.engine().launch(nproc=1)


def test_the_command_of_gpus_and_of_several_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    plan = LaunchPlan(
        nproc=8, nnodes=4, rdzv="node1:29400", directory="/shared/run", imports=("mine",), sync_batch_norm=True
    )
    plan.check(torch.device("cuda"), listens=False)
    assert plan.processes == 32
    assert plan.torchrun("run") == [
        "--nnodes=4",
        "--nproc-per-node=8",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=node1:29400",
        "--rdzv-id=run",
        "--max-restarts=3",
    ]
    assert plan.worker(Path("/shared/run"), torch.device("cuda"), 5) == [
        "/shared/run",
        "--strategy=ddp",
        "--backend=nccl",
        "--device=cuda",
        "--epochs=5",
        "--timeout=300",
        "--sync-batch-norm",
        "--import=mine",
    ]


def test_options_of_replication_reach_the_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"find_unused_parameters": False, "gradient_as_bucket_view": True, "bucket_cap_mb": 2.0}
    command = LaunchPlan.of(**options).worker(Path("run"), torch.device("cpu"), 1)
    [sent] = [argument.removeprefix("--ddp=") for argument in command if argument.startswith("--ddp=")]
    assert json.loads(sent) == options
    made: dict[str, Any] = {}
    monkeypatch.setattr(strategies, "DistributedDataParallel", lambda _, **arguments: made.update(arguments))
    for given, unused in ((options, False), ({}, True)):
        made.clear()
        strategies.strategy("ddp", given).prepare(nn.Linear(1, 1), torch.device("cpu"))
        assert made == {"device_ids": None, "find_unused_parameters": unused, **given}


class _Undrawable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(36, tasks.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x.flatten(1))
        return y if y.sum().item() > 0 else -y


_PRIVATE: list[tuple[Callable[[], TrainingEngine], str]] = [
    (lambda: groups.engine(loss=nn.CrossEntropyLoss()), "loss: given as Python objects, which exist in this process"),
    (lambda: groups.engine(train_data=tasks.Noisy()), "train_data is a Noisy, which exists in this process only"),
    (lambda: groups.engine(_Undrawable()), "The model is a _Undrawable, whose code exists in this process only"),
]


@pytest.mark.parametrize(("make", "message"), _PRIVATE)
def test_what_no_file_for_other_machines_can_hold(
    make: Callable[[], TrainingEngine], message: str, tmp_path: Path
) -> None:
    engine = make()
    with pytest.raises(TrainingError, match=message):
        engine.launch_command(nproc=2, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class _Locked(tasks.Noisy):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def _with_more_to_train() -> TrainingEngine:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, tasks.CLASSES))
    weights = nn.Parameter(torch.ones(3))
    return groups.engine(model, optimizer=torch.optim.SGD([*model.parameters(), weights], lr=0.1))


def _placed() -> TrainingEngine:
    graph = tasks.picture_graph()
    graph.set("fc", device="meta")
    return groups.engine(graph)


_IMMOVABLE: list[tuple[Callable[[], TrainingEngine], str]] = [
    (
        lambda: groups.engine(nodes.graph()),
        r"twice \(Doubled\): registered in this process, .* imports=\(\"my_nodes\",\)",
    ),
    (
        lambda: groups.engine(nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.Linear(4, 4, device="meta"))),
        r"The model is on cpu, meta, but each process of a group trains on one device\. Take the places away",
    ),
    (lambda: groups.engine(batch_size=1), "A batch of train_data has 1 examples, too few for 2 processes"),
    (
        lambda: groups.engine(train_data=_Locked()),
        "train_data cannot be handed to the processes of a group: TypeError: .* open them when they are needed",
    ),
    (
        _with_more_to_train,
        r"The optimizer moves 1 tensors that are no parameters of the model \(the first has shape \(3,",
    ),
    (
        _placed,
        r"fc: placed on devices of their own, but each process of a group trains on one device\. Take the places",
    ),
]


@pytest.mark.parametrize(("make", "message"), _IMMOVABLE)
def test_what_cannot_be_handed_over(
    make: Callable[[], TrainingEngine], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    engine = make()
    with pytest.raises(TrainingError, match=message):
        engine.launch(nproc=2, directory=tmp_path / "run")
    assert engine.state == "idle"
    assert not (tmp_path / "run").exists()


def test_an_optimizer_that_needs_all_parameters_at_once() -> None:
    with pytest.raises(TrainingError, match=r'LBFGS takes all parameters for one long vector, .*: give strategy="ddp"'):
        groups.engine(optimizer="LBFGS").launch(nproc=1, strategy="fsdp")


def test_a_training_under_way_is_not_launched() -> None:
    engine = groups.engine()
    engine.step()
    with pytest.raises(TrainingError, match=r"A training is paused: stop\(\) it, and launch\(\) goes on from there"):
        engine.launch(nproc=1)
    engine.stop()
