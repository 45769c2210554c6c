"""The server or the process of a training takes in nothing more: the kernel waits for neither."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.training_process import training_process
from pnne_nb.runtime.training_process.process_server import server
from pnne_nb.runtime.training_process.training_process import TrainingProcess
from tests.runtime import tasks
from tests.runtime.distributed import groups
from tests.runtime.distributed.groups import state_of
from tests.runtime.training_process.same import assert_same

pytestmark = pytest.mark.timeout(300)

AT_ONCE = 20.0
"""Seconds; on a quiet machine it is a hundredth of that."""


class Large(nn.Module):
    """The task's network and 4 MB, which no socket takes unless somebody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tasks.network()
        self.frozen = nn.Parameter(torch.ones(1_000_000), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x)
        return scores * self.frozen[:1]


@contextmanager
def suspended(pid: int | None) -> Iterator[psutil.Process]:
    """A block in which a process does nothing."""
    process = psutil.Process(pid)
    process.suspend()
    try:
        yield process
    finally:
        if process.is_running():
            process.resume()


def warm_server() -> int | None:
    """Number of a server that has forked a process."""
    engine = tasks.engine(epochs=1)
    assert engine.start(process=True).wait(groups.SECONDS)
    return server.pid


def test_a_stop_while_the_process_starts_waits_for_nothing() -> None:
    thread, engine = tasks.engine(Large()), tasks.engine(Large())
    with suspended(warm_server()):
        engine.start(process=True)
        assert engine.waiting_for == "a process to start"
        began = time.monotonic()
        engine.stop()
        assert time.monotonic() - began < AT_ONCE
        assert (state_of(engine), engine.progress.step) == ("stopped", 0)
    for each, process in ((thread, False), (engine, True)):
        assert each.start(process=process).wait(groups.SECONDS)
    assert_same(thread, engine)


def test_a_warm_server_that_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tasks.engine(Large())
    with suspended(warm_server()) as process, monkeypatch.context() as patch:
        patch.setattr(training_process, "_STARTING", 0.1)
        engine.start(process=True)
        with pytest.raises(TrainingError, match=r"server that starts .* not answered for 0\.1 seconds\. It was killed"):
            engine.wait(groups.SECONDS)
        psutil.wait_procs([process], groups.SECONDS)
    assert engine.start(process=True).wait(groups.SECONDS)


def test_a_server_that_has_not_imported_torch_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server.close()
    server.start()
    engine = tasks.engine(Large())
    with suspended(server.pid), monkeypatch.context() as patch:
        patch.setattr(training_process, "_STARTING", 0.1)
        engine.start(process=True)
        with pytest.raises(TrainingError, match=r"has not imported torch yet: start\(process=True\) asks it again"):
            engine.wait(groups.SECONDS)
    before = server.pid
    assert engine.start(process=True).wait(groups.SECONDS)
    assert server.pid == before


def test_an_edit_of_a_large_model_does_not_wait_for_a_process_that_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_process, "_STOPPING", 0.1)
    engine: TrainingEngine = tasks.engine(Large())
    engine._execution.choose(process=True)
    engine.step(2)
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    began = time.monotonic()
    with engine.paused() as model, torch.no_grad():
        psutil.Process(process.pid).suspend()
        for weights in model.parameters():
            weights.mul_(1.0)
    engine.stop()
    assert time.monotonic() - began < AT_ONCE
    assert state_of(engine) == "stopped"
    assert "hangs: no sign of life" in engine.history.anomalies[-1].message
