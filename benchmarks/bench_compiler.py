"""The compiler against its budgets: speed of compiled models, cold compiling, imports, shapes after an edit.

A budget is a ratio to a yardstick that is measured in the same run, so that a slower machine is not over budget. Times
are CPU milliseconds, printed beside the ratio; those of single edits have budgets of their own.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

import pnne_nb as pn
from benchmarks.budgets import Budgets
from benchmarks.models import resnet50
from benchmarks.paired import Block, Cost, compare
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.compiler.pipeline.compile import forget, load

SECONDS = 25.0
"""For each comparison of a cold compile, at most."""


class HandWrittenMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.act1 = nn.ReLU()
        self.fc2 = nn.Linear(16, 16)
        self.act2 = nn.ReLU()
        self.fc3 = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc1(x)
        x = self.act1(x)
        x = self.fc2(x)
        x = self.act2(x)
        x = self.fc3(x)
        return x  # noqa: RET504  # written as the generator writes it


class HandWrittenBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(x)
        y = self.norm1(y)
        y = F.relu(y)
        y = self.conv2(y)
        y = self.norm2(y)
        x = x + y
        x = F.relu(x)
        return x  # noqa: RET504  # the lines read as the hand-written model does


def chain(count: int, name: str = "chain") -> pn.NodeGraph:
    """Return a chain of `count` layers: convolutions, norms, activations. A name of its own gives a class of its own."""
    graph = pn.NodeGraph(name)
    properties = {
        "Conv2d": {"in_channels": 8, "out_channels": 8, "kernel_size": 3, "padding": 1},
        "BatchNorm2d": {"num_features": 8},
        "ReLU": {},
    }
    with graph.transaction():
        graph.add("Input", "x", shape=("N", 8, 16, 16))
        last = "x"
        for index in range(count):
            kind = ("Conv2d", "BatchNorm2d", "ReLU")[index % 3]
            name = f"node{index}"
            graph.add(kind, name, **properties[kind])
            graph.connect(f"{last}.output", f"{name}.input")
            last = name
        graph.add("Output", "y")
        graph.connect(f"{last}.output", "y.input")
    return graph


def blocks(count: int, of: int) -> pn.NodeGraph:
    """Return `chain(count * of)` with each `of` nodes in a nested graph."""
    graph = chain(count * of, "blocks")
    with graph.transaction():
        for block in range(count):
            graph.group([f"node{index}" for index in range(block * of, (block + 1) * of)], f"block{block}")
    return graph


def after_edits(graph: pn.NodeGraph, node: str, rounds: int = 9) -> tuple[float, float]:
    """Set a property of a node and make the class anew, beside the class of a document never seen: as large, in turn.

    Returns:
        The median ratio of the two, and the median CPU milliseconds of the first.
    """
    load(graph)
    edited, ratios = [], []
    for number in range(1, rounds + 1):
        fresh = chain(1_000, f"{graph.name}{number}")
        graph.set(node, dilation=number, padding=number)
        edited.append(cpu_ms(lambda: load(graph)))
        cold = cpu_ms(lambda fresh=fresh: load(fresh))
        ratios.append(edited[-1] / cold)
    return statistics.median(ratios), statistics.median(edited)


def constructors() -> list[nn.Module]:
    """Make the layers of `chain(100)` and keep them, as a model does: what is dropped at once reuses warm memory."""
    kinds: tuple[Callable[[], nn.Module], ...] = (
        lambda: nn.Conv2d(8, 8, 3, padding=1),
        lambda: nn.BatchNorm2d(8),
        nn.ReLU,
    )
    return [kinds[index % 3]() for index in range(100)]


def forward_step(model: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    def step() -> object:
        with torch.no_grad():
            return model(x)

    return step


def train_step(model: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> object:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int, calls: int = 20) -> float:
    """Return the median over interleaved pairs of (time of ours / time of theirs)."""
    for _ in range(20):
        ours(), theirs()
    ratios = []
    gc.disable()
    for number in range(rounds):
        times = {}
        for step in (ours, theirs) if number % 2 else (theirs, ours):
            start = time.process_time()
            for _ in range(calls):
                step()
            times[step] = time.process_time() - start
        ratios.append(times[ours] / times[theirs])
    gc.enable()
    return statistics.median(ratios)


def cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


budgets = Budgets()


def by_hand(text: str, name: str) -> None:
    """Do what Python and torch do for a class that a person has written: read its text, and make its layers."""
    namespace: dict[str, type[nn.Module]] = {}
    exec(compile(text, "<by hand>", "exec"), namespace)
    namespace[name]()


def timed(work: Callable[[], object]) -> Block:
    return lambda: {"cpu": cpu_ms(work) / 1000}


def cold_compile() -> None:
    """Compare a cold compile of 100 nodes with the same class written by hand, and with torch's constructors alone."""
    numbers = itertools.count()

    def compiled() -> Cost:
        graph = chain(100, f"chain{next(numbers)}")
        forget()
        return {"cpu": cpu_ms(lambda: pn.compile(graph)) / 1000}

    generated = load(chain(100, "written")).generated
    for what, others, budget in (
        ("the same class by hand", lambda: by_hand(generated.text, generated.name), 1.6),
        ("torch's constructors", constructors, 2.0),
    ):
        bare = timed(others)
        found = compare(lambda bare=bare: (bare, bare, compiled), seconds=SECONDS, precision=0.01)["cpu"]
        name = f"compile, 100 nodes, cold / {what}"
        print(f"{name} {found}, {found.rounds} rounds: {budgets.judge(name, found, budget)} (≤ {budget})")
        print(f"    {what + ', CPU, median':<62} {1000 * found.bare:9.3f} ms", flush=True)


