"""Chooses a device for each node, so that a model fits into their memory and the fewest bytes are moved between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import final

import torch

from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.compiler.analysis.memory_plan import OptimizerKind, made_optimizer, measure_memory, optimizer_state
from pnne_nb.compiler.analysis.nested_values import tensor_leaves
from pnne_nb.compiler.ir.snapshot import NO_WIRES
from pnne_nb.compiler.passes.graph_pass import PassSubject
from pnne_nb.compiler.passes.report import amount
from pnne_nb.compiler.shapes.fake_tensors import imitation
from pnne_nb.errors import ArgumentError, PassError, expect, shown
from pnne_nb.graph.schema.structural import DEVICE
from pnne_nb.protocol.messages import NodeMark

UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

MOST_DEVICES = 8
"""All orders of the devices are compared."""


@final
@dataclass(frozen=True, slots=True)
class Placement:
    """Where nodes run.

    Attributes:
        devices: Device of each node of the outermost graph, in the order in which the nodes run.
        used: Bytes that each device needs at most: weights, and what is alive while a node runs.
        limits: Bytes that each device has.
        moves: Bytes that are moved to a node's device for it, by node, without the arguments of the model.
    """

    devices: Mapping[str, str]
    used: Mapping[str, int]
    limits: Mapping[str, int]
    moves: Mapping[str, int]

    @property
    def moved(self) -> int:
        """Bytes that are moved between devices for one call, without the arguments of the model."""
        return sum(self.moves.values())

    @property
    def marks(self) -> dict[str, NodeMark]:
        """The device of each node, to be written under its card: ``editor.marks = placement.marks``."""
        found = {}
        for node, device in self.devices.items():
            moved = self.moves.get(node, 0)
            title = f"{amount(moved, 'B')} are moved to {device} for it." if moved else ""
            found[node] = NodeMark(device, "near" if moved else "plain", title)
        return found

    def __repr__(self) -> str:
        parts = (
            f"{device}: {amount(self.used[device], 'B')} of {amount(limit, 'B')}"
            for device, limit in self.limits.items()
            if device in self.used
        )
        return f"Placement({'; '.join(parts)}; {amount(self.moved, 'B')} moved)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(node)}</td><td style='text-align:left'>{escape(device)}</td>"
            f"<td style='text-align:left'>{escape(self.marks[node].title)}</td></tr>"
            for node, device in self.devices.items()
        )
        return f"<p>{escape(repr(self))}</p><table><tr><th>node</th><th>device</th><th></th></tr>{rows}</table>"


@dataclass(frozen=True, slots=True)
class _Step:
    """One node in the order in which the nodes run.

    Attributes:
        name: Of the node.
        weights: Bytes of its parameters and buffers.
        trained: Bytes of the gradients of its parameters, and of what the optimizer keeps for them.
        output: Bytes that it gives.
        inside: Bytes that are alive at most while it runs, beside its inputs.
        saved: Bytes that it and what is inside it keep for the backward pass; 0 without one.
        until: Place of the last node that needs its output; behind all nodes if the model returns it.
        sources: Places of the nodes whose outputs it needs.
        first: Place of the node that its first input comes from, if it runs where that is; None if it has a device.
    """

    name: str
    weights: int
    trained: int
    output: int
    inside: int
    saved: int
    until: int
    sources: tuple[int, ...]
    first: int | None


def plan_placement(
    subject: PassSubject, memory: Mapping[str, int | str], *, training: bool = False, optimizer: OptimizerKind = None
) -> Placement:
    """Return the placement with the fewest bytes moved, of all that give each device one stretch of the order of nodes.

    Args:
        subject: The document, its model, and example inputs.
        memory: Bytes of each device, as a number or as ``"8 GB"``.
        training: Whether gradients of all weights and all outputs of nodes are kept too.
        optimizer: The optimizer of the training, whose state is kept too; None for none.

    Raises:
        ArgumentError: If a limit is no amount of memory.
        PassError: If the model does not fit; the message names the node.
    """
    limits = {device: bytes_of(limit) for device, limit in _checked(memory).items()}
    steps, together = _steps(subject, optimizer, training=training)
    updates = optimizer is not None
    devices = list(limits)
    count, whole = len(steps), (1 << len(devices)) - 1
    # Bytes moved for the first nodes on some of the devices: each of them has one stretch of nodes.
    best: dict[tuple[int, int], tuple[int, tuple[tuple[int, int], ...]]] = {(0, 0): (0, ())}
    costs: dict[tuple[int, int], tuple[int, int] | None] = {}
    for start in range(count):
        for mask in range(whole + 1):
            if (start, mask) not in best:
                continue
            moved, stretches = best[start, mask]
            for end in range(start + 1, count + 1):
                if (start, end) not in costs:
                    costs[start, end] = _stretch(steps, together, start, end, training=training, updates=updates)
                found = costs[start, end]
                if found is None:
                    continue
                needed, taken = found
                for place, device in enumerate(devices):
                    if mask & (1 << place) or needed > limits[device]:
                        continue
                    key = (end, mask | (1 << place))
                    if key not in best or moved + taken < best[key][0]:
                        best[key] = moved + taken, (*stretches, (place, end))
    complete = [found for (end, _), found in best.items() if end == count]
    if not complete:
        reached = max((end for end, _ in best), default=0)
        raise _too_small(steps, together, limits, reached, training=training, updates=updates)
    _, stretches = min(complete, key=lambda found: (found[0], len(found[1])))
    placed: dict[str, str] = {}
    used: dict[str, int] = {}
    start = 0
    for place, end in stretches:
        for step in steps[start:end]:
            placed[step.name] = devices[place]
        found = costs[start, end]
        used[devices[place]] = found[0] if found is not None else 0
        start = end
    return Placement(placed, used, limits, _moves(steps, placed))


def bytes_of(limit: int | str) -> int:
    """Return an amount of memory in bytes.

    Raises:
        ArgumentError: If it is none.
    """
    if type(limit) is int and limit > 0:
        return limit
    read = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMGTi]*B)", limit) if isinstance(limit, str) else None
    if read is None or read[2] not in UNITS or float(read[1]) <= 0:
        raise ArgumentError(f"A memory limit is a number of bytes or an amount such as '8 GB', not {shown(limit)}.")
    return int(float(read[1]) * UNITS[read[2]])


def _checked(memory: Mapping[str, int | str]) -> Mapping[str, int | str]:
    expect(memory, Mapping, "memory", "a mapping from devices to memory, such as {'cuda:0': '8 GB', 'cpu': '16 GB'}")
    if not 1 <= len(memory) <= MOST_DEVICES:
        raise ArgumentError(f"memory must have from 1 to {MOST_DEVICES} devices, not {len(memory)}.")
    for device in memory:
        try:
            torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ArgumentError(f"{shown(device)} is no device such as 'cpu' or 'cuda:0'.") from error
    return memory


def _steps(subject: PassSubject, kind: OptimizerKind, *, training: bool) -> tuple[list[_Step], list[tuple[int, int]]]:
    """Return the nodes in the order in which they run, and the places of those that share weights."""
    snapshot = subject.snapshots[""]
    outputs, live = _measured(subject)
    kept = measure_memory(subject.model, subject.args, subject.kwargs, training=True) if training else None
    optimizer = made_optimizer(subject.model, kind)
    state = optimizer_state(subject.model, optimizer) if optimizer is not None else {}
    names = [name for name in snapshot.order if snapshot.nodes[name].type not in {"Input", "Output"}]
    places = {name: place for place, name in enumerate(names)}
    until = {
        name: max((places.get(user, len(names)) for user in snapshot.followers.get(name, ())), default=place)
        for name, place in places.items()
    }
    modules = dict(subject.model.named_modules())
    steps: list[_Step] = []
    for name, place in places.items():
        node, wires = snapshot.nodes[name], snapshot.wires.get(name, NO_WIRES)
        held = modules.get(subject.module_path(name)) if node.shares is None and node.spec.kind != "function" else None
        weights = sum(t.nbytes for t in (*held.parameters(), *held.buffers())) if held is not None else 0
        path = subject.module_path(name)
        trained = sum(
            parameter.nbytes + state.get(f"{path}.{own}" if path else own, 0)
            for own, parameter in (held.named_parameters() if held is not None else ())
            if parameter.requires_grad
        )
        sources = [ref.node for ref in wires.values()]
        fed = tuple(dict.fromkeys(places.get(source, -1) for source in sources))
        first = None if DEVICE in node.spec.properties or not fed else fed[0]
        saved = kept.saved_by(name) if kept is not None else 0
        inside = live.get(name, 0) - _alive(steps, range(place), place)
        steps.append(_Step(name, weights, trained, outputs.get(name, 0), inside, saved, until[name], fed, first))
    together = [(places[node.shares], places[name]) for name, node in snapshot.nodes.items() if node.shares in places]
    return steps, together


def _measured(subject: PassSubject) -> tuple[dict[str, int], dict[str, int]]:
    """Return the bytes that each outer node gives, and the most alive while it runs, on tensors without data."""
    outputs: dict[str, int] = {}

    def note(step: NodeExecution) -> None:
        if step.node and "." not in step.node:
            outputs[step.node] = sum(tensor.nbytes for tensor in tensor_leaves(dict(step.outputs)))

    with imitation(subject.model, (subject.args, dict(subject.kwargs))) as (twin, given):
        twin.eval()
        with torch.no_grad(), stepping(twin, note):
            twin(*given[0], **given[1])
    plan = measure_memory(subject.model, subject.args, subject.kwargs, training=False)
    live: dict[str, int] = {}
    for path, bytes in zip(plan.steps, plan.live, strict=True):
        outer = path.partition(".")[0]
        live[outer] = max(live.get(outer, 0), bytes)
    return outputs, live


def _alive(steps: Sequence[_Step], values: Iterable[int], now: int) -> int:
    """Return the bytes of those outputs that are needed when the node at the place `now` runs, or later."""
    return sum(steps[value].output for value in values if value >= 0 and steps[value].until >= now)


def _stretch(
    steps: Sequence[_Step], together: Sequence[tuple[int, int]], start: int, end: int, *, training: bool, updates: bool
) -> tuple[int, int] | None:
    """Return what a device needs for the nodes from `start` up to `end`, and the bytes moved there; None if it cannot be."""
    inside = range(start, end)
    if any((one in inside) != (other in inside) for one, other in together):
        return None
    if any(steps[place].first is not None and steps[place].first not in inside for place in inside):
        return None  # it would run where its first input is, which is elsewhere
    outer = {source for place in inside for source in steps[place].sources if source not in inside}
    moved = sum(steps[source].output for source in outer if source >= 0)
    weights = sum(steps[place].weights for place in inside)
    if training:
        # The backward pass has the gradients of one node's output and inputs at a time, beside those of all weights.
        passing = [
            steps[place].output + sum(steps[each].output for each in steps[place].sources if each >= 0)
            for place in inside
        ]
        most = max(max(each, steps[place].inside) for each, place in zip(passing, inside, strict=True))
        kept = weights + sum(steps[place].trained for place in inside)
        # The update comes when the backward pass is over, and takes for a moment a copy of all weights, if it makes them
        # together, or two of one tensor's.
        update = max(weights, 2 * max(steps[place].weights for place in inside)) if updates else 0
        return kept + moved + max(sum(steps[place].saved for place in inside) + most, update), moved
    peak = 0
    for now in inside:
        alive = _alive(steps, (*outer, *range(start, now)), now)
        peak = max(peak, alive + max(steps[now].output, steps[now].inside))
    return weights + peak, moved


def _moves(steps: Sequence[_Step], placed: Mapping[str, str]) -> dict[str, int]:
    """Return the bytes moved to each node's device for it: an output is moved to a device once, for the first that needs it."""
    moves: dict[str, int] = {}
    there: set[tuple[int, str]] = set()
    for step in steps:
        device = placed[step.name]
        for source in step.sources:
            if source >= 0 and placed[steps[source].name] != device and (source, device) not in there:
                there.add((source, device))
                moves[step.name] = moves.get(step.name, 0) + steps[source].output
    return moves


def _too_small(
    steps: Sequence[_Step],
    together: Sequence[tuple[int, int]],
    limits: Mapping[str, int],
    reached: int,
    *,
    training: bool,
    updates: bool,
) -> PassError:
    place = min(reached, len(steps) - 1)
    stuck = steps[place]
    largest = max(limits, key=lambda device: limits[device])
    alone = _stretch(steps, (), place, place + 1, training=training, updates=updates)
    needs = f"alone it needs {amount(alone[0], 'B')}, and " if alone is not None else ""
    said = ", ".join(f"{device} {amount(limit, 'B')}" for device, limit in limits.items())
    shared = " Nodes that share weights must be on one device." if together else ""
    return PassError(
        f"The model does not fit into {said}: there is no place for {stuck.name}; {needs}{largest} has the most with "
        f"{amount(limits[largest], 'B')}.{shared} Give more memory, a smaller batch, or ungroup nested graphs."
    )
