"""Fresh kernels: how long each first use waits, beyond what the same cell takes the second time.

The yardstick is ``import torch`` in the same kernel, which takes about 1.5 seconds on an idle machine. Budget: 0.2 of one for
each cell, which is 300 milliseconds. Exports are left out: they import torch's exporter when they are first used, and wait
two seconds more. Two ways to come to a use are measured:

- in one kernel, one after the other, by a person who reads and types for `THINK` yardsticks between two cells;
- each in a kernel of its own, `SOON` yardsticks (two seconds) after an editor and an engine came to be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

BUDGET = 0.2
THINK = 2.0
SOON = 4 / 3

YARDSTICK = "import torch; from torch import nn"
BEFORE = ("import pnne_nb as pn", "graph = pn.sequential(nn.Linear(4, 3), input=('N', 4)); net = nn.Linear(4, 3)")
"""What begins the imports."""

USES = {
    "GraphEditor": "pn.GraphEditor(graph)",
    "infer_shapes": "pn.infer_shapes(graph)",
    "to_source": "pn.to_source(graph)",
    "compile": "model = pn.compile(graph)",
    "from_module": "pn.from_module(net, args=(torch.zeros(2, 4),))",
    "TrainingEngine": "engine = pn.TrainingEngine(graph, (torch.randn(64, 4), torch.arange(64) % 3), epochs=1)",
    "TrainingDashboard": "pn.TrainingDashboard(engine)",
    "start": "engine.start()",
    "wait": "engine.wait()",
    "ModuleExplorer": "pn.ModuleExplorer(net)",
    "run_inspection": "pn.Inspector(net).run_inspection(torch.zeros(2, 4))",
    "summary": "pn.summary(net, torch.zeros(2, 4))",
    "InferenceEngine": "pn.InferenceEngine(net)",
}
EXISTS = ("GraphEditor", "TrainingEngine")
"""What there is before each use in a kernel of its own."""


@contextmanager
def kernel() -> Iterator[BlockingKernelClient]:
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120)
    try:
        seconds(client, "1")
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def seconds(client: BlockingKernelClient, code: str) -> float:
    begun = time.perf_counter()
    reply = client.execute_interactive(code, timeout=240, output_hook=lambda _: None)
    took = time.perf_counter() - begun
    if reply["content"]["status"] != "ok":
        raise SystemExit(f"{code}: {reply['content']['evalue']}")
    return took


def waited(client: BlockingKernelClient, name: str, yardstick: float) -> float:
    first, again = seconds(client, USES[name]), seconds(client, USES[name])
    wait = max(0.0, first - again) / yardstick
    print(f"{name:20s} {first * 1000:6.0f} ms, again {again * 1000:6.0f} ms: waits {wait:.3f}")
    return wait


def in_turn() -> dict[str, float]:
    with kernel() as client:
        yardstick = seconds(client, YARDSTICK)
        print(f"One after the other; import torch, the yardstick: {yardstick * 1000:.0f} ms")
        for code in BEFORE:
            print(f"{code.split(' = ')[0]:20s} {seconds(client, code) * 1000:6.0f} ms")
        waits = {}
        for name in USES:
            time.sleep(THINK * yardstick)
            waits[name] = waited(client, name, yardstick)
        return waits


def soon() -> dict[str, float]:
    """What each use waits in a kernel of its own, two seconds after editor and engine."""
    print("Two seconds after an editor and an engine, each in a kernel of its own")
    waits = {}
    for name in USES:
        if name in {*EXISTS, "wait"}:  # a training is waited for once it was started
            continue
        with kernel() as client:
            yardstick = seconds(client, YARDSTICK)
            for code in (*BEFORE, *(USES[each] for each in EXISTS)):
                seconds(client, code)
            time.sleep(SOON * yardstick)
            waits[f"{name}, soon"] = waited(client, name, yardstick)
    return waits


def main() -> None:
    waits = in_turn() | soon()
    name = max(waits, key=lambda name: waits[name])
    print(f"The longest wait is that of {name}: {waits[name]:.3f} of import torch, budget {BUDGET}.")
    if waits[name] > BUDGET:
        raise SystemExit(f"{name} waits for {waits[name]:.3f} of the yardstick; the budget is {BUDGET}.")


if __name__ == "__main__":
    main()
