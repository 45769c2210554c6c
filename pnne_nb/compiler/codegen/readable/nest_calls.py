"""Nests calls as a person would write them: ``return x + self.attn(self.ln_1(x))``.

The order of the calls stays the same: a call is nested only if it is the last one before its use. A value that the
author of an imported module has named keeps its own line.
"""

from __future__ import annotations

from collections import Counter
from typing import final

import msgspec

from pnne_nb.compiler.ir.call_properties import CHOICES, gives_number, numbers
from pnne_nb.compiler.ir.program import (
    NOWHERE,
    Argument,
    Attribute,
    Call,
    Constant,
    Inside,
    Program,
    Ref,
    Sequence,
    references,
)
from pnne_nb.compiler.ir.python_operators import BINARY, GETITEM, STATEMENTS

_LONGEST = 70
"""Most characters, roughly, of an expression inside another."""

_DEEPEST = 3

_AS_METHODS = frozenset({"torch.transpose", "torch.squeeze", "torch.unsqueeze", "torch.masked_fill", "torch.permute"})
"""Functions that people call as methods."""


def composed(program: Program) -> Program:
    """Return a program with calls nested into the call that uses them."""
    return _Composing(program).run()


@final
class _Composing:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._uses = Counter(ref for call in program.calls for ref in references(call))
        for result in program.results:
            # What is returned is named, unless it is all that is returned.
            self._uses.update([result.value] if isinstance(result.value, Ref) else ())
        self._numbers = numbers(program)
        self._nameless = {call.node for call in program.calls if not call.variables}
        self._said = {Ref(entry.node, "output"): len(entry.node) for entry in program.entries}
        self._said.update((Ref(call.node, port), len(name)) for call in program.calls for port, name in call.variables)
        self._calls: list[Call] = []

    def run(self) -> Program:
        for call in self._program.calls:
            self._calls.append(self._with_operands(_as_method(call)))
        results = self._program.results
        last = self._calls[-1] if self._calls else None
        if last is not None and len(results) == 1 and self._is_last(results[0].value) and _fits_inside(last, NOWHERE):
            results = (msgspec.structs.replace(results[0], value=self._calls.pop()),)
        return msgspec.structs.replace(self._program, calls=tuple(self._calls), results=results)

    def _with_operands(self, call: Call) -> Call:
        """Nest the calls just before this one into its arguments, where only this one uses their results."""
        if call.again or call.kind == "member" or call.target in (*STATEMENTS, *CHOICES) or not call.arguments:
            return call
        if any(not isinstance(value, Constant) for _, value in call.keywords):
            return call
        if not self._joins(call):
            return self._with_object(call) if call.kind == "method" else call
        arguments: list[Argument] = []
        for argument in reversed(call.arguments):
            found = self._whole(argument, len(self._calls), _DEEPEST, call.inside)
            whole, end = found or (argument, len(self._calls))
            if end < len(self._calls) and self._room(call, [whole, *arguments]):
                del self._calls[end:]
                arguments.insert(0, whole)
            else:
                arguments.insert(0, argument)
        return msgspec.structs.replace(call, arguments=tuple(arguments))

    def _with_object(self, call: Call) -> Call:
        """Write a method behind the one before it: ``x.transpose(1, 2).contiguous()``."""
        inner = self._calls[-1] if self._is_last(call.arguments[0]) else None
        fits = inner is not None and inner.kind == "method" and _fits_inside(inner, call.inside)
        if inner is None or not fits or self._length(inner) > _LONGEST:
            return call
        return msgspec.structs.replace(call, arguments=(self._calls.pop(), *call.arguments[1:]))

    def _joins(self, call: Call) -> bool:
        """Return whether a call brings several tensors together."""
        items = [item for each in call.arguments for item in (each.items if isinstance(each, Sequence) else (each,))]
        return sum(map(self._is_tensor, items)) > 1

    def _is_tensor(self, argument: Argument) -> bool:
        match argument:
            case Ref(node):
                return node not in self._numbers
            case Attribute():
                return True
            case Call():
                return not gives_number(argument, self._numbers)
        return False

    def _is_last(self, argument: Argument) -> bool:
        """Return whether a value was made last, and for this place alone."""
        return isinstance(argument, Ref) and bool(self._calls) and self._gives(self._calls[-1], argument)

    def _gives(self, call: Call, ref: Ref) -> bool:
        alone = call.single and call.results == (ref.port,) and call.node == ref.node and self._uses[ref] == 1
        return alone and not call.variables

    def _whole(self, argument: Argument, end: int, depth: int, inside: Inside) -> tuple[Argument, int] | None:
        """Return an operand with all that was made for it alone, and the number of calls before that; or None."""
        if isinstance(argument, Sequence):
            found = self._all_whole(argument.items, end, depth, inside)
            return None if found is None else (Sequence(found[0]), found[1])
        is_alone = isinstance(argument, Ref) and self._uses[argument] == 1 and argument.node in self._nameless
        if not isinstance(argument, Ref) or not is_alone or argument.node in self._numbers:
            return argument, end
        inner = self._calls[end - 1] if end else None
        if inner is None or not depth or not self._gives(inner, argument) or not _fits_inside(inner, inside):
            return None
        if inner.target not in BINARY and self._joins(inner):
            return None
        found = self._all_whole(inner.arguments, end - 1, depth - 1, inside)
        return None if found is None else (msgspec.structs.replace(inner, arguments=found[0]), found[1])

    def _all_whole(
        self, arguments: tuple[Argument, ...], end: int, depth: int, inside: Inside
    ) -> tuple[tuple[Argument, ...], int] | None:
        written: list[Argument] = []
        for argument in reversed(arguments):
            found = self._whole(argument, end, depth, inside)
            if found is None:
                return None
            written.insert(0, found[0])
            end = found[1]
        return tuple(written), end

    def _room(self, call: Call, arguments: list[Argument]) -> bool:
        """Return whether a line has place for these arguments."""
        left = sum(len(name) for _, name in call.variables)
        return left + self._length(msgspec.structs.replace(call, arguments=tuple(arguments))) <= _LONGEST

    def _length(self, argument: Argument) -> int:
        """Return about how many letters an expression takes."""
        match argument:
            case Ref():
                return self._said.get(argument, 6)
            case Constant(value):
                return len(repr(value)) + 2
            case Attribute(name):
                return len(name) + 7
            case Sequence(items):
                return sum(map(self._length, items)) + 2
            case Call(target="slice", arguments=parts):
                return sum(self._length(part) for part in parts if part != Constant(None)) + 3
            case Call(target=target, arguments=arguments, keywords=keywords):
                name = (argument.node if argument.kind == "member" else target).rpartition(".")[2]
                short = target in BINARY or target in ("tuple", "list", GETITEM)
                own = 3 if short else len(name) + (3 if argument.kind == "method" else 8)
                named = sum(len(key) + self._length(value) + 1 for key, value in keywords)
                return own + sum(map(self._length, arguments)) + named
        return 16


def _fits_inside(call: Call, inside: Inside) -> bool:
    """Return whether a call can be part of an expression inside contexts."""
    in_place = call.target.endswith("_") and not call.target.endswith("__") and call.target not in BINARY
    alike = call.inside == inside
    return call.single and alike and not call.again and call.target not in (*STATEMENTS, *CHOICES) and not in_place


def _as_method(call: Call) -> Call:
    if call.kind != "function" or call.target not in _AS_METHODS or not call.arguments:
        return call
    if isinstance(call.arguments[0], (Constant, Sequence)):
        return call
    return msgspec.structs.replace(call, kind="method", target=call.target.removeprefix("torch."))
