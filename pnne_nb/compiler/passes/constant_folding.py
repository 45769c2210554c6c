"""Replaces nodes that depend only on constants by their values."""

from __future__ import annotations

import copy
from typing import Any, final

import torch

from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.compiler.analysis.nested_values import copied
from pnne_nb.compiler.codegen.expressions import is_known
from pnne_nb.compiler.ir.call_properties import CHOOSE
from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite, consumers
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.errors import ArgumentError, shown
from pnne_nb.graph.model.ops import AddNode, Connect, Op, RemoveNode
from pnne_nb.graph.schema.property_types import ConstantType, check
from pnne_nb.graph.schema.values import decimals
from pnne_nb.process.random_state import private_random_state

LIMIT = 1024
"""Tensors with more elements than this are not written into the document."""


@final
class FoldConstants(Pass):
    """Replaces nodes that depend only on constants by their values.

    Python values become Constant nodes; tensors of up to `LIMIT` elements become Buffer nodes that are not part of
    ``state_dict``, and so move with the model. Only torch's own functions are folded, and none that uses random
    numbers, works in place, or gives memory that was not filled. Parameters and buffers are no constants: they can
    be trained and loaded. A tensor that is itself a result is left, for a caller may change it.

    Args:
        limit: The largest number of elements of a tensor to fold.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        if type(limit) is not int or limit < 0:
            raise ArgumentError(f"limit must be a number of elements, not {shown(limit)}.")
        self._limit = limit

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        fixed = {id: _fixed(subject, id, snapshot) for id, snapshot in subject.snapshots.items()}
        if not any(fixed.values()):
            return done
        values = _values(subject)
        before = after = 0
        for id, snapshot in subject.snapshots.items():
            before += len(snapshot.nodes)
            self._fold(subject, id, snapshot, fixed[id], values, done)
            after += len(subject.graph.graphs[id].nodes)
        done.gains.append(Gain("nodes", before, after))
        return done

    def _fold(
        self,
        subject: PassSubject,
        id: str,
        snapshot: GraphSnapshot,
        fixed: set[str],
        values: dict[str, Any],
        done: Rewrite,
    ) -> None:
        gone: set[str] = set()
        # From the end: what only a folded node needs goes with it.
        for name in reversed(snapshot.order):
            if name not in fixed and snapshot.nodes[name].type != "Constant":
                continue
            users = consumers(subject, id, name)
            if users and name in fixed:
                new = self._replacement(subject, id, snapshot, name, values, done)
                if new is None:
                    continue
                place = list(subject.graph.graphs[id].nodes).index(name)
                added = AddNode(name, new[0], new[1], snapshot.nodes[name].position, id, place)
                ops: list[Op] = [RemoveNode(name, id), added]
                ops += [Connect(f"{name}.output", f"{node}.{port}", id) for node, port in users]
                subject.graph.apply(ops)
                gone.add(name)
                done.changes.append(Change("folded", subject.paths(id, name), f"it gives {new[2]}"))
            elif not users and gone.intersection(snapshot.followers.get(name, ())):
                subject.graph.apply([RemoveNode(name, id)])
                gone.add(name)

    def _replacement(
        self, subject: PassSubject, id: str, snapshot: GraphSnapshot, name: str, values: dict[str, Any], done: Rewrite
    ) -> tuple[str, dict[str, object], str] | None:
        """Return type and properties of the node that holds a value, and the value in words."""
        paths = subject.paths(id, name)
        found = [values[path] for path in paths if path in values]
        if len(found) < len(paths):
            return None
        value = found[0]
        if not isinstance(value, torch.Tensor):
            try:
                kept = check(ConstantType(), value)
            except ValueError:
                return None
            return ("Constant", {"value": kept}, repr(kept)) if type(kept) is type(value) else None
        direct = any(snapshot.nodes[node].type == "Output" for node, _ in consumers(subject, id, name))
        why = (
            "it is itself a result, which a caller may change" if direct
            else f"it has {value.numel()} elements, and the limit is {self._limit}" if value.numel() > self._limit
            else "" if value.layout is torch.strided and not value.is_quantized and value.device.type == "cpu"
            else "its value cannot be written into a document"
        )  # fmt: skip
        if why:
            done.skipped.update(dict.fromkeys(paths, why))
            return None
        dtype = str(value.dtype).removeprefix("torch.")
        held = {"shape": tuple(value.shape), "dtype": dtype, "values": _nested(decimals(value)), "persistent": False}
        return "Buffer", held, f"{list(value.shape)} {dtype}"


def _fixed(subject: PassSubject, id: str, snapshot: GraphSnapshot) -> set[str]:
    """Return the nodes that hang on constants alone."""
    found: set[str] = set()
    for name in snapshot.order:
        node = snapshot.nodes[name]
        spec = node.spec
        own = spec.kind == "method" or (spec.kind == "function" and is_known(spec.target))
        by_mode = spec.target == CHOOSE or spec.property_named("training") is not None
        if not own or by_mode or "empty" in spec.target:
            continue
        sources = {ref.node for ref in snapshot.wires.get(name, NO_WIRES).values()}
        if not all(source in found or snapshot.nodes[source].type == "Constant" for source in sources):
            continue
        if len(spec.present_outputs(node.properties)) == 1 and subject.is_pure(id, name):
            found.add(name)
    return found


def _values(subject: PassSubject) -> dict[str, Any]:
    """Run the model once, and return what its nodes gave."""
    values: dict[str, Any] = {}

    def note(step: NodeExecution) -> None:
        if len(step.outputs) == 1:
            values[step.node] = next(iter(step.outputs.values()))

    twin = copy.deepcopy(subject.model).eval()
    args, kwargs = copied((subject.args, dict(subject.kwargs)))
    with torch.no_grad(), private_random_state(), stepping(twin, note):
        twin(*args, **kwargs)
    return values


def _nested(value: Any) -> object:
    return tuple(map(_nested, value)) if isinstance(value, list) else value
