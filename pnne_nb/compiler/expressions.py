"""Arguments, constructions and calls as text."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import assert_never, final

import msgspec

from pnne_nb.compiler.branches import CHOOSE
from pnne_nb.compiler.constants import emit, emit_index
from pnne_nb.compiler.naming import RESERVED, check_target, is_identifier, unique
from pnne_nb.compiler.operators import BINARY, GETATTR, GETITEM, SETITEM, UNARY, is_operator
from pnne_nb.compiler.program import (
    Argument,
    Attribute,
    Call,
    Constant,
    Construction,
    Given,
    Mode,
    Ref,
    Sequence,
    Weight,
)
from pnne_nb.compiler.variables import Variables
from pnne_nb.errors import CompileError

_SPREAD = frozenset({"view", "reshape", "permute", "expand", "repeat", "tile"})
"""Methods whose sizes people write one by one: ``x.view(-1, 400)``."""

_BUILTINS = frozenset({"choose", "dict", "getattr", "len", "list", "slice", "tuple"})
"""Functions of Python itself that the catalogue has as nodes."""

_MEMBER = re.compile(r"[A-Za-z0-9_]+")

_DRAWN = {"zeros": "zeros", "ones": "ones", "normal": "randn", "uniform": "rand"}


def is_known(target: str) -> bool:
    """Whether generated source can name `target` without a registered object: it is torch's or Python's."""
    return target.startswith(("torch.", "operator.", "math.")) or target in _BUILTINS


def repeated(texts: list[str], *, spread: bool = False) -> list[str]:
    """Return the items of a list display, or with `spread` the arguments of a call; equal ones are written once."""
    if len(texts) < 3 or any(text != texts[0] for text in texts) or "(" not in texts[0]:
        return texts
    text = f"{texts[0]} for _ in range({len(texts)})"
    return [f"*[{text}]" if spread else text]


@final
class Expressions:
    """Writes expressions, and remembers which modules and registered objects they need.

    A call's text comes in pieces: what opens it, its arguments, and what closes it.

    Attributes:
        used: Which of ``torch`` and ``F`` occur.
        imports: Names of registered objects that occur, with their targets.
        reserved: Names that no variable and no class may take.
        names: What registered objects are called, by their targets.
        variables: Of the ``forward`` that is being written.
        lists: Paths of the lists of modules in the class that is being written.
    """

    variables: Variables

    def __init__(self, objects: Mapping[str, object]) -> None:
        self._objects = objects
        self.names: dict[str, str] = {}
        taken: set[str] = set()
        for target in objects:
            name = unique(check_target(target).rpartition(".")[2], {*taken, *RESERVED})
            taken.add(name)
            self.names[target] = name
        self.reserved = RESERVED | taken
        self.used: set[str] = set()
        self.lists: set[str] = set()
        self.imports: dict[str, str] = {}
        self._made: dict[int, list[str]] = {}  # equal layers share one construction; the unit keeps it alive

    def import_lines(self) -> list[str]:
        """Return the imports of registered objects; what no module holds is named in a comment."""
        lines = []
        for name, target in sorted(self.imports.items()):
            value = self._objects[target]
            module = getattr(value, "__module__", None)
            own = getattr(value, "__name__", "")
            importable = (
                isinstance(module, str)
                and module != "__main__"
                and all(is_identifier(part) for part in module.split("."))
                and is_identifier(own)
                and getattr(sys.modules.get(module), own, None) is value
            )
            alias = "" if own == name else f" as {name}"
            lines.append(f"from {module} import {own}{alias}" if importable else f"# {name} is defined in the notebook")
        return lines

    def argument(self, argument: Argument) -> str:
        """Return an argument as an expression that needs no parentheses as an argument."""
        match argument:
            case Ref():
                return self.variables.name(argument)
            case Constant(value):
                return self._constant(value)
            case Mode():
                return "self.training"
            case Attribute(name):
                return self.held(name)
            case Sequence(items):
                return f"[{', '.join(self.argument(item) for item in items)}]"
            case Construction():
                first, *middle, last = self.construction(argument)
                return f"{first}{', '.join(middle)}{last}"
            case Given(name):
                return name
            case Call():
                first, *middle = self.call(argument)
                return f"{first}{', '.join(middle[:-1])}{middle[-1] if middle else ''}"
            case _:
                assert_never(argument)

    def construction(self, construction: Construction) -> list[str]:
        """Return the making of an object, in pieces."""
        pieces = self._made.get(id(construction))
        if pieces is None:
            arguments = self._arguments(construction.arguments, construction)
            pieces = self._made[id(construction)] = [f"{self._target(construction.target)}(", *arguments, ")"]
        return pieces

    def call(self, call: Call) -> list[str]:
        """Return a node's call, in pieces; an operator is one piece."""
        match call.kind:
            case "member":
                member, arguments = self.attribute(call.target), self._arguments(call.arguments, call)
                return self._again(call, member, arguments) if call.again else [f"{member}(", *arguments, ")"]
            case "function":
                return self._operator(call) or [
                    f"{self._target(call.target)}{self._entry(call.target)}(",
                    *self._arguments(call.arguments, call),
                    ")",
                ]
            case "method":
                return self._method(call)
            case _:
                assert_never(call.kind)

    def attribute(self, path: str) -> str:
        """Return ``self.name``, also for names that cannot stand after a dot, and ``self.layers[0]``."""
        return self.held(path)

    def container(self, path: str, contents: Mapping[tuple[str, ...], list[str]]) -> list[str]:
        """Return the making of a list or dictionary of modules, in pieces.

        Args:
            path: What holds it.
            contents: The making of each module, by its path inside.
        """
        made: dict[str, str] = {}
        for name in dict.fromkeys(inside[0] for inside in contents):
            inner = {inside[1:]: text for inside, text in contents.items() if inside[0] == name}
            pieces = inner.get(()) or self.container(f"{path}.{name}", inner)
            made[name] = pieces[0] + ", ".join(pieces[1:-1]) + pieces[-1]
        if list(made) == [str(index) for index in range(len(made))]:
            self.lists.add(path)
            return ["nn.ModuleList([", *repeated(list(made.values())), "])"]
        return ["nn.ModuleDict({", *(f"{emit(name)}: {text}" for name, text in made.items()), "})"]

    def held(self, path: str) -> str:
        """Return ``self.embed.weight`` for the path of a tensor or module.

        Raises:
            CompileError: If a part of it cannot be the name of a node or tensor.
        """
        if is_identifier(path) and not path.startswith("__"):  # what most are
            return f"self.{path}"
        text, before = "self", ""
        for name in path.split("."):
            inside, before = before, f"{before}.{name}" if before else name
            if inside in self.lists and name.isdecimal():
                text = f"{text}[{name}]"
                continue
            if not _MEMBER.fullmatch(name) or name.startswith("__"):
                raise CompileError(f"{path!r} cannot be the path of a parameter.")
            text = f"{text}.{name}" if is_identifier(name) else f"getattr({text}, {emit(name)})"
        return text

    def tensor(self, weight: Weight) -> list[str]:
        """Return the making of a weight's initial tensor, as one piece."""
        self.used.add("torch")
        shape = emit(weight.shape) if len(weight.shape) != 1 else emit(weight.shape[0])
        dtype = "" if weight.dtype == "float32" and weight.init != "arange" else f", dtype=torch.{weight.dtype}"
        check_target(weight.dtype)
        if weight.values is not None:
            return [f"torch.tensor({emit(weight.values)}, dtype=torch.{weight.dtype})"]
        if weight.init == "tril":
            return [f"torch.ones({shape}{dtype}).tril()"]
        if weight.init == "arange":
            count = 1
            for size in weight.shape:
                count *= size
            tail = "" if len(weight.shape) == 1 else f".reshape({emit(weight.shape)})"
            return [f"torch.arange({count}{dtype}){tail}"]
        if weight.init in _DRAWN:
            return [f"torch.{_DRAWN[weight.init]}({shape}{dtype})"]
        if weight.init in ("kaiming_uniform", "xavier_uniform"):
            return [f"nn.init.{weight.init}_(torch.empty({shape}{dtype}))"]
        raise CompileError(f"{weight.name}: there is no initialisation {weight.init!r}.")

    def _constant(self, value: object) -> str:
        text = emit(value)
        if "torch." in text:
            self.used.add("torch")
        return text

    def _arguments(self, arguments: tuple[Argument, ...], call: Call | Construction) -> list[str]:
        keywords = []
        for name, value in call.keywords:
            if not is_identifier(name):
                raise CompileError(f"{name!r} cannot be the name of an argument.")
            keywords.append(f"{name}={self.argument(value)}")
        return [*(self.argument(argument) for argument in arguments), *keywords]

    def _again(self, call: Call, member: str, arguments: list[str]) -> list[str]:
        self.used.add("torch")
        if call.again == "restored":
            self.used.add("checkpointed")
            return ["checkpointed(", member, *arguments, ")"]
        return ["torch.utils.checkpoint.checkpoint(", member, *arguments, "use_reentrant=False", ")"]

    def _method(self, call: Call) -> list[str]:
        receiver, *rest = call.arguments
        if not rest and call.target in _SPREAD and [name for name, _ in call.keywords] == ["size"]:
            rest, call = [call.keywords[0][1]], msgspec.structs.replace(call, keywords=())
        if len(rest) == 1 and call.target in _SPREAD and isinstance(rest[0], Constant):
            sizes = rest[0].value
            if isinstance(sizes, tuple) and sizes:
                rest = [Constant(size) for size in sizes]
        elif len(rest) == 1 and call.target in _SPREAD and isinstance(rest[0], Call) and rest[0].target == "tuple":
            rest = [item for items in rest[0].arguments if isinstance(items, Sequence) for item in items.items]
        if not is_identifier(call.target):
            raise CompileError(f"{call.target!r} cannot be the name of a method.")
        return [f"{self._operand(receiver)}.{call.target}(", *self._arguments(tuple(rest), call), ")"]

    def _operator(self, call: Call) -> list[str] | None:
        """Return a call that is written without parentheses, as one piece."""
        operands = call.arguments
        if call.target in ("tuple", "list") and len(operands) == 1 and isinstance(operands[0], Sequence):
            items = ", ".join(self.argument(item) for item in operands[0].items)
            if call.target == "list":
                return [f"[{items}]"]
            return [f"({items},)" if len(operands[0].items) == 1 else f"({items})"]
        if call.target == "dict":
            return [self._dictionary(call)]
        if call.target == CHOOSE and len(operands) == 2:
            return [f"{self.argument(operands[0])} if self.training else {self.argument(operands[1])}"]
        if call.target == SETITEM and len(operands) == 3:
            index = operands[1]
            return [f"{self._operand(operands[0])}[{self._index(index)}] = {self.argument(operands[2])}"]
        if call.keywords or not any(isinstance(operand, (Ref, Attribute, Call)) for operand in operands):
            return None
        if len(operands) == 2 and call.target == GETITEM:
            index = operands[1]
            return [f"{self._operand(operands[0])}[{self._index(index)}]"]
        if len(operands) == 2 and call.target == GETATTR and isinstance(operands[1], Constant):
            name = operands[1].value
            if not isinstance(name, str) or not is_identifier(name) or name.startswith("_"):
                raise CompileError(f"{name!r} cannot be the name of an attribute.")
            return [f"{self._operand(operands[0])}.{name}"]
        if is_operator(call.target, len(operands)) and len(operands) == 2:
            symbol = BINARY[call.target][0]
            return [f"{self._operand(operands[0])} {symbol} {self._operand(operands[1])}"]
        if is_operator(call.target, len(operands)):
            return [f"{UNARY[call.target][0]}{self._operand(operands[0])}"]
        return None

    def _index(self, index: Argument) -> str:
        """Return what stands between the brackets."""
        match index:
            case Constant(value):
                return emit_index(value)
            case Call(target="slice", arguments=parts):
                texts = ["" if part == Constant(None) else self.argument(part) for part in parts]
                return ":".join(texts if len(texts) > 2 and texts[2] else texts[:2])
            case Call(target="tuple", arguments=(Sequence(items),)) if len(items) > 1:
                return ", ".join(map(self._index, items))
        return self.argument(index)

    def _dictionary(self, call: Call) -> str:
        given = {**dict(zip(("items", "keys"), call.arguments, strict=False)), **dict(call.keywords)}
        items, keys = given.get("items"), given.get("keys")
        values = items.items if isinstance(items, Sequence) else ()
        names = keys.value if isinstance(keys, Constant) else None
        if not isinstance(names, tuple) or len(names) != len(values):
            raise CompileError(f"{call.node}: a dictionary needs a tuple of as many keys as it has items.")
        pairs = zip(names, values, strict=True)
        return f"{{{', '.join(f'{emit(name)}: {self.argument(value)}' for name, value in pairs)}}}"

    def _operand(self, argument: Argument) -> str:
        text = self.argument(argument)
        if isinstance(argument, Call):
            plain = argument.kind != "function" or argument.target in (GETITEM, GETATTR, "tuple", "list")
            return text if plain else f"({text})"
        # "-1 ** x" and "2.view()" would mean something else.
        return (
            f"({text})"
            if isinstance(argument, Constant) and not isinstance(argument.value, tuple) and (text[:1] == "-")
            else text
        )

    def _entry(self, target: str) -> str:
        # A registered autograd function is a class, and called through apply.
        value = self._objects.get(target)
        return ".apply" if isinstance(value, type) and hasattr(value, "apply") else ""

    def _target(self, target: str) -> str:
        check_target(target)
        if target in self._objects:
            self.imports[self.names[target]] = target
            return self.names[target]
        if target in _BUILTINS:
            return target
        module = target.partition(".")[0]
        if module in ("math", "operator"):
            self.used.add(module)
            return target
        if target.startswith("torch.nn.functional."):
            self.used.add("F")
            return f"F.{target.removeprefix('torch.nn.functional.')}"
        if target.startswith("torch.nn."):
            return target.removeprefix("torch.")
        if target.startswith("torch."):
            self.used.add("torch")
            return target
        raise CompileError(f"{target!r} is not registered, so it cannot be written as source.")
