"""Assigns ranks to vertices, and dummy vertices to edges that skip ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Arc = tuple[int, int, float, float]
"""Source vertex, target vertex, and where along the cross axis the edge leaves and arrives, from their centres."""

MAX_DUMMIES_PER_VERTEX = 8
"""Beyond this, edges run behind nodes: a thousand edges into one node must not cost a million dummies."""


@dataclass(frozen=True, slots=True)
class RankLayering:
    """A graph with arcs only between neighbouring ranks.

    Attributes:
        nodes: Number of vertices that are nodes; those after them are dummies.
        count: Number of vertices.
        ranks: Rank of each vertex.
        into: Arcs that arrive at each vertex.
        out: Arcs that leave each vertex.
        spine_before: The vertex before on the same straight path, or -1.
        spine_after: The vertex after on the same straight path, or -1.
    """

    nodes: int
    count: int
    ranks: list[int]
    into: list[list[Arc]]
    out: list[list[Arc]]
    spine_before: list[int]
    spine_after: list[int]


def layer(count: int, arcs: Sequence[Arc]) -> RankLayering:
    """Give `count` vertices ranks, and replace arcs that skip ranks by chains of dummies.

    Arcs that close a loop, as in a damaged document, are left out.
    """
    into: list[list[Arc]] = [[] for _ in range(count)]
    out: list[list[Arc]] = [[] for _ in range(count)]
    for arc in arcs:
        out[arc[0]].append(arc)
        into[arc[1]].append(arc)
    order = _topological(count, into, out)
    place = {vertex: index for index, vertex in enumerate(order)}
    for vertex in range(count):
        out[vertex] = [arc for arc in out[vertex] if place[vertex] < place[arc[1]]]
        into[vertex] = [arc for arc in into[vertex] if place[arc[0]] < place[vertex]]

    ranks = [0] * count
    for vertex in order:
        for _, target, _, _ in out[vertex]:
            ranks[target] = max(ranks[target], ranks[vertex] + 1)
    for vertex in reversed(order):
        # A vertex without inputs (a constant, a second input) is beside its consumer, not at the far left.
        if not into[vertex] and out[vertex]:
            ranks[vertex] = min(ranks[arc[1]] for arc in out[vertex]) - 1
    spines = _spines(order, ranks, into, out)
    return _with_dummies(count, ranks, out, *spines)


def _topological(count: int, into: list[list[Arc]], out: list[list[Arc]]) -> list[int]:
    waiting = [len(arcs) for arcs in into]
    order = [vertex for vertex in range(count) if not waiting[vertex]]
    placed = [not arcs for arcs in into]
    next_stuck = 0
    index = 0
    while len(order) < count:
        while index < len(order):
            for _, target, _, _ in out[order[index]]:
                waiting[target] -= 1
                if not waiting[target] and not placed[target]:
                    placed[target] = True
                    order.append(target)
            index += 1
        if len(order) < count:  # a loop: open it at its first vertex
            while placed[next_stuck]:
                next_stuck += 1
            placed[next_stuck] = True
            order.append(next_stuck)
    return order


def _spines(
    order: list[int], ranks: list[int], into: list[list[Arc]], out: list[list[Arc]]
) -> tuple[list[int], list[int]]:
    """Choose disjoint straight paths: each vertex with the neighbour on its longest path, if mutual."""
    height = [0] * len(ranks)
    for vertex in reversed(order):
        for _, target, _, _ in out[vertex]:
            height[vertex] = max(height[vertex], height[target] + 1)
    depth = [0] * len(ranks)
    for vertex in order:
        for source, _, _, _ in into[vertex]:
            depth[vertex] = max(depth[vertex], depth[source] + 1)

    before, after = [-1] * len(ranks), [-1] * len(ranks)
    favourite = [-1] * len(ranks)
    for vertex in order:
        near = [arc[0] for arc in into[vertex] if ranks[arc[0]] == ranks[vertex] - 1]
        favourite[vertex] = max(near, key=depth.__getitem__, default=-1)
    for vertex in order:
        near = [arc[1] for arc in out[vertex] if ranks[arc[1]] == ranks[vertex] + 1]
        target = max(near, key=height.__getitem__, default=-1)
        if target >= 0 and favourite[target] == vertex:
            after[vertex], before[target] = target, vertex
    return before, after


def _with_dummies(
    count: int, ranks: list[int], arcs: list[list[Arc]], before: list[int], after: list[int]
) -> RankLayering:
    ranks, before, after = list(ranks), list(before), list(after)
    into: list[list[Arc]] = [[] for _ in range(count)]
    out: list[list[Arc]] = [[] for _ in range(count)]
    allowance = MAX_DUMMIES_PER_VERTEX * count

    def join(arc: Arc) -> None:
        out[arc[0]].append(arc)
        into[arc[1]].append(arc)

    for vertex in range(count):
        # One chain serves all edges from the same place, like one cable that splits late.
        chains: dict[float, list[int]] = {}
        for source, target, leaves, arrives in sorted(arcs[vertex], key=lambda arc: ranks[arc[1]]):
            span = ranks[target] - ranks[source]
            if span == 1:
                join((source, target, leaves, arrives))
                continue
            chain = chains.setdefault(leaves, [])
            if span - 1 - len(chain) > allowance:
                continue
            while len(chain) < span - 1:
                dummy = len(ranks)
                allowance -= 1
                ranks.append(ranks[source] + len(chain) + 1)
                into.append([])
                out.append([])
                before.append(chain[-1] if chain else -1)
                after.append(-1)
                if chain:
                    after[chain[-1]] = dummy
                    join((chain[-1], dummy, 0.0, 0.0))
                else:
                    join((source, dummy, leaves, 0.0))
                chain.append(dummy)
            join((chain[span - 2], target, 0.0, arrives))
    return RankLayering(count, len(ranks), ranks, into, out, before, after)
