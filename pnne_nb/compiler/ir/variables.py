"""Names the local variables of a ``forward`` with valid identifiers, and frees each after its last use."""

from __future__ import annotations

import builtins
import functools
import keyword
import re
from collections.abc import Container, Iterator, Mapping
from typing import final

from pnne_nb.compiler.ir.call_properties import numbers
from pnne_nb.compiler.ir.program import Call, Constant, Program, Ref, ports_in, references, references_in
from pnne_nb.compiler.ir.python_operators import GETATTR, GETITEM
from pnne_nb.errors import CompileError
from pnne_nb.graph.schema.names import MAX_LENGTH
from pnne_nb.graph.schema.spec import Returns

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

RESERVED = frozenset(
    {
        *("self", "torch", "nn", "F", "collections", "math", "operator", "_", *keyword.kwlist),
        *("complex", "dict", "float", "getattr", "len", "list", "slice", "super", "tuple", "vars"),
    }
)
"""Names that mean something in generated source."""


@functools.lru_cache(maxsize=10_000)
def is_identifier(name: str) -> bool:
    """Return whether `name` can be written after ``self.``."""
    return bool(_IDENTIFIER.fullmatch(name)) and not keyword.iskeyword(name)


def is_attribute(name: str) -> bool:
    """Return whether a generated class can hold a tensor or module under `name`; ``getattr`` may be needed to read it."""
    return name.isprintable() and "." not in name and not name.startswith("__") and 0 < len(name) <= MAX_LENGTH


@functools.lru_cache(maxsize=10_000)
def check_target(target: str) -> str:
    """Return a dotted name if every part of it is a plain identifier.

    Raises:
        CompileError: If it is not; such a name never reaches the generated source.
    """
    if all(is_identifier(part) and not part.startswith("__") for part in target.split(".")):
        return target
    raise CompileError(f"{target!r} is not a name that can be written as source.")


def is_dotted(name: str) -> bool:
    """Return whether `name` is a dotted name, such as that of a class."""
    return all(is_identifier(part) for part in name.split("."))


def camel(name: str) -> str:
    """Return `name` as a class name: ``"my net"`` becomes ``"MyNet"``, ``"lenet"`` ``"Lenet"``."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    text = "".join(word[0].upper() + word[1:] for word in words)
    if not text:
        return "Model"
    return f"Net{text}" if text[0].isdigit() else text


def parameter_name(name: str) -> str:
    """Return the identifier nearest to a node's name: ``"0"`` becomes ``"x0"``, ``"lambda"`` ``"lambda_"``."""
    text = name if _IDENTIFIER.fullmatch(name) else f"x{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
    return f"{text}_" if text in RESERVED else text


def unique(name: str, taken: Container[str]) -> str:
    """Return `name`, with a number appended if it is taken."""
    number, candidate = 2, name
    while candidate in taken:
        candidate = f"{name}{number}"
        number += 1
    return candidate


GENERIC = ("x", "out", "h", "y", "z", "u", "v", "w")
"""Names of values that pass through several nodes; they may be overwritten."""

