"""Inlines sizes and other numbers into the expressions that use them: ``x.view(b, x.shape[1], -1)``."""

from __future__ import annotations

from collections import Counter

import msgspec

from pnne_nb.compiler.ir.program import Argument, Call, Constant, Program, Ref, Sequence, references
from pnne_nb.compiler.ir.python_operators import GETATTR, GETITEM, STATEMENTS


def inlined(program: Program) -> Program:
    """Return a program with unnamed calls on numbers inlined where they are used once."""
    uses = Counter(ref for call in program.calls for ref in references(call))
    uses.update(result.value for result in program.results if isinstance(result.value, Ref))
    calls: list[Call] = []
    pending: dict[Ref, Call] = {}
    values: set[str] = set()

    def place(argument: Argument) -> Argument:
        match argument:
            case Ref() if argument in pending:
                uses[argument] -= 1
                return pending[argument] if uses[argument] else pending.pop(argument)
            case Sequence(items):
                return Sequence(tuple(map(place, items)))
        return argument

    for call in program.calls:
        is_value = _is_value(call, values)
        made = msgspec.structs.replace(
            call,
            arguments=tuple(map(place, call.arguments)),
            keywords=tuple((name, place(value)) for name, value in call.keywords),
        )
        ref = Ref(call.node, "output")
        if is_value:
            values.add(call.node)
        if is_value and not call.variables and (uses[ref] == 1 or call.target == GETATTR):
            pending[ref] = made
            continue
        if not is_value:
            # It may change what a size is read from.
            calls += pending.values()
            pending.clear()
        calls.append(made)
    results = tuple(msgspec.structs.replace(result, value=place(result.value)) for result in program.results)
    return msgspec.structs.replace(program, calls=(*calls, *pending.values()), results=results)


def _is_value(call: Call, values: set[str]) -> bool:
    """Return whether a call works on sizes and other numbers, which cost nothing and hold no memory."""
    if call.keywords or not call.single or len(call.results) != 1:
        return False
    if call.kind == "method":
        return call.target == "size" and len(call.arguments) == 2
    if call.kind != "function" or call.target in STATEMENTS:
        return False
    if call.target == GETITEM:
        return isinstance(call.arguments[0], Ref) and call.arguments[0].node in values
    if call.target == GETATTR:
        name = call.arguments[1]
        return isinstance(name, Constant) and name.value in ("shape", "dtype", "device")
    return call.target in ("tuple", "list", "slice", "len") or call.target.startswith(("operator.", "math."))
