"""Which calls of a program work on sizes and other numbers: they cost nothing, and hold no memory."""

from __future__ import annotations

from collections.abc import Container

from pnne_nb.compiler.operators import GETATTR, GETITEM, SETITEM
from pnne_nb.compiler.program import Argument, Call, Constant, Program, Ref, Sequence


def numbers(program: Program) -> set[str]:
    """Return the nodes whose calls give numbers, or tuples of them."""
    found: set[str] = set()
    for call in program.calls:
        if call.kind != "member" and gives_number(call, found):
            found.add(call.node)
    return found


def gives_number(call: Call, known: Container[str]) -> bool:
    """Whether a call gives numbers, or tuples of them, or what else a tensor says about itself.

    Args:
        call: The call.
        known: The nodes before it of which that is so.
    """
    if call.keywords:
        return False
    if call.kind == "method":
        return call.target == "size" and len(call.arguments) == 2
    if call.kind != "function" or call.target == SETITEM:
        return False
    if call.target == GETITEM:
        return _is_number(call.arguments[0], known)
    if call.target == GETATTR:
        name = call.arguments[1]
        return isinstance(name, Constant) and name.value in ("shape", "dtype", "device")
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
