"""What arranging a graph without positions costs: a chain, blocks with skips, and a tangle.

Every edge of the tangle comes from any of the 50 nodes before. The editor arranges in the background, and in pieces; an edit
meanwhile is answered as always.
"""

from __future__ import annotations

import time
from random import Random

import pnne_nb as pn
from benchmarks.budgets import Budgets

BUDGET_MS = {1_000: 150.0, 10_000: 1500.0}
"""CPU milliseconds, by number of nodes."""
REACH = 50
FEWEST = 3
"""Runs, of which the fastest counts."""


def chain(nodes: int) -> pn.NodeGraph:
    graph = pn.NodeGraph("chain")
    with graph.transaction():
        graph.add("Input", name="x", shape=("N", 8))
        for number in range(1, nodes):
            graph.add("Linear", name=f"n{number}", in_features=8, out_features=8)
            graph.connect(f"n{number - 1}" if number > 1 else "x", f"n{number}")
    return graph


def skips(nodes: int) -> pn.NodeGraph:
    graph = pn.NodeGraph("skips")
    with graph.transaction():
        graph.add("Input", name="x", shape=("N", 8))
        before = "x"
        for number in range(nodes // 3):
            linear, relu, add = (f"{kind}{number}" for kind in ("linear", "relu", "add"))
            graph.add("Linear", name=linear, in_features=8, out_features=8)
            graph.add("ReLU", name=relu)
            graph.add("add", name=add)
            graph.connect(before, linear, relu)
            graph.connect(relu, f"{add}.input")
            graph.connect(before, f"{add}.other")
            before = add
    return graph


def tangle(nodes: int) -> pn.NodeGraph:
    random, graph = Random(0), pn.NodeGraph("tangle")
    with graph.transaction():
        graph.add("Input", name="n0", shape=("N", 8))
        for number in range(1, nodes):
            graph.add("add", name=f"n{number}")
            for port in ("input", "other"):
                graph.connect(f"n{random.randrange(max(0, number - REACH), number)}.output", f"n{number}.{port}")
    return graph


def main() -> None:
    budgets = Budgets()
    for make in (chain, skips, tangle):
        for nodes, budget in BUDGET_MS.items():
            graph, taken = make(nodes), []
            for _ in range(FEWEST):
                start = time.process_time()
                graph.arrange(direction="auto")
                taken.append(1000 * (time.process_time() - start))
                graph.undo()
            budgets.report(f"{make.__name__} of {nodes} nodes, arranged to fit, CPU", min(taken), budget, "ms")
    budgets.end()
