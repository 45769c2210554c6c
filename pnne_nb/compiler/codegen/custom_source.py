"""Carries the classes and functions of registered node types into source that is shown, so that it stands alone.

What another module can import is imported. What only a notebook or a function holds is copied, with everything that it
uses of what is around it: modules by their imports, classes and functions by their text, constants by their value.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any, final

from pnne_nb.compiler.ir.literals import emit
from pnne_nb.compiler.ir.variables import is_identifier
from pnne_nb.errors import CompileError, Diagnostic, shown

_MARK = "register_node"
"""The decorator that is left out: source that stands alone knows nothing of this package."""

_KNOWN = {"nn": "torch.nn", "F": "torch.nn.functional", "torch": "torch"}
"""Names that generated source has anyway."""


@final
class CustomSource:
    """The text of registered classes and functions, and of what they use.

    Args:
        objects: What is carried, by the name that it has in the source.
        nodes: Path of a node of each, for messages.

    Attributes:
        future: Whether annotations are not evaluated where the text comes from.
        imports: Import statements, in order.
        text: Definitions, each after those that it needs.
        names: What the text defines.
        used: Which of the names that generated source imports for itself the text needs too.

    Raises:
        CompileError: If there is no source, with the node.
    """

    def __init__(self, objects: Mapping[str, object], nodes: Mapping[str, str]) -> None:
        self.future = False
        self.imports: list[str] = []
        self.text: list[str] = []
        self.names: dict[str, object] = {}
        self.used: set[str] = set()
        for name, value in objects.items():
            self._node, self._type = nodes.get(name), name
            self._carry(name, value)

    def _carry(self, name: str, value: object) -> None:
        """Add what `name` stands for, once."""
        if name in self.names:
            if self.names[name] is not value:
                raise self._fault(f"uses two different objects by the name {name!r}", "Rename one of them.")
            return
        if name in _KNOWN and value is sys.modules.get(_KNOWN[name]):
            self.used.add(name)
            return
        self.names[name] = value
        line = import_line(name, value)
        if line is not None:
            self.imports.append(line)
        elif isinstance(value, type | types.FunctionType):
            self._define(name, value)
        else:
            try:
                self.text += ["", "", f"{name} = {emit(value)}"]
            except (CompileError, TypeError, ValueError) as error:
                raise self._fault(
                    f"uses {name}, a {type(value).__name__} outside of it, which has no source",
                    "Make it an argument, or make it inside the class or function.",
                ) from error

    def _define(self, name: str, value: type | types.FunctionType) -> None:
        text, definition, around = self._source(value)
        own = getattr(definition, "name", "")
        if not isinstance(definition, ast.ClassDef | ast.FunctionDef) or own == "":
            raise self._fault(
                f"is {shown(value)}, which is no class and no function with a name", "Define it with def."
            )
        definition.decorator_list = [each for each in definition.decorator_list if not _is_mark(each)]
        self.names[own] = value
        for used in _names(definition):
            if used in around and used not in {own, name}:
                self._carry(used, around[used])
        self.text += ["", "", _without_marks(text, definition)]
        if name != own:
            self.text += ["", f"{name} = {own}"]

    def _source(self, value: type | types.FunctionType) -> tuple[str, ast.stmt, dict[str, Any]]:
        """Return the text of a class or function, and what stands around it by name."""
        around: dict[str, Any] = {}
        functions = list(_functions(value))
        for function in functions:
            around.update(function.__globals__)
            around.update(_closure(function))
            self.future |= bool(function.__code__.co_flags & __future__.annotations.compiler_flag)
        around.update({} if functions else vars(sys.modules.get(value.__module__, builtins)))
        try:
            text = textwrap.dedent(_text(value, functions))
            return text, ast.parse(text).body[0], around
        except (OSError, TypeError, SyntaxError, StopIteration) as error:
            raise self._fault(
                f"needs the source of {value.__qualname__}, which Python does not have",
                "Define it in a cell or in a file, not by exec or in an interactive shell.",
            ) from error

    def _fault(self, what: str, hint: str) -> CompileError:
        message = f"The node type {self._type!r} {what}, so source that stands alone cannot be written."
        found = Diagnostic(code="no-source", message=message, node=self._node, hint=hint)
        return CompileError(str(found), [found])


def import_line(name: str, value: object) -> str | None:
    """Return the statement that imports `value` as `name`, or None if no module that a file can import has it."""
    if isinstance(value, types.ModuleType):
        own = value.__name__
        return f"import {own}" if own == name else f"import {own} as {name}"
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if not isinstance(module, str) or not isinstance(own, str) or module == "__main__" or not is_identifier(own):
        return None
    if module.partition(".")[0] == __name__.partition(".")[0]:
        return None  # source that stands alone knows nothing of this package
    if not all(is_identifier(part) for part in module.split(".")):
        return None
    if getattr(sys.modules.get(module), own, None) is not value:
        return None
    return f"from {module} import {own}" if own == name else f"from {module} import {own} as {name}"


def _functions(value: type | types.FunctionType) -> Iterator[types.FunctionType]:
    """Yield the functions that a class or function consists of."""
    members = [value] if isinstance(value, types.FunctionType) else list(vars(value).values())
    for member in members:
        inner = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        inner = inner.fget if isinstance(inner, property) else inner
        unwrapped = inspect.unwrap(inner) if callable(inner) else inner
        if isinstance(unwrapped, types.FunctionType) and unwrapped.__module__ == value.__module__:
            yield unwrapped


def _closure(function: types.FunctionType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":
            try:
                found[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
    return found


def _text(value: type | types.FunctionType, functions: list[types.FunctionType]) -> str:
    """Return the text of a definition.

    Raises:
        OSError, TypeError, SyntaxError, StopIteration: If there is none.
    """
    if not isinstance(value, type) or not functions:
        return inspect.getsource(value)
    # Of a class in a notebook, Python does not know the cell; of its functions it does.
    code = functions[0].__code__
    lines = linecache.getlines(code.co_filename)
    tree = ast.parse("".join(lines))
    found = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.name == value.__name__]
    # The innermost one around the function.
    inside = [each for each in found if each.lineno <= code.co_firstlineno <= (each.end_lineno or 0)]
    one = max(inside, key=lambda each: each.lineno, default=None)
    if one is None:
        raise OSError(f"no class {value.__name__} in {code.co_filename}")
    first = min([one.lineno, *(each.lineno for each in one.decorator_list)])
    return "".join(lines[first - 1 : one.end_lineno])


def _names(definition: ast.AST) -> list[str]:
    """Return the names that a definition reads, in the order in which they first occur."""
    found = [each.id for each in ast.walk(definition) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    return list(dict.fromkeys(found))


def _is_mark(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == _MARK


def _without_marks(text: str, definition: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the text without the decorators that the definition no longer has."""
    lines = text.splitlines()
    kept = [line for each in definition.decorator_list for line in lines[each.lineno - 1 : each.end_lineno]]
    return "\n".join([*kept, *lines[definition.lineno - 1 : definition.end_lineno]])
