"""Chooses nodes whose activations training recomputes: by name, or by a memory budget."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import final

from torch import nn

from pnne_nb.compiler.analysis.memory_plan import MemoryPlan, measure_memory, size
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.pipeline.compile import program_of
from pnne_nb.errors import ArgumentError, CompileError, PassError, expect, shown
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.schema.structural import CHECKPOINT


@final
class CheckpointActivations(Pass):
    """Sets ``checkpoint`` on nodes: training recomputes their activations in the backward pass instead of storing them.

    Outputs, gradients, dropout masks and statistics stay equal, bit for bit; a training step takes up to a third
    longer. Give either the nodes or a budget.

    With a budget, whole nested graphs are tried first, those that keep most before the others, and only as many as
    are needed; if that is not enough, the nodes inside them. The memory of a training step is worked out on
    tensors without data (`pn.plan_memory`), or on copies where the model looks at its data: tensors only, without
    what kernels use inside.

    Args:
        nodes: Paths of the nodes to checkpoint.
        budget: The most bytes that a training step may have in use at once, parameters, their gradients and inputs
            included, the optimizer's state not.
    """

    def __init__(self, nodes: Iterable[str | Node] = (), *, budget: int | None = None) -> None:
        expect(nodes, (list, tuple, set, frozenset), "nodes", "a list of paths of nodes")
        for node in nodes:
            expect(node, (str, Node), "nodes", "a list of paths of nodes")
        if budget is not None and (type(budget) is not int or budget < 1):
            raise ArgumentError(f"budget must be a whole number of bytes, at least 1, not {shown(budget)}.")
        self._nodes = tuple(map(str, nodes))
        self._budget = budget
        if bool(self._nodes) == (budget is not None):
            raise PassError("Give either the nodes to checkpoint, or a budget in bytes.")

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        before = _measured(subject, subject.model)
        if self._budget is not None:
            chosen = self._chosen(subject, before, self._budget, done)
        else:
            already = {node for node in self._nodes if _is_checkpointed(subject.graph[node])}
            done.skipped.update(dict.fromkeys(already, "it is checkpointed already"))
            chosen = [node for node in self._nodes if node not in already]
        if not chosen:
            return done
        for node in chosen:
            subject.graph.set(node, checkpoint=True)
        after = _measured(subject, compile_graph(subject.graph, reuse=subject.model))
        done.changes += [
            Change("checkpointed", (node,), f"{size(before.saved_by(node))} in it are no longer kept")
            for node in chosen
        ]
        done.gains.append(Gain("memory of a training step", before.peak, after.peak, "B"))
        return done

    def _chosen(self, subject: PassSubject, before: MemoryPlan, budget: int, done: Rewrite) -> Sequence[str]:
        if before.peak <= budget:
            return ()
        least, place = before.peak, before.peak_at
        for candidates in _levels(subject, before, done):
            plan = _trial(subject, candidates)
            if plan.peak < least:
                least, place = plan.peak, plan.peak_at
            if plan.peak > budget:
                continue
            low, high = 1, len(candidates)  # the first `high` are enough
            while low < high:
                middle = (low + high) // 2
                if _trial(subject, candidates[:middle]).peak <= budget:
                    high = middle
                else:
                    low = middle + 1
            return candidates[:high]
        raise PassError(
            f"A training step does not fit into {size(budget)}: it needs {size(before.peak)}, and at least {size(least)} "
            f"with checkpoints, at {place}; {size(before.fixed)} of that are parameters, buffers and inputs. "
            "Use a smaller batch or a larger budget, or group nodes: a nested graph can be recomputed as a whole."
        )


def _levels(subject: PassSubject, plan: MemoryPlan, done: Rewrite) -> Iterable[Sequence[str]]:
    """Yield the nodes that may be checkpointed together, outermost first, those that keep most at the front."""
    level = [("", "")]
    while level:
        inner: list[tuple[str, str]] = []
        candidates: list[str] = []
        for id, prefix in level:
            for name, node in subject.snapshots[id].nodes.items():
                path = f"{prefix}{name}"
                if node.definition in subject.snapshots and node.definition is not None:
                    inner.append((node.definition, f"{path}."))
                if CHECKPOINT not in node.spec.properties or _is_checkpointed(node) or not plan.saved_by(path):
                    continue
                why = _refusal(subject, path)
                if why:
                    done.skipped[path] = why
                elif not any(path in subject.paths(id, each.rpartition(".")[2]) for each in candidates):
                    candidates.append(path)
        if candidates:
            yield sorted(candidates, key=lambda path: -plan.saved_by(path))
        level = inner


def _is_checkpointed(node: Node) -> bool:
    return node.properties.get("checkpoint") is True


def _refusal(subject: PassSubject, path: str) -> str:
    graph = copy.copy(subject.graph)
    graph.set(path, checkpoint=True)
    try:
        program_of(graph)
    except CompileError as error:
        return error.diagnostics[0].message if error.diagnostics else str(error)
    return ""


def _trial(subject: PassSubject, nodes: Iterable[str]) -> MemoryPlan:
    graph = copy.copy(subject.graph)
    for node in nodes:
        graph.set(node, checkpoint=True)
    return _measured(subject, compile_graph(graph, reuse=subject.model))


def _measured(subject: PassSubject, model: nn.Module) -> MemoryPlan:
    try:
        return measure_memory(model, subject.args, subject.kwargs, training=True)
    except Exception:  # noqa: BLE001  # a model that looks at its data cannot run without
        return measure_memory(model, subject.args, subject.kwargs, training=True, data=True)