_PLUMBING = frozenset(
    {
        *(
            "add",
            "sub",
            "mul",
            "div",
            "truediv",
            "floordiv",
            "matmul",
            "getattr",
            "getitem",
            "choose",
            "if_else",
            "detach",
        ),
        *("view", "reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "expand", "contiguous"),
    }
)
"""Functions whose names say nothing about what they give."""

_BUILTINS = frozenset(dir(builtins))
_NAMED_CHAIN = 3
"""So many values in a row may have the name of the layer that makes the first."""


@final
class Variables:
    """Assigns variables to the values of a program, and frees them after their last use.

    A value that is made from one that is no longer needed takes over its variable (``x = self.relu(x)``), so that no
    more tensors stay alive than the graph needs; what else is no longer needed is to be deleted. Arguments of
    ``forward`` are never deleted: the caller holds them anyway. Where a branch begins, a variable gets the name of its
    node, if that is descriptive (``skip = self.downsample(x)``). The names that an imported module's author uses come
    before all of that.
    """

    def __init__(self, program: Program, reserved: frozenset[str] | set[str]) -> None:
        self._program = program
        self._names: dict[Ref, str] = {}
        self._used: set[str] = {*reserved}
        self._lent: set[str] = set()  # arguments that nothing needs any more, for what the author gives their names
        self._wished = {name for call in program.calls for _, name in call.variables if is_variable(name)}
        self.entries: dict[str, str] = {}
        for entry in program.entries:
            name = unique(parameter_name(entry.node), self._used)
            self._used.add(name)
            self.entries[entry.node] = name
            self._names[Ref(entry.node, "output")] = name
        self._reads = [_read_by(call) for call in program.calls]
        self._last: dict[Ref, int] = {}
        self._readers: dict[Ref, int] = {}
        readers, last = self._readers, self._last
        for index, reads in enumerate(self._reads):
            for ref in reads:
                readers[ref] = readers.get(ref, 0) + 1
                last[ref] = index
        for result in program.results:
            for ref in references_in(result.value):
                readers[ref] = readers.get(ref, 0) + 1
                last[ref] = len(program.calls)
        self._numbers = numbers(program)
        self._tensors = self._reads
        if self._numbers:
            self._tensors = [tuple([ref for ref in reads if ref.node not in self._numbers]) for reads in self._reads]
        self._following = self._chains()
        self._own = dict(self._beginnings())
        self._wishes = self._leading() if self._wished else {}

    def name(self, ref: Ref) -> str:
        """Return the variable that holds a value."""
        return self._names[ref]

    def step(self, index: int) -> tuple[tuple[str, ...], str, list[str]]:
        """Assign the results of the call at `index`; calls are passed in order.

        Returns:
            The variables that the call reads, the target of the assignment (empty if the result is unused), and the
            variables to delete after it.
        """
        call, chained = self._program.calls[index], self._following[index]
        if chained is not None and len(self._reads[index]) == 1 and call.single and not self._wishes:
            # What most calls do: they alone work on a value, and what they make takes over its variable.
            made = Ref(call.node, str(call.results[0]))
            if made in self._last:
                name = self._names[made] = self._names.pop(chained)
                self._lent.discard(name)
                return (name,), name, []
        free: dict[Ref, str] = {}
        inputs: list[str] = []
        for ref in self._reads[index]:
            name = self._names[ref]
            inputs.append(name)
            if self._last[ref] == index:
                del self._names[ref]
                if ref.node not in self.entries or name in GENERIC:
                    free[ref] = name
                    self._used.discard(name)
                else:
                    # A name of an argument stays taken: it may not come to mean something else by chance.
                    self._lent.add(name)
        targets = self._left(index, free)
        dead = [
            name
            for ref, name in free.items()
            if name not in self._used and ref.node not in self._numbers and ref.node not in self.entries
        ]
        return tuple(inputs), targets, dead

    def _chains(self) -> list[Ref | None]:
        """Return for each call the value whose variable it takes over because it alone works on it, or nearly so."""
        found: list[Ref | None] = []
        fixed = {node for node, name in self.entries.items() if name not in GENERIC}
        for index, (call, read) in enumerate(zip(self._program.calls, self._tensors, strict=True)):
            ref = read[0] if len(read) == 1 and self._last[read[0]] == index else None
            if ref is None or ref.node in fixed or call.node in self._numbers:
                found.append(None)
            else:
                # What several calls have worked on is a fork: a layer there begins a branch.
                found.append(ref if self._readers[ref] == 1 or not _speaking(call) else None)
        return found

    def _leading(self) -> dict[Ref, str]:
        """Return what the author calls values, and what is made for one of them alone: ``scores = scores / 8``."""
        found: dict[Ref, str] = {}
        for index in reversed(range(len(self._program.calls))):
            call = self._program.calls[index]
            found.update((Ref(call.node, port), name) for port, name in call.variables if name in self._wished)
            if not call.single or call.node in self._numbers:
                continue
            name, read = found.get(Ref(call.node, str(call.results[0]))), self._tensors[index]
            if name is not None and len(read) == 1 and self._readers[read[0]] == 1:
                found.setdefault(read[0], name)
        return found

    def _beginnings(self) -> Iterator[tuple[int, str]]:
        """Yield the calls that begin a new variable, with its name if the node has a descriptive one."""
        nexts: dict[str, int] = {}
        for index, ref in enumerate(self._following):
            if ref is not None:
                nexts[ref.node] = index
        for index, call in enumerate(self._program.calls):
            if self._following[index] is not None:
                continue
            chain, following = [call], nexts.get(call.node)
            while following is not None and len(chain) <= _NAMED_CHAIN:
                chain.append(self._program.calls[following])
                following = nexts.get(chain[-1].node)
            layers = sum(each.kind == "member" for each in chain)
            if len(chain) == 1 or (call.kind == "member" and layers == 1 and len(chain) <= _NAMED_CHAIN):
                yield index, _speaking(call)

    def _taken_over(self, index: int, free: Mapping[Ref, str]) -> str:
        """Return the variable that a call's result takes over from what it is made of; empty for none."""
        chained = self._following[index]
        if chained is not None:
            return free.get(chained, "")
        read = self._tensors[index]
        if len(read) < 2 or self._program.calls[index].node in self._numbers:
            return ""
        return next((free[ref] for ref in read if free.get(ref) in GENERIC and free[ref] not in self._wished), "")

    def _left(self, index: int, free: Mapping[Ref, str]) -> str:
        """Return the assignment target of the call at `index`."""
        call = self._program.calls[index]
        if call.single:
            value = Ref(call.node, str(call.results[0])) if call.results else None
            return self._assigned(index, value, free, several=False) if value in self._last else ""
        read = [ref for port in ports_in(call.results) if (ref := Ref(call.node, port)) in self._last]
        several = len(read) > 1 or call.node in self._numbers
        for ref in read:
            self._assigned(index, ref, free, several=several)
        return self._written(call, call.results) if read else ""

    def _assigned(self, index: int, ref: Ref, free: Mapping[Ref, str], *, several: bool) -> str:
        """Choose the variable of a value that the call at `index` makes, alone or as one of `several`."""
        name = self._wish(ref) if self._wishes else ""
        if not name and not several:
            name = self._taken_over(index, free)
        if not name:
            name = self._fresh(index, ref.port if several else None)
        self._used.add(name)
        self._lent.discard(name)
        self._names[ref] = name
        return name

    def _wish(self, ref: Ref) -> str:
        """Return the name that the author of an imported module uses for a value, if nothing else has it now."""
        name = self._wishes.get(ref, "")
        return name if name not in self._used or name in self._lent else ""

    def _written(self, call: Call, results: Returns) -> str:
        texts: list[str] = []
        for item in results:
            if isinstance(item, str):
                texts.append(self._names.get(Ref(call.node, item), "_"))
            else:
                nested = self._written(call, item)
                texts.append(f"({nested})" if nested.strip("_, ") else "_")
        return f"{texts[0]}," if len(texts) == 1 else ", ".join(texts)

    def _fresh(self, index: int, port: str | None) -> str:
        call = self._program.calls[index]
        if port is not None:
            wanted = parameter_name(port)
        else:
            wanted = _number_name(call) if call.node in self._numbers else self._own.get(index, "")
        if wanted:
            return unique(wanted, self._used)
        taken = self._used | self._wished
        return next((name for name in GENERIC if name not in taken), "") or unique("x", taken)


def is_variable(name: str) -> bool:
    """Return whether a value may be named so."""
    return is_identifier(name) and name not in RESERVED and name not in _BUILTINS and not name.startswith("__")


def _read_by(call: Call) -> tuple[Ref, ...]:
    """Return the values that a call reads, each once."""
    arguments = call.arguments
    if len(arguments) == 1 and not call.keywords and type(arguments[0]) is Ref:  # what most calls are
        return (arguments[0],)
    return tuple(dict.fromkeys(references(call)))


def _speaking(call: Call) -> str:
    """Return the name of a call's node, if it describes the result."""
    name = call.node
    if not is_variable(name):
        return ""
    said = call.kind == "member" or name.removeprefix("operator_").rstrip("_0123456789") not in _PLUMBING
    return name if said else ""


def _number_name(call: Call) -> str:
    """Return a name for a size, or for what is made of sizes."""
    last = call.arguments[-1]
    if call.target == GETATTR and isinstance(last, Constant):
        return str(last.value)
    if call.target in (GETITEM, "size") and isinstance(last, Constant) and call.node.startswith(("getitem", "size")):
        return "batch" if last.value == 0 else f"size{last.value}" if is_identifier(f"size{last.value}") else "size"
    return call.node if is_variable(call.node) else "size"
