"""Properties of calls: the mode in which they run, whether they compute numbers only, whether they work in place."""

from __future__ import annotations

from collections.abc import Container
from itertools import takewhile
from typing import TypeAlias

from pnne_nb.compiler.ir.program import (
    Argument,
    Call,
    Constant,
    Layer,
    Program,
    Ref,
    Sequence,
    references,
    references_in,
)
from pnne_nb.compiler.ir.python_operators import GETATTR, GETITEM, STATEMENTS

CHOOSE, IF_ELSE = "choose", "if_else"
"""Targets of the calls that are written ``train if self.training else eval`` and ``yes if condition else no``."""

CHOICES = (CHOOSE, IF_ELSE)

_PLAIN = ("shape", "dtype", "device", "is_floating_point", "is_complex", "itemsize")
"""Attributes that are no tensors."""

Branch: TypeAlias = "tuple[tuple[Ref | None, bool], ...]"
"""The answers that a call is made for, the outermost first: of a condition, or of ``self.training`` where that is None."""


def branches(program: Program) -> list[Branch]:
    """Return for each call the answers for which its result is needed."""
    if not any(call.target in CHOICES for call in program.calls):
        return [()] * len(program.calls)
    places = {call.node: index for index, call in enumerate(program.calls)}
    uses: dict[str, list[Branch]] = {}
    for result in program.results:
        _use(uses, result.value, ())
    found: dict[str, Branch] = {}
    for call in reversed(program.calls):
        branch = _shared(uses.get(call.node, [()]))
        # A condition can only be asked for once it is known.
        known = (condition is None or places.get(condition.node, -1) < places[call.node] for condition, _ in branch)
        branch = tuple(turn for turn, _ in zip(branch, takewhile(bool, known), strict=False))
        found[call.node] = branch
        condition = call.arguments[0] if call.target == IF_ELSE and call.arguments else None
        if call.target in CHOICES and isinstance(condition, Ref | None):
            if condition is not None:
                _use(uses, condition, branch)
            decided = any(asked == condition for asked, _ in branch)
            for answer, argument in zip((True, False), call.arguments[condition is not None :], strict=False):
                _use(uses, argument, branch if decided else (*branch, (condition, answer)))
        else:
            for ref in references(call):
                uses.setdefault(ref.node, []).append(branch)
    # What nothing uses changes something in place: it belongs to where that was made.
    for call in program.calls:
        if call.node not in uses:
            found[call.node] = next((found[ref.node] for ref in references(call) if found.get(ref.node)), ())
    return [found[call.node] for call in program.calls]


def _use(uses: dict[str, list[Branch]], argument: Argument, branch: Branch) -> None:
    for ref in references_in(argument):
        uses.setdefault(ref.node, []).append(branch)


def _shared(branches: list[Branch]) -> Branch:
    """Return the answers with which all of several branches begin."""
    first = min(branches, key=len)
    same = (all(other[depth] == turn for other in branches) for depth, turn in enumerate(first))
    return first[: sum(takewhile(bool, same))]


def numbers(program: Program) -> set[str]:
    """Return the nodes whose calls return numbers or tuples of numbers."""
    found: set[str] = set()
    for call in program.calls:
        if call.kind != "member" and gives_number(call, found):
            found.add(call.node)
    return found


def gives_number(call: Call, known: Container[str]) -> bool:
    """Return whether a call returns numbers, tuples of numbers, or an attribute of a tensor such as its dtype.

    `known` are the nodes before it whose calls do.
    """
    if call.keywords:
        return False
    if call.kind == "method":
        return call.target == "size" and len(call.arguments) == 2
    if call.kind != "function" or call.target in STATEMENTS:
        return False
    if call.target == GETITEM:
        return _is_number(call.arguments[0], known)
    if call.target == GETATTR:
        name = call.arguments[1]
        return isinstance(name, Constant) and name.value in _PLAIN
    if call.target == "len":
        return True
    plain = call.target in ("tuple", "list", "slice") or call.target.startswith(("operator.", "math."))
    return plain and all(_is_number(argument, known) for argument in call.arguments)


def _is_number(argument: Argument, known: Container[str]) -> bool:
    match argument:
        case Ref(node):
            return node in known
        case Call():
            return gives_number(argument, known)
        case Sequence(items):
            return all(_is_number(item, known) for item in items)
        case Constant():
            return True
    return False


def changes_in_place(call: Call) -> bool:
    """Return whether a call changes its first argument: ``add_``, ``inplace=True``, ``x[0] = y``."""
    if call.target in STATEMENTS:
        return True
    return (call.target.endswith("_") and not call.target.endswith("__")) or _says_so(call.keywords)


def is_inplace_layer(layer: Layer) -> bool:
    """Return whether a layer changes its input: ``ReLU(inplace=True)``."""
    return _says_so(layer.construction.keywords)


def _says_so(keywords: tuple[tuple[str, Argument], ...]) -> bool:
    return any(name == "inplace" and isinstance(value, Constant) and bool(value.value) for name, value in keywords)
