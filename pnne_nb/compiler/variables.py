"""Local variables of a ``forward``: which name holds which value, and how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from pnne_nb.compiler.naming import RESERVED, is_identifier, parameter_name, unique
from pnne_nb.compiler.program import Argument, Call, Program, Ref, Sequence
from pnne_nb.graph.spec import Returns

GENERIC = ("x", "y", "z", "u", "v", "w")
"""What values are called when nothing better is known, and what may be overwritten."""


@final
class Variables:
    """Gives every value of a program a name, and frees it after its last use.

    A value that is no longer needed is overwritten (``x = self.relu(x)``) or deleted, so that no more tensors
    stay alive than the graph needs. Arguments of ``forward`` are never deleted: the caller holds them anyway.
    """

    def __init__(self, program: Program, reserved: frozenset[str] | set[str]) -> None:
        self._program = program
        self._names: dict[Ref, str] = {}
        self._used: set[str] = {*reserved}
        self.entries: dict[str, str] = {}
        for entry in program.entries:
            name = unique(parameter_name(entry.node), self._used)
            self._used.add(name)
            self.entries[entry.node] = name
            self._names[Ref(entry.node, "output")] = name
        self._taken = frozenset(self.entries.values())
        self._reads = [tuple(dict.fromkeys(references(call))) for call in program.calls]
        self._last: dict[Ref, int] = {}
        for index, reads in enumerate(self._reads):
            for ref in reads:
                self._last[ref] = index
        for result in program.results:
            for ref in _references(result.value):
                self._last[ref] = len(program.calls)

    def name(self, ref: Ref) -> str:
        """The variable that holds a value now."""
        return self._names[ref]

    def inputs(self, index: int) -> tuple[str, ...]:
        """The variables that call number `index` reads."""
        return tuple([self._names[ref] for ref in self._reads[index]])

    def step(self, index: int) -> tuple[str, list[str]]:
        """Make call number `index`; steps are made in order.

        Returns:
            What stands left of the ``=`` (empty if the result is not used), and the variables to delete after it.
        """
        call = self._program.calls[index]
        free: list[str] = []
        for ref in self._reads[index]:
            if self._last[ref] != index:
                continue
            name = self._names.pop(ref)
            if ref.node not in self.entries or name in GENERIC:
                free.append(name)
        self._used.difference_update(free)
        targets = self._targets(call, call.results, free, single=call.single)
        dead = [name for name in free if name not in self._used and name not in self._taken]
        # A name of an argument stays taken: it may not come to mean something else by chance.
        return targets, dead

    def _targets(self, call: Call, results: Returns, free: list[str], *, single: bool) -> str:
        if not self._read(call, results):
            return ""
        texts: list[str] = []
        for item in results:
            if not isinstance(item, str):
                nested = self._targets(call, item, [], single=False)
                texts.append(f"({nested})" if nested else "_")
                continue
            ref = Ref(call.node, item)
            if ref not in self._last:
                texts.append("_")
                continue
            reusable = next((name for name in free if name not in self._used), None) if not texts else None
            name = reusable or (self._fresh() if not texts else self._called(item))
            self._used.add(name)
            self._names[ref] = name
            texts.append(name)
        return f"{texts[0]}," if len(texts) == 1 and not single else ", ".join(texts)

    def _read(self, call: Call, results: Returns) -> bool:
        """Whether any of these results is used."""
        return any(
            Ref(call.node, item) in self._last if isinstance(item, str) else self._read(call, item) for item in results
        )

    def _called(self, port: str) -> str:
        if is_identifier(port) and port not in RESERVED and port not in self._used:
            return port
        return unique(parameter_name(port), self._used)

    def _fresh(self) -> str:
        for name in GENERIC:
            if name not in self._used:
                return name
        number = 1
        while f"x{number}" in self._used:
            number += 1
        return f"x{number}"


def references(call: Call) -> Iterator[Ref]:
    """Yield the values that a call reads, as often as it reads them."""
    for argument in call.arguments:
        yield from _references(argument)
    for _, argument in call.keywords:
        yield from _references(argument)


def _references(argument: Argument) -> Iterator[Ref]:
    match argument:
        case Ref():
            yield argument
        case Sequence(items):
            for item in items:
                yield from _references(item)
        case Call():
            yield from references(argument)