def import_resnet(rounds: int = 3) -> None:
    """Compare the import of a ResNet-50, which runs it in both modes, with its own forward and backward pass."""
    net, x = resnet50(), torch.randn(2, 3, 64, 64)

    def one_pass() -> None:
        net(x).sum().backward()
        net.zero_grad()

    one_pass()
    ratios, imports = [], []
    for _ in range(rounds):
        before = cpu_ms(one_pass)
        imports.append(cpu_ms(lambda: pn.from_module(net, (x,))))
        ratios.append(imports[-1] / ((before + cpu_ms(one_pass)) / 2))
    budgets.report("import of a ResNet-50, verified / its forward + backward", statistics.median(ratios), 12, "x")
    print(f"    CPU, best {min(imports) / 1000:63.3f} s")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pn.infer_shapes(chain(3))  # the first operation without data imports much of torch
    for name, hand, x in (
        ("MLP", HandWrittenMLP(), torch.randn(4, 8)),
        ("residual block", HandWrittenBlock(), torch.randn(1, 4, 8, 8)),
    ):
        model = pn.compile(pn.from_module(hand, (x,)))
        for what, step, rounds in (("forward", forward_step, 400), ("train step", train_step, 200)):
            value = ratio(step(model, x), step(hand, x), rounds)
            budgets.report(f"{name}: compiled {what} / hand-written", value, 1.02, "x")

    cold_compile()
    chain_1, chain_10 = chain(1_000), chain(10_000)
    pn.to_source(chain_1)
    forget()
    # Without this, one collection that walks all of torch would fall into one of the two, and say nothing about us.
    gc.freeze()
    per_node = [cpu_ms(lambda graph=graph: load(graph)) / len(graph.nodes) for graph in (chain_1, chain_10)]
    budgets.report("class of 10,000 nodes, per node / of 1,000 nodes", per_node[1] / per_node[0], 1.5, "x")

    unchanged = cpu_ms(lambda: [load(chain_1) for _ in range(1_000)])
    budgets.report("class of an unchanged document (CPU)", unchanged, 20, "us")
    for what, budget, graph, node in (
        ("in 20 blocks", 0.3, blocks(20, 50), "block3.node153"),
        ("flat", 0.85, chain(1_000, "flat"), "node30"),
    ):
        share, milliseconds = after_edits(graph, node)
        budgets.report(f"class after one edit / cold, 1,000 nodes {what}", share, budget, "x")
        print(f"    of CPU, median {milliseconds:59.3f} ms")

    forget()
    graph = chain(100)
    budgets.report("shapes, 100 nodes, cold (CPU)", cpu_ms(lambda: pn.infer_shapes(graph)), 200, "ms")

    graph = chain(1_000)
    rng = random.Random(0)
    edits = []
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        for number in range(200):
            index = 3 * rng.randrange(333)
            if number % 2:
                graph.set(f"node{index}", dilation=1 + number % 3, padding=1 + number % 3)
            else:
                graph.set(f"node{index}", out_channels=rng.choice((8, 8, 9)))
            edits.append(cpu_ms(analysis.refresh))
    budgets.report("shapes after one edit, 1,000 nodes (CPU, median)", statistics.median(edits), 10, "ms")
    print(f"    worst of {len(edits)} edits {max(edits):51.3f} ms")
    import_resnet()
    budgets.end()


if __name__ == "__main__":
    main()
