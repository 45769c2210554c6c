"""Activation checkpointing: marks calls that training recomputes, from the nodes' ``checkpoint`` property.

Recomputing gives the same gradients, with the same dropout masks, if it starts from the same input and has no side
effects. What would break that is refused here, at the node. Generated code restores buffers that a recomputation
changes, such as the statistics of batch normalisation, unless the node is imported from code that counts them twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from pnne_nb.compiler.ir.call_properties import changes_in_place, is_inplace_layer
from pnne_nb.compiler.ir.program import Call, Constant, Layer, Member, Nested, Opaque, Program, Ref, Unit, references
from pnne_nb.compiler.ir.snapshot import GraphSnapshot, paths_of
from pnne_nb.compiler.shapes.infer import failure
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.schema.structural import CHECKPOINT

_RECURRENT = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")


def recompute(unit: Unit, snapshots: Mapping[str, GraphSnapshot]) -> Unit:
    """Return `unit` with the calls of checkpointed nodes marked.

    Raises:
        CompileError: If a node that is to be computed again would not give the same; ``diagnostics`` lists every one.
    """
    wanted = {id: names for id, snapshot in snapshots.items() if (names := _checkpointed(snapshot))}
    if not wanted:
        return unit
    programs = dict(unit.programs)
    found: list[Diagnostic] = []
    paths = paths_of(snapshots)
    for id, names in wanted.items():
        program, prefix = programs[id], paths[id][0]
        calls = []
        for call in program.calls:
            if call.node in names:
                found += _faults(unit, program, call, f"{prefix}{call.node}")
                origin = snapshots[id].nodes[call.node].origin
                restored = not (origin is not None and origin.twice) and any(
                    map(_has_buffers, _inside(unit, program, call.target))
                )
                call = msgspec.structs.replace(call, again="restored" if restored else "plain")
            calls.append(call)
        programs[id] = msgspec.structs.replace(program, calls=tuple(calls))
    if found:
        raise failure(unit.name, found)
    return msgspec.structs.replace(unit, programs=programs)


def _checkpointed(snapshot: GraphSnapshot) -> set[str]:
    if CHECKPOINT.name not in snapshot.property_names:
        return set()
    return {
        name
        for name, node in snapshot.nodes.items()
        if node.properties.get(CHECKPOINT.name) is True and CHECKPOINT in node.spec.properties
    }


def _faults(unit: Unit, program: Program, call: Call, path: str) -> Iterator[Diagnostic]:
    """Say why a call cannot be computed again."""
    if call.target == program.whole:
        yield Diagnostic(
            code="checkpoint-whole",
            message="It cannot be checkpointed: it is the whole model, whose activations would all be stored again while "
            "it is computed again.",
            node=path,
            hint="Checkpoint blocks inside it in its own code, or reset checkpoint.",
        )
    for member in _inside(unit, program, call.target):
        if _draws_its_own(member):
            who = "it" if member.name == call.target else member.name
            yield Diagnostic(
                code="checkpoint-random",
                message=f"It cannot be checkpointed: {who} has dropout between its layers, and on a "
                "GPU keeps a random state of its own, so that recomputing it would give another dropout mask.",
                node=path,
                hint="Set its dropout to 0 and add Dropout nodes, or reset checkpoint.",
            )
    if _changes_its_input(unit, program, call):
        yield Diagnostic(
            code="checkpoint-in-place",
            message="It cannot be checkpointed: it changes its input in place, and recomputing it would start "
            "from the changed values.",
            node=path,
            hint="Reset inplace on the node that does, or reset checkpoint.",
        )
    mine = set(references(call))
    for other in program.calls[program.calls.index(call) + 1 :]:
        if _changed(program, other) in mine:
            yield Diagnostic(
                code="checkpoint-in-place",
                message=f"It cannot be checkpointed: {other.node} changes its input in place afterwards, and "
                "recomputing it would start from the changed values.",
                node=path,
                hint=f"Replace {other.node} by a node that makes a new tensor, or reset checkpoint.",
            )


def _inside(unit: Unit, program: Program, name: str) -> Iterator[Member]:
    """Yield a member of a program, and what is in it at any depth."""
    for member in program.members:
        if member.name != name:
            continue
        yield member
        if isinstance(member, Nested):
            inner = unit.programs[member.definition]
            for each in inner.members:
                yield from _inside(unit, inner, each.name)


def _draws_its_own(member: Member) -> bool:
    if not isinstance(member, Layer) or member.construction.target not in _RECURRENT:
        return False
    given = dict(member.construction.keywords)
    dropout, layers = given.get("dropout"), given.get("num_layers")
    several = isinstance(layers, Constant) and isinstance(layers.value, int) and layers.value > 1
    return several and isinstance(dropout, Constant) and bool(dropout.value)


def _has_buffers(member: Member) -> bool:
    """Return whether computing a member again may change its own buffers; unknown classes may."""
    if not isinstance(member, Layer):
        return isinstance(member, Opaque)
    target = member.construction.target
    return not target.startswith("torch.nn.") or issubclass(getattr(nn, target.removeprefix("torch.nn.")), _NormBase)


def _changes_its_input(unit: Unit, program: Program, call: Call) -> bool:
    member = next(member for member in program.members if member.name == call.target)
    if isinstance(member, Layer):
        return is_inplace_layer(member)
    if not isinstance(member, Nested):
        return False
    inner = unit.programs[member.definition]
    given = {Ref(entry.node, "output") for entry in inner.entries}
    return any(
        _changed(inner, each) in given or (each.kind == "member" and given & set(references(each)) != set()
                                           and _changes_its_input(unit, inner, each))
        for each in inner.calls
    )  # fmt: skip


def _changed(program: Program, call: Call) -> Ref | None:
    """Return the value that a call of a function, method or layer changes in place, or None."""
    if call.kind == "member":
        layer = next((m for m in program.members if m.name == call.target), None)
        in_place = isinstance(layer, Layer) and is_inplace_layer(layer)
    else:
        in_place = changes_in_place(call)
    return next(references(call), None) if in_place else None
