"""Removes nodes whose results are not used."""

from __future__ import annotations

from typing import final

import torch
from torch import nn

from pnne_nb.catalog.operators import CHECK, CHECK_STRUCTURE
from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite, borrowed, remove
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.errors import expect
from pnne_nb.graph.model.ops import RemoveNode


@final
class RemoveDeadNodes(Pass):
    """Removes nodes without a path to an Output, and unused results of nested graphs.

    Nodes with other effects stay: those that use random numbers (without them, others would draw
    differently), that change tensors in place, that keep statistics, or whose weights others use. Inputs stay too:
    they are how the model is called.

    Args:
        keep_weights: Whether nodes with parameters or buffers stay, so that the keys of ``state_dict`` remain.
    """

    def __init__(self, *, keep_weights: bool = False) -> None:
        expect(keep_weights, bool, "keep_weights", "True or False")
        self._keep_weights = keep_weights

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        total = sum(len(snapshot.nodes) for snapshot in subject.snapshots.values())
        # Users before what they use: what a use does not need may be dead inside.
        for id, snapshot in reversed(subject.snapshots.items()):
            if id not in subject.graph.graphs:
                continue
            results = self._unused_results(subject, id, snapshot)
            if results:
                subject.graph.apply([RemoveNode(name, id) for name in results])
                for name in results:
                    done.changes.append(
                        Change("removed", subject.paths(id, name), "no use of the nested graph needs it")
                    )
            self._sweep(subject, id, snapshot, set(results), done)
        left = sum(len(graph.nodes) for graph in subject.graph.graphs.values())
        done.gains.append(Gain("nodes", total, left))
        return done

    def _sweep(self, subject: PassSubject, id: str, snapshot: GraphSnapshot, removed: set[str], done: Rewrite) -> None:
        outputs = [name for name in snapshot.outputs if name not in removed]
        alive = {each for name in outputs for each in _behind(snapshot, name)}
        kept = borrowed(subject, id)
        dead = []
        # From the end: what only a kept node feeds on is kept with it.
        for name in reversed(snapshot.order):
            node = snapshot.nodes[name]
            if name in alive or name in removed or node.type in ("Input", "Output") or node.spec.kind == "training":
                continue
            why = self._needed(subject, id, name, kept)
            if why:
                done.skipped.update(dict.fromkeys(subject.paths(id, name), why))
                alive |= _behind(snapshot, name)
            else:
                dead.append(name)
        remove(subject, id, dead)
        for name in reversed(dead):
            keys = [key for path in subject.paths(id, name) for key in _keys(subject, path)]
            done.changes.append(
                Change("removed", subject.paths(id, name), f"state_dict loses {', '.join(keys)}" if keys else "")
            )

    def _needed(self, subject: PassSubject, id: str, name: str, kept: set[str]) -> str:
        """Return why a node stays although its results are unused; empty if it can go."""
        if subject.snapshots[id].nodes[name].type in (CHECK, CHECK_STRUCTURE):
            return "it checks what the model is called with"
        if name in kept:
            return "its weights are used by another node"
        if self._keep_weights and any(_keys(subject, path) for path in subject.paths(id, name)):
            return "its weights must be kept"
        if subject.draws(id, name):
            return "it draws random numbers, and without it other nodes would draw others"
        return "it changes tensors in place" if subject.writes(id, name) else ""

    @staticmethod
    def _unused_results(subject: PassSubject, id: str, snapshot: GraphSnapshot) -> list[str]:
        """Return the Output nodes of a nested graph that no use needs, but for the last."""
        if not id or subject.is_called_by_code(id):
            return []
        used = {
            edge.source.partition(".")[2]
            for graph in subject.graph.graphs.values()
            for node in graph.nodes.values()
            if node.definition == id
            for edge in graph.consumers(node.name)
        }
        unused = [name for name in snapshot.outputs if name not in used]
        return unused if len(unused) < len(snapshot.outputs) else []


def _behind(snapshot: GraphSnapshot, name: str) -> set[str]:
    """Return a node and all that feeds it."""
    found = {name}
    pending = [name]
    while pending:
        for ref in snapshot.wires.get(pending.pop(), NO_WIRES).values():
            if ref.node not in found:
                found.add(ref.node)
                pending.append(ref.node)
    return found


def _keys(subject: PassSubject, path: str) -> list[str]:
    """Return the names of the tensors that a node owns."""
    if not subject.owns(path):
        return []
    held = subject.module_path(path)
    prefix, _, name = held.rpartition(".")
    owned = getattr(subject.model.get_submodule(prefix), name, None)
    if isinstance(owned, nn.Module):
        return [f"{held}.{key}" for key, _ in (*owned.named_parameters(), *owned.named_buffers())]
    return [held] if isinstance(owned, torch.Tensor) else []
