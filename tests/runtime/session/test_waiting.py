"""What can be waited for, and an interrupt of the waiting in a real kernel."""

from __future__ import annotations

import asyncio

import pytest
import torch
from jupyter_client.manager import start_new_kernel
from torch import nn

import pnne_nb as pn
from pnne_nb.runtime.session.waiting import SAID, WaitInterrupted

SETUP = """
import os, signal, sys, threading, torch
import pnne_nb as pn

def waits():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code.co_name != "wait_for_end":
        frame = frame.f_back
    return frame is not None

def interrupt(_, done=[]):
    if not done and waits():
        done.append(True)
        os.kill(os.getpid(), signal.SIGINT)

engine = pn.TrainingEngine(torch.nn.Linear(4, 3), (torch.randn(24, 4), torch.arange(24) % 3), epochs=10**9, device="cpu")
engine.on("step", interrupt)
engine.start()
"""


def _engine() -> pn.TrainingEngine:
    return pn.TrainingEngine(nn.Linear(4, 3), (torch.randn(24, 4), torch.arange(24) % 3), epochs=1, device="cpu")


def test_what_start_returns_can_be_waited_for_and_shows_nothing() -> None:
    engine = _engine()
    started = engine.start()
    assert started.wait()
    assert engine.state == started.state == "finished"
    started._ipython_display_()
    assert repr(started).startswith("Started(TrainingEngine(")
    with pytest.raises(AttributeError, match=r'Write engine.history\["loss"\]'):
        started.losses  # noqa: B018
    with pytest.raises(AttributeError, match="_nothing"):
        started._nothing  # noqa: B018


def test_what_start_returns_can_be_awaited() -> None:
    engine = _engine()

    async def waited() -> None:
        await engine.start()

    asyncio.run(waited())
    assert engine.state == "finished"


def test_an_interrupt_of_the_waiting_says_one_line_and_leaves_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pn.TrainingEngine(nn.Linear(4, 3), (torch.randn(24, 4), torch.arange(24) % 3), epochs=10**9, device="cpu")

    def interrupted(_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine._session, "wait", interrupted)
    engine.start()
    try:
        with pytest.raises(WaitInterrupted, match="the training goes on") as caught:
            engine.wait()
        assert caught.value._render_traceback_() == [SAID]
        assert engine.state == "running"
    finally:
        engine.stop()
    with pytest.raises(KeyboardInterrupt) as plain:
        engine.wait()
    assert not isinstance(plain.value, WaitInterrupted)


@pytest.mark.timeout(300)
def test_a_kernel_that_is_interrupted_in_a_wait_shows_one_line() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    shown: list[str] = []
    told: list[list[str]] = []

    def heard(message: dict[str, object]) -> None:
        content = message["content"]
        assert isinstance(content, dict)
        if message["msg_type"] == "error":
            told.append(content["traceback"])
        if message["msg_type"] == "stream":
            shown.append(content["text"])

    try:
        client.execute_interactive(SETUP, timeout=120, output_hook=heard)
        assert not told
        client.execute_interactive("engine.wait()", timeout=120, output_hook=heard)
        assert told == [[SAID]]
        client.execute_interactive("print(engine.state); engine.stop()", timeout=120, output_hook=heard)
        assert "running" in shown[-1]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
