"""Finds the operations of an exported program that torch.onnx translates, decomposes, and cannot translate.

torch offers no public list. This module alone reads its registry, and knows nothing where a version of torch has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

from pnne_nb.errors import Diagnostic
from pnne_nb.export.formats.node_places import node_at
from pnne_nb.process.quiet import quiet

try:
    from torch.onnx._internal.exporter import _dispatching, _fx_passes, _registration
except ImportError:  # pragma: no cover  # another version of torch
    _REGISTRY = False
else:
    _REGISTRY = True

REPAIR = "Draw it from other nodes, or export as 'pt2'."
"""What to do about a node that ONNX has no form for."""

OLDEST = 18
"""The opset that torch's own translations are written for; an older file is converted from it."""


class Operators(NamedTuple):
    """The ONNX operators of one node.

    Attributes:
        node: The path of the node.
        before: The operations as torch traced them.
        after: Those that they are decomposed into; the same if they are translated as they are.
        untranslated: Those of `after` that ONNX has no form for, with what torch says of each.
    """

    node: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    untranslated: tuple[tuple[str, str], ...]


def operators(program: ExportedProgram, opset: int | None) -> list[Operators]:
    """Return the ONNX operators of each node, in the order of the program."""
    if not _REGISTRY:
        return []
    _forget_pending(program)
    with quiet():
        registry = _registration.ONNXRegistry.from_torchlib(opset_version=max(opset or OLDEST, OLDEST))
        decomposed = _fx_passes.decompose_with_registry(program, registry)
        before, after = _by_node(program), _by_node(decomposed)
        found = []
        for node, calls in after.items():
            lacking = []
            for call in calls:
                if isinstance(call.target, torch._ops.OpOverload) and not _is_assertion(call):
                    translation, message = _dispatching.dispatch(call, registry)
                    if translation is None:
                        lacking.append((_name(call), message))
            names = tuple(_name(call) for call in calls if not _is_assertion(call))
            originally = tuple(_name(call) for call in before.get(node, ()) if not _is_assertion(call))
            found.append(Operators(node, originally, names, tuple(lacking)))
    return found


def untranslated(found: Sequence[Operators]) -> list[Diagnostic]:
    """Return an error for each node with an operation that ONNX cannot express."""
    return [
        Diagnostic(
            "no-translation",
            f"ONNX has no operator for {', '.join(dict.fromkeys(name for name, _ in each.untranslated))}, which the "
            "node computes with.",
            each.node or None,
            hint=REPAIR,
        )
        for each in found
        if each.untranslated
    ]


def decomposed(found: Sequence[Operators]) -> list[Diagnostic]:
    """Return a finding for each node whose operations are decomposed into others."""
    return [
        Diagnostic(
            "decomposed",
            f"{', '.join(dict.fromkeys(each.before))} is written as {', '.join(dict.fromkeys(each.after))}.",
            each.node,
            severity="info",
        )
        for each in found
        if each.node and each.before and not each.untranslated and set(each.before) != set(each.after)
    ]


def _forget_pending(program: ExportedProgram) -> None:
    """Drop the data-dependent sizes that an earlier decomposition has left unbound.

    torch makes such a size (``nonzero``) each time it decomposes a program, and refuses to go on at the next time.
    """
    values = (node.meta.get("val") for node in program.graph.nodes)
    mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    if mode is not None and mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _by_node(program: ExportedProgram) -> dict[str, list[torch.fx.Node]]:
    found: dict[str, list[torch.fx.Node]] = {}
    for call in program.graph.nodes:
        if call.op == "call_function":
            found.setdefault(node_at(call.meta.get("stack_trace") or ""), []).append(call)
    return found


def _name(call: torch.fx.Node) -> str:
    target: Any = call.target
    return str(getattr(target, "overloadpacket", None) or getattr(target, "__name__", target)).removeprefix("aten.")


def _is_assertion(call: torch.fx.Node) -> bool:
    """Return whether a call is only an assertion, or computes a size for one; such calls are not written."""
    return not isinstance(call.target, torch._ops.OpOverload) or "assert" in _name(call) or "sym_" in _name(call)
