"""A kernel is interrupted while a large model is on its way from the training's process, or to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

pytestmark = pytest.mark.timeout(600)

Kernel: TypeAlias = tuple[KernelManager, BlockingKernelClient]

HALFWAY = "halfway"

SETUP = f"""
import signal, sys, threading, time, torch
from torch import nn
import pnne_nb as pn

class Large(nn.Module):
    "200 MB, though a step takes no time."
    def __init__(self):
        super().__init__()
        self.fc, self.frozen = nn.Linear(4, 2), nn.Parameter(torch.zeros(50_000_000), requires_grad=False)
    def forward(self, x):
        return self.fc(x) + self.frozen[:2]

def fresh():
    torch.manual_seed(0)
    data = torch.randn(8, 4), torch.randint(0, 2, (8,))
    return pn.TrainingEngine(Large(), data, optimizer=("SGD", {{"lr": 0.1}}), epochs=10**6, batch_size=4, device="cpu")

come = threading.Event()

def interrupted(*_):
    "What an interrupt does to the cell; whoever carries the message may be another thread."
    come.set()
    raise KeyboardInterrupt

class Line:
    "A socket that stops in the middle of a large message, until the cell is interrupted."
    def __init__(self, connection):
        self.passed, self.stops_at = 0, sys.maxsize
        self.fileno, self.close, self.shutdown = connection.fileno, connection.close, connection.shutdown
        self._connection = connection
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
            assert come.wait(200)

def weights(engine):
    return [weight.tolist() for weight in engine.model.fc.parameters()] + [float(engine.model.frozen.abs().sum())]

engine = fresh()
engine._execution.choose(process=True)
engine.step(2)
wire = engine._execution.executor._link._wire
line = wire.connection = Line(wire.connection)
"""

STOP = """
come.clear()
signal.signal(signal.SIGINT, interrupted)
line.passed, line.stops_at = 0, 100_000_000
"""
"""The kernel sets its own handler of interrupts before each cell."""

USES = {
    "model": "engine.model",
    "paused": "with engine.paused(): pass\ntime.sleep(200)",
    "edit": """
with engine.paused() as model, torch.no_grad():
    for weight in model.parameters(): weight.mul_(1.0)
time.sleep(200)
""",
    "waiting": "with engine.paused(): pass\nengine.step(10**9)",
}
"""The cell waits for what comes from the process; a thread sends what goes there, and the cell goes on meanwhile."""


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
        message = client.get_iopub_msg(timeout=250)
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
    assert (
        run(
            kernel,
            "engine.pause(); before = engine.progress.step; engine.step(2); print(engine.progress.step - before)",
        )
        == "2"
    )
    assert run(kernel, "engine.resume(); engine.pause(); print(engine.state, engine.error)") == "paused None"
    same = """
thread = fresh()
thread.step(engine.progress.step)
print(weights(engine) == weights(thread), engine._loop.steps == engine.progress.step)
thread.stop()
"""
    assert run(kernel, same) == "True True"
