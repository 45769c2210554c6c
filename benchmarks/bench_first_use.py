"""A fresh kernel, cell by cell: how long each first use waits, beyond what the same cell takes the second time.

The yardstick is ``import torch`` in the same kernel, which takes about 1.5 seconds on an idle machine. A person reads and
types between two cells, here for `THINK` yardsticks. Budget: 0.2 of one for each cell, which is 300 milliseconds.
"""

from __future__ import annotations

import time

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

BUDGET = 0.2
THINK = 2.0

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
    "InferenceEngine": "pn.InferenceEngine(model)",
    "check_export": "pn.check_export(graph)",
}


def seconds(kernel: BlockingKernelClient, code: str) -> float:
    """Run a cell to its end."""
    begun = time.perf_counter()
    reply = kernel.execute_interactive(code, timeout=240, output_hook=lambda _: None)
    took = time.perf_counter() - begun
    if reply["content"]["status"] != "ok":
        raise SystemExit(f"{code}: {reply['content']['evalue']}")
    return took


def measure(kernel: BlockingKernelClient) -> dict[str, float]:
    """What each cell waits, in yardsticks."""
    seconds(kernel, "1")
    yardstick = seconds(kernel, "import torch; from torch import nn")
    print(f"{'import torch':20s} {yardstick * 1000:6.0f} ms: the yardstick")
    for code in BEFORE:
        print(f"{code.split(' = ')[0]:20s} {seconds(kernel, code) * 1000:6.0f} ms")
    time.sleep(THINK * yardstick)
    waits = {}
    for name, code in USES.items():
        first, again = seconds(kernel, code), seconds(kernel, code)
        waits[name] = max(0.0, first - again) / yardstick
        print(f"{name:20s} {first * 1000:6.0f} ms, again {again * 1000:6.0f} ms: waits {waits[name]:.3f}")
        time.sleep(THINK * yardstick)
    return waits


def main() -> None:
    """Print what each first use waits for; fail where one is over the budget."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    kernel = manager.client()
    try:
        kernel.start_channels()
        kernel.wait_for_ready(timeout=120)
        waits = measure(kernel)
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)
    name = max(waits, key=lambda name: waits[name])
    print(f"The longest wait is that of {name}: {waits[name]:.3f} of import torch, budget {BUDGET}.")
    if waits[name] > BUDGET:
        raise SystemExit(f"{name} waits for {waits[name]:.3f} of the yardstick; the budget is {BUDGET}.")
