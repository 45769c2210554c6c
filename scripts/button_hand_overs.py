"""Count how often Python's lock changes hands between a click on a button and its effect, in a real kernel.

    python scripts/button_hand_overs.py [HOLD] [CLICKS] [--comm]

A cell keeps the lock in C for HOLD seconds at a time, as a long regular expression does, while a small model trains;
"Pause" is clicked at a random moment, as a page in JupyterLab does: by the direct line, and through a thread of the kernel's
own; with --comm, only so, as a page of another machine does. Whoever wants the lock waits
for HOLD each time that it loses it to the cell, so that elapsed time / HOLD counts the hand-overs: until the engine was
asked, until the answer to the click was sent, until the step under way at the click had ended, and until the training had halted.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

SETUP = """
import ctypes, json, time
import torch
from torch import nn
import pnne_nb as pn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
engine = pn.TrainingEngine(net, (torch.randn(2000, 64), torch.randint(0, 4, (2000,))), epochs=10**5, device="cpu")
dashboard = pn.TrainingDashboard(engine)
asked, stepped, halted, pause, library = [], [], [], engine._control.pause, ctypes.PyDLL(None)

def noted():
    asked.append(time.time())
    pause()

engine._control.pause = noted
engine.on("step", lambda frame: stepped.append(time.time()))
engine.on("state", lambda frame: halted.append(time.time()) if frame.state == "paused" else None)
engine.start()
print(dashboard.children[0].comm.comm_id, engine.direct_buttons)
"""
BEFORE = "asked.clear(); stepped.clear(); halted.clear(); engine.resume() if engine.state == 'paused' else None"
AFTER = """
engine.pause()
print(json.dumps([asked[0], halted[0], stepped]))
"""
Times = Mapping[str, list[float]]


def run(client: BlockingKernelClient, code: str) -> str:
    """Run a cell; returns what it printed."""
    return printed(client, client.execute(code))


def printed(client: BlockingKernelClient, request: str, replies: list[float] | None = None) -> str:
    """Wait for the end of a cell; notes in `replies` when widgets have answered."""
    text = ""
    while True:
        message = client.get_iopub_msg(timeout=300)
        content = message["content"]
        if replies is not None and message["msg_type"] == "comm_msg":
            data = content["data"]
            if data.get("method") == "custom" and data["content"].get("kind") == "reply":
                replies.append(time.time())
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "error":
            raise RuntimeError("\n".join(content["traceback"]))
        if message["msg_type"] == "stream":
            text += content["text"]
        if message["msg_type"] == "status" and content["execution_state"] == "idle":
            return text.strip()


def click(client: BlockingKernelClient, comm: str, subshell: str, number: int, direct: str) -> None:
    """Press "Pause" as JupyterLab tells of it."""
    if direct:
        address, _, secret = direct.removeprefix("http://").partition("/")
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(f"POST /{secret}/pause HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
    command = {"kind": "command", "id": number, "command": "pause"}
    message = client.session.msg("comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": command}})
    message["header"]["subshell_id"] = subshell
    client.shell_channel.send(message)


def measure(client: BlockingKernelClient, hold: float, clicks: int, *, directly: bool) -> Times:
    """What happened after so many holds of the lock, for each click."""
    comm, direct = run(client, SETUP).split()
    client.control_channel.send(client.session.msg("create_subshell_request"))
    subshell = ""
    while not subshell:
        reply = client.get_control_msg(timeout=60)
        subshell = reply["content"].get("subshell_id", "") if reply["msg_type"] == "create_subshell_reply" else ""
    chance, times = random.Random(0), defaultdict[str, list[float]](list)
    for number in range(clicks):
        run(client, BEFORE)
        cell = client.execute(f"for _ in range(24): library.usleep({int(hold * 1e6)})")
        time.sleep(chance.uniform(1, 3) * hold)
        clicked, replies = time.time(), list[float]()
        click(client, comm, subshell, number, direct * directly)
        printed(client, cell, replies)
        asked, halted, steps = json.loads(run(client, AFTER))
        ended = min([when for when in steps if when > clicked], default=clicked)
        found = {"asked": asked, "step ended": ended, "halted": halted, "answered": (replies or [float("inf")])[0]}
        for name, when in found.items():
            times[name].append((when - clicked) / hold)
        times["halted after that step"].append((halted - ended) / hold)
        late = sum(when > asked for when in steps)
        if late > 1:
            raise RuntimeError(f"{late} steps have ended after the engine was asked to halt, not only the running one")
    return times


def main() -> None:
    """Print the middle and the 95th percentile of each."""
    numbers = [argument for argument in sys.argv[1:] if argument != "--comm"]
    hold = float(numbers[0]) if numbers else 0.3
    clicks = int(numbers[1]) if len(numbers) > 1 else 20
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for name, found in measure(client, hold, clicks, directly="--comm" not in sys.argv).items():
            middle, most = statistics.median(found), sorted(found)[round(0.95 * (len(found) - 1))]
            print(f"{name}: p50 {middle:.1f}, p95 {most:.1f} hand-overs")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
