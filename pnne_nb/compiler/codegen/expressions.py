"""Writes arguments, constructions and calls as source text."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping
from typing import assert_never, final

import msgspec
from torch import nn

from pnne_nb.catalog.custom import MADE
from pnne_nb.catalog.operators import CHECK_STRUCTURE
from pnne_nb.compiler.codegen.custom_source import import_line
from pnne_nb.compiler.codegen.syntax import ORDERED, dictionary, notation, operand
from pnne_nb.compiler.ir.literals import as_lists, emit
from pnne_nb.compiler.ir.program import (
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
from pnne_nb.compiler.ir.python_operators import SET_ATTRIBUTES, is_operator
from pnne_nb.compiler.ir.text import WIDTH, Bracketed, Text, before, behind, display, literal
from pnne_nb.compiler.ir.variables import RESERVED, Variables, check_target, is_attribute, is_identifier, unique
from pnne_nb.errors import CompileError

_SPREAD = frozenset({"view", "reshape", "permute", "expand", "repeat", "tile"})
"""Methods whose sizes people write one by one: ``x.view(-1, 400)``."""

_BUILTINS = frozenset(
    {CHECK_STRUCTURE, "choose", "dict", "getattr", "if_else", "len", "list", "slice", "tuple", "vars"}
)
"""Functions of Python itself that the catalogue has as nodes, and one that the source defines."""

ITSELF = "itself"
"""Name of the function in source that returns the module that a model is."""

_DRAWN = {"zeros": "zeros", "ones": "ones", "uniform": "rand"}


def is_known(target: str) -> bool:
    """Return whether source can name `target` without an import: it is torch's or Python's."""
    return target.startswith(("torch.", "operator.", "math.")) or target in {*_BUILTINS, ORDERED, SET_ATTRIBUTES}


@functools.cache
def takes_device(target: str) -> bool:
    """Return whether the constructor of a torch layer has a ``device`` argument."""
    cls = getattr(nn, target.removeprefix("torch.nn."), None)
    return cls is not None and "device" in inspect.signature(cls).parameters


@final
class Expressions:
    """Writes expressions, and collects the imports that they need.

    Attributes:
        used: Which of ``torch`` and ``F`` occur.
        imports: Names of registered objects that occur, with their targets.
        reserved: Names that no variable and no class may take.
        names: What registered objects are called, by their targets.
        variables: Of the ``forward`` that is being written.
        lists: Paths of the lists of modules in the class that is being written.
        whole: Name of the member that objects of that class themselves are.
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
        self.dictionaries: set[str] = set()
        self.imports: dict[str, str] = {}
        self.whole = ""
        # Equal layers share one construction, which the unit keeps alive: its id stays its own.
        self._made: dict[int, tuple[Bracketed, str]] = {}

    def import_lines(self, *, carried: bool = False) -> list[str]:
        """Return the import statements, by module.

        Args:
            carried: Whether the source has the text of what no module holds; otherwise a comment names it.
        """
        found: dict[str, list[str]] = {"torch": ["nn"]}
        unknown: list[str] = []
        for name, target in sorted(self.imports.items()):
            value = self._objects[target]
            line = import_line(name, value)
            if line is not None:
                _, module, _, what = line.split(" ", 3)
                found.setdefault(module, []).append(what)
            elif not carried:
                unknown.append(f"# {name} is defined in the notebook")
        return [*(f"from {module} import {', '.join(sorted(found[module]))}" for module in sorted(found)), *unknown]

    def argument(self, argument: Argument) -> str:
        """Return an argument as an expression without outer parentheses."""
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
                return self.construction(argument)[1]
            case Given(name):
                return name
            case Call():
                return str(self.call(argument))
            case _:
                assert_never(argument)

    def construction(self, construction: Construction) -> tuple[Bracketed, str]:
        """Return the constructor call of an object, and the same on one line."""
        made = self._made.get(id(construction))
        if made is None:
            arguments = tuple(self._arguments(construction.arguments, construction))
            text = Bracketed(f"{self._target(construction.target)}(", arguments)
            made = self._made[id(construction)] = text, str(text)
        return made

    def call(self, call: Call) -> Text:
        """Return a node's call."""
        match call.kind:
            case "member":
                first = call.arguments[0] if len(call.arguments) == 1 and not call.keywords else None
                if call.target == self.whole:  # the forward of its own class, and not the one that is being written
                    return Bracketed(f"{ITSELF}(self)(", tuple(self._arguments(call.arguments, call)))
                member = self.held(call.target)
                if type(first) is Ref and not call.again:  # what most calls of layers have
                    plain = f"{member}({self.variables.name(first)})"
                    if len(plain) <= WIDTH // 2:
                        return plain  # it need not be broken anywhere
                arguments = tuple(self._arguments(call.arguments, call))
                return self._again(call, member, arguments) if call.again else Bracketed(f"{member}(", arguments)
            case "function" if call.target == ORDERED:
                return Bracketed(f"{self._target(ORDERED)}(", (dictionary(call, self.argument),))
            case "function" if call.target.startswith(f"{MADE}."):
                self.used.add("remade")
                made = tuple(self._arguments(call.arguments, call))
                return Bracketed("remade(", (self._target(call.target), *made))
            case "function":
                written = notation(call, self.argument)
                if written is not None:
                    return self._breakable(call, written)
                # A registered autograd function is a class, and called through apply.
                value = self._objects.get(call.target)
                entry = ".apply" if isinstance(value, type) and hasattr(value, "apply") else ""
                return Bracketed(f"{self._target(call.target)}{entry}(", tuple(self._arguments(call.arguments, call)))
            case "method":
                return self._method(call)
            case _:
                assert_never(call.kind)

    def _breakable(self, call: Call, written: Text) -> Text:
        """Return the text of a function; an operator whose last operand calls a layer is broken in that call's brackets."""
        match call.arguments:
            case [Ref(), Call(kind="member") as last] if isinstance(written, str) and is_operator(call.target, 2):
                inner = self.call(last)
                return before(written.removesuffix(str(inner)), inner)
            case _:
                return written

    def container(self, path: str, contents: Mapping[tuple[str, ...], Text]) -> Bracketed:
        """Return the constructor call of a list or dictionary of modules.

        Args:
            path: What holds it.
            contents: The making of each module, by its path inside.
        """
        made: dict[str, Text] = {}
        for name in dict.fromkeys(inside[0] for inside in contents):
            inner = {inside[1:]: text for inside, text in contents.items() if inside[0] == name}
            made[name] = inner.get(()) or self.container(f"{path}.{name}", inner)
        if list(made) == [str(index) for index in range(len(made))]:
            self.lists.add(path)
            return Bracketed("nn.ModuleList(", (display(list(made.values())),))
        self.dictionaries.add(path)
        items = tuple(before(f"{emit(name)}: ", text) for name, text in made.items())
        return Bracketed("nn.ModuleDict(", (Bracketed("{", items, "}"),))

    def held(self, path: str) -> str:
        """Return ``self.embed.weight`` for the path of a tensor or module: also ``self.layers[0]``.

        Raises:
            CompileError: If a part of it cannot be the name of a node or tensor.
        """
        if is_identifier(path) and not path.startswith("__"):  # what most are
            return f"self.{path}"
        text, before = "self", ""
        for name in path.split(".") if path else ():
            inside, before = before, f"{before}.{name}" if before else name
            if inside in self.lists and name.isdecimal():
                text = f"{text}[{name}]"
                continue
            if not is_attribute(name):
                raise CompileError(f"{path!r} cannot be the path of a parameter.")
            if inside in self.dictionaries and not is_identifier(name):
                text = f"{text}[{emit(name)}]"  # heads["part-of-speech"]
            else:
                text = f"{text}.{name}" if is_identifier(name) else f"getattr({text}, {emit(name)})"
        return text

    def tensor(self, weight: Weight) -> Text:
        """Return the expression of a weight's initial tensor."""
        self.used.add("torch")
        shape = ", ".join(map(emit, weight.shape)) if weight.shape else "()"
        dtype = "" if weight.dtype == "float32" and weight.init != "arange" else f", dtype=torch.{weight.dtype}"
        check_target(weight.dtype)
        if weight.values is not None:
            given = (literal(as_lists(weight.values)), f"dtype=torch.{weight.dtype}")
            repeats = _sizes(weight.values) != weight.shape
            return Bracketed("torch.tensor(", given, f").expand({emit(weight.shape)}).clone()" if repeats else ")")
        if weight.init == "eye":
            sides = ", ".join(map(emit, weight.shape[: 1 if len(set(weight.shape)) == 1 else 2]))
            return f"torch.eye({sides}{dtype})"
        if weight.init == "tril":
            return f"torch.ones({shape}{dtype}).tril()"
        if weight.init == "arange":
            tail = "" if len(weight.shape) == 1 else f".reshape({emit(weight.shape)})"
            return f"torch.arange({math.prod(weight.shape)}{dtype}){tail}"
        if weight.init == "normal":
            return self._normal(weight, shape, dtype)
        if weight.init in _DRAWN:
            return f"torch.{_DRAWN[weight.init]}({shape}{dtype})"
        if weight.init in ("kaiming_uniform", "xavier_uniform"):
            return f"nn.init.{weight.init}_(torch.empty({shape}{dtype}))"
        raise CompileError(f"{weight.name}: there is no initialisation {weight.init!r}.")

    @staticmethod
    def _normal(weight: Weight, shape: str, dtype: str) -> str:
        mean, std = emit(weight.mean), emit(weight.std)
        if weight.std == 0:
            return f"torch.full({emit(weight.shape)}, {mean}{dtype})"
        if weight.mean != 0:
            return f"torch.normal({mean}, {std}, {emit(weight.shape)}{dtype})"
        return f"torch.randn({shape}{dtype})" + (f" * {std}" if weight.std != 1 else "")

    def _constant(self, value: object) -> str:
        text = emit(value)
        if "torch." in text:
            self.used.add("torch")
        return text

    def _arguments(self, arguments: tuple[Argument, ...], call: Call | Construction) -> list[Text]:
        # Values are what most arguments are.
        texts: list[Text] = [self.variables.name(each) if type(each) is Ref else self._item(each) for each in arguments]
        for name, value in call.keywords:
            if not is_identifier(name):
                raise CompileError(f"{name!r} cannot be the name of an argument.")
            texts.append(before(f"{name}=", self._item(value)))
        return texts

    def _item(self, argument: Argument) -> Text:
        """Return an argument, as something that may be broken into lines."""
        match argument:
            case Construction():
                return self.construction(argument)[0]
            case Sequence(items):
                return Bracketed("[", tuple(map(self._item, items)), "]")
            case Call():
                return self.call(argument)
            case Constant(list(value)):
                return literal(value)
        return self.argument(argument)

    def _again(self, call: Call, member: str, arguments: tuple[Text, ...]) -> Bracketed:
        self.used.add("torch")
        if call.again == "restored":
            self.used.add("checkpointed")
            return Bracketed("checkpointed(", (member, *arguments))
        return Bracketed("torch.utils.checkpoint.checkpoint(", (member, *arguments, "use_reentrant=False"))

    def _method(self, call: Call) -> Bracketed:
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
        text = f"{operand(receiver, self.argument)}.{call.target}("
        made = Bracketed(text, tuple(self._arguments(tuple(rest), call)))
        inner = self.call(receiver) if isinstance(receiver, Call) and receiver.kind == "method" else ""
        if isinstance(inner, str) or not inner.items:
            return made
        return msgspec.structs.replace(made, earlier=behind(inner, str(made).removeprefix(str(inner))))

    def _target(self, target: str) -> str:
        check_target(target)
        if target in self._objects:
            self.imports[self.names[target]] = target
            return self.names[target]
        if target == CHECK_STRUCTURE:
            self.used |= {CHECK_STRUCTURE, "torch"}
        if target in _BUILTINS:
            return target
        module = target.partition(".")[0]
        if module in ("collections", "math", "operator"):
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


def _sizes(elements: object) -> tuple[int, ...]:
    """Return the shape of nested tuples."""
    return (len(elements), *_sizes(elements[0])) if isinstance(elements, tuple) and elements else ()
