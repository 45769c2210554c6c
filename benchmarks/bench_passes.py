"""Compiled models against hand-written ones as large as people train, and what passes gain and cost.

Ratios come from interleaved pairs in one run; memory is counted by ``tracemalloc`` and by torch's own bookkeeping.
"""

from __future__ import annotations

import gc
import tracemalloc

import torch
from torch import nn

import pnne_nb as pn
from benchmarks.bench_compiler import chain, cpu_ms, forward_step, ratio, train_step
from benchmarks.budgets import Budgets
from benchmarks.models import AttentionBlock, ResNet
from pnne_nb.compiler.pipeline.compile import forget

budgets = Budgets()


class TransformerLike(nn.Module):
    """Embedded tokens, four blocks of attention and MLP, and a head over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.Sequential(*(AttentionBlock(64, 4) for _ in range(4)))
        self.head = nn.Linear(64, 100)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.blocks(self.embed(tokens)))
        return out


def against_hand_written(name: str, hand: nn.Module, x: torch.Tensor, rounds: int) -> pn.NodeGraph:
    graph = pn.from_module(hand, (x,))
    model = pn.compile(graph, reuse=hand)
    for what, step, calls in (("forward", forward_step, 4), ("train step", train_step, 2)):
        value = ratio(step(model, x), step(hand, x), rounds, calls)
        budgets.report(f"{name}: compiled {what} / hand-written", value, 1.02, "x")
    return graph


def compile_memory() -> None:
    graph = chain(100)
    pn.compile(graph)  # torch's own caches are not the compiler's
    forget()
    graph = chain(100, "another")
    gc.collect()
    tracemalloc.start()
    model = pn.compile(graph)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tensors = sum(t.nbytes for t in (*model.parameters(), *model.buffers()))
    budgets.report("compile, 100 nodes: Python memory at the peak", peak / 1e6, 5, "MB")
    print(f"    kept afterwards, the model included {kept / 1e6:29.3f} MB, of tensors beside it {tensors / 1e6:.3f} MB")


def passes(graph: pn.NodeGraph, net: nn.Module, x: torch.Tensor) -> None:
    cleaning = [pn.passes.RemoveDeadNodes(), pn.passes.FoldConstants(), pn.passes.MergeEqualNodes()]
    seconds = cpu_ms(lambda: pn.transform(graph, cleaning, x, reuse=net)) / 1000
    budgets.report("three cleaning passes with their proofs, ResNet-like", seconds, 2, "s")
    done = pn.transform(graph, [pn.passes.FuseBatchNorm()], x, reuse=net)
    print("\n".join(f"    {line}" for line in str(done).splitlines() if "fused" not in line))
    before = pn.compile(graph, reuse=net).eval()
    gain = ratio(forward_step(before, x), forward_step(done.model, x), 60, 4)
    budgets.report("forward pass before / after FuseBatchNorm", gain, 1.0, "x", least=True)
    plan = pn.plan_memory(graph, x, training=True)
    planned = cpu_ms(lambda: pn.plan_memory(graph, x, training=True))
    budgets.report("memory plan of a training step, ResNet-like (CPU)", planned, 1_000, "ms")
    done = pn.transform(graph, [pn.passes.CheckpointActivations(budget=int(plan.peak * 0.75))], x, reuse=net)
    memory = done.reports[0].gains[0]
    share = memory.after / memory.before
    budgets.report("memory of a training step after / before a budget of 0.75", share, 0.75, "x")
    step = ratio(train_step(done.model, x), train_step(pn.compile(graph, reuse=net), x), 40, 2)
    print(f"    and its time {step:50.3f} x")


def watching(x: torch.Tensor, net: nn.Module, graph: pn.NodeGraph) -> None:
    model, never_watched = pn.compile(graph, reuse=net), pn.compile(graph, reuse=net)

    def bare(model: nn.Module = model) -> None:
        model(x).square().mean().backward()

    def watched() -> None:
        with pn.detect_anomaly(model):
            bare()

    watched()
    value = ratio(bare, lambda: bare(never_watched), 40, 2)
    budgets.report("a step after NaN checks were off again / one that never had them", value, 1.02, "x")
    print(f"    a step with NaN checks on {ratio(watched, bare, 15, 1):37.2f} x")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pn.infer_shapes(chain(3))  # the first operation without data imports much of torch
    compile_memory()
    net, x = (
        ResNet(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.Identity(), 8, (2, 2, 2, 2), 10),
        torch.randn(2, 3, 16, 16),
    )
    graph = against_hand_written("ResNet-like", net, x, 150)
    against_hand_written("Transformer-like", TransformerLike(), torch.randint(0, 100, (2, 16)), 200)
    watching(x, net, graph)
    passes(graph, net, torch.randn(8, 3, 32, 32))
    budgets.end()


if __name__ == "__main__":
    main()
