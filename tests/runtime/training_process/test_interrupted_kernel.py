"""A kernel is interrupted while a large model is on its way from the training's process, or to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

pytestmark = pytest.mark.timeout(300)

Kernel: TypeAlias = tuple[KernelManager, BlockingKernelClient]

HALFWAY = "halfway"

SETUP = f"""
import hashlib, signal, sys, torch
from torch import nn
import pnne_nb as pn

def fresh():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(7000, 7000, bias=False), nn.Linear(7000, 2, bias=False))
    data = torch.randn(8, 7000), torch.randint(0, 2, (8,))
    return pn.TrainingEngine(net, data, optimizer=("SGD", {{"lr": 0.1}}), epochs=100, batch_size=4, device="cpu")

class Line:
    "A socket that stops in the middle of a large message, until the cell is interrupted."
    def __init__(self, connection):
        self.passed, self.stops_at = 0, sys.maxsize
        self.fileno, self.close, self._connection = connection.fileno, connection.close, connection
    def recv(self, size):
        received = self._connection.recv(min(size, 1 << 20))
        self._count(len(received))
        return received
    def sendall(self, content):
        for start in range(0, len(content), 1 << 20):
            piece = content[start:start + (1 << 20)]
            self._connection.sendall(piece)
            self._count(len(piece))
    def _count(self, size):
        self.passed += size
        if self.passed > self.stops_at:
            self.stops_at = sys.maxsize
            print({HALFWAY!r}, flush=True)
            signal.pause()

def weights(engine):
    return [hashlib.sha256(weight.detach().numpy().tobytes()).hexdigest() for weight in engine.model.parameters()]

engine = fresh()
engine._executor.choose(process=True)
engine.step(2)
wire = engine._executor.process._link._wire
line = wire.connection = Line(wire.connection)
"""

STOP = "line.passed, line.stops_at = 0, 100_000_000\n"

USES = {
    "model": "engine.model",
    "paused": "with engine.paused(): pass",
    "edit": "with engine.paused() as model, torch.no_grad():\n    for weight in model.parameters(): weight.mul_(1.0)",
}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One in which a training has halted in a process of its own."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        assert run((manager, client), SETUP) == ""
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(kernel: Kernel, code: str) -> str:
    """Run a cell, and interrupt it when it says so; returns what it has printed or raised."""
    manager, client = kernel
    request, text = client.execute(code), ""
    while True:
        message = client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        match message["msg_type"]:
            case "stream":
                text += content["text"]
                if HALFWAY in content["text"]:
                    manager.interrupt_kernel()
            case "error":
                text += content["ename"]
            case "status" if content["execution_state"] == "idle":
                return text.strip()


@pytest.mark.parametrize("use", USES)
def test_a_large_model_on_its_way_is_cut_short_and_the_training_lives_on(kernel: Kernel, use: str) -> None:
    assert run(kernel, STOP + USES[use]).split() == [HALFWAY, "KeyboardInterrupt"]
    assert run(kernel, "before = engine.progress.step; engine.step(2); print(engine.progress.step - before)") == "2"
    assert run(kernel, "engine.resume(); engine.pause(); print(engine.state, engine.error)") == "paused None"
    same = """
thread = fresh()
thread.step(engine.progress.step)
print(weights(engine) == weights(thread), engine._loop.steps == engine.progress.step)
thread.stop()
"""
    assert run(kernel, same) == "True True"
