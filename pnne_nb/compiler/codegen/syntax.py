"""Calls that Python writes with syntax of their own: ``x + y``, ``x[:, 0]``, ``x.shape``, ``(x, y)``."""

from __future__ import annotations

import re
from collections.abc import Callable

from pnne_nb.compiler.ir.call_properties import CHOOSE, IF_ELSE
from pnne_nb.compiler.ir.literals import Formula, emit, emit_index
from pnne_nb.compiler.ir.program import Argument, Attribute, Call, Constant, Inside, Ref, Sequence
from pnne_nb.compiler.ir.python_operators import (
    BINARY,
    GETATTR,
    GETITEM,
    SET_ATTRIBUTES,
    STATEMENTS,
    UNARY,
    is_operator,
)
from pnne_nb.compiler.ir.text import Bracketed, Text
from pnne_nb.compiler.ir.variables import is_identifier
from pnne_nb.errors import CompileError
from pnne_nb.graph.schema.structural import CONTEXTS, Context

Write = Callable[[Argument], str]
"""Writes an argument as an expression that needs no parentheses as an argument."""

_BINDING = {"**": 7, "*": 5, "/": 5, "//": 5, "%": 5, "@": 5, "+": 4, "-": 4, "&": 3, "^": 2, "|": 1}
"""How tightly an operator holds its operands; comparisons hold them least."""

ORDERED = "collections.OrderedDict"
"""Target of the call that makes an ordered dictionary."""

RETURN_TYPE = "torch.return_types"
"""Target of the call that gives several results under the names that torch gives them."""

_SIGN = 6
_COMPARISON = 0
_ATOM = 8

_SHORT = re.compile(r"-?\w+(\.\w+)*")
_NAME_OR_NUMBER = re.compile(r"(-?\w+)?")


def context_calls(names: Inside) -> tuple[Text, ...]:
    """Return the calls that make contexts, for a ``with`` statement."""
    return tuple(_context(CONTEXTS[name]) for name in names)


def _context(context: Context) -> str:
    keywords = (f"{name}={emit(value)}" for name, value in context.keywords)
    return f"{context.target}({', '.join((*map(emit, context.arguments), *keywords))})"


def notation(call: Call, write: Write) -> Text | None:  # noqa: PLR0911  # one for each kind
    """Return a function call in Python's own syntax, or None if it has none.

    Raises:
        CompileError: If it cannot be written.
    """
    operands = call.arguments
    if call.target in ("tuple", "list") and len(operands) == 1 and isinstance(operands[0], Sequence):
        items = tuple(map(write, operands[0].items))
        if call.target == "list":
            return Bracketed("[", items, "]")
        return f"({items[0]},)" if len(items) == 1 else Bracketed("(", items)
    if call.target == "dict":
        return dictionary(call, write)
    if call.target == RETURN_TYPE and len(operands) == 2 and isinstance(operands[0], Sequence):
        name = operands[1].value if isinstance(operands[1], Constant) else None
        if not isinstance(name, str) or not is_identifier(name):
            raise CompileError(f"{name!r} cannot be the name of a result.")
        return Bracketed(f"{RETURN_TYPE}.{name}((", tuple(map(write, operands[0].items)), "))")
    if call.target == CHOOSE and len(operands) == 2:
        train, evaluation = (each.value if isinstance(each, Constant) else None for each in operands)
        if train is True and evaluation is False:
            return "self.training"
        return f"{write(operands[0])} if self.training else {write(operands[1])}"
    if call.target == IF_ELSE:
        condition, yes, no = (*operands, Constant(None), Constant(None))[:3]
        # A choice inside another one is written in brackets.
        return f"{operand(yes, write)} if {write(condition)} else {operand(no, write)}"
    if call.target in STATEMENTS:
        return _statement(call, write)
    if call.keywords or not any(isinstance(each, (Ref, Attribute, Call)) for each in operands):
        return None
    if len(operands) == 2 and call.target == GETITEM:
        return f"{operand(operands[0], write)}[{_index(operands[1], write)}]"
    if len(operands) == 2 and call.target == GETATTR and isinstance(operands[1], Constant):
        name = operands[1].value
        if not isinstance(name, str) or not is_identifier(name) or name.startswith("_"):
            raise CompileError(f"{name!r} cannot be the name of an attribute.")
        return f"{operand(operands[0], write)}.{name}"
    if is_operator(call.target, len(operands)):
        unary = len(operands) == 1 and f"{UNARY[call.target][0]}{operand(operands[0], write, _binding(call))}"
        return unary or _binary(call, write)
    return None


def _statement(call: Call, write: Write) -> Text | None:
    changed, *rest = call.arguments
    if call.target == SET_ATTRIBUTES and len(rest) == 1:
        return Bracketed(f"vars({write(changed)}).update(", (write(rest[0]),))
    return f"{operand(changed, write)}[{_index(rest[0], write)}] = {write(rest[1])}" if len(rest) == 2 else None


def operand(argument: Argument, write: Write, tightest: int = _ATOM) -> str:
    """Return an argument, in parentheses where an operator would bind tighter."""
    text = write(argument)
    if isinstance(argument, Call) and argument.kind == "function":
        return f"({text})" if _binding(argument) < tightest else text
    if isinstance(argument, Constant) and isinstance(argument.value, Formula):
        return text if _SHORT.fullmatch(text) else f"({text})"
    # "-1 ** x" and "2.view()" would mean something else.
    negative = isinstance(argument, Constant) and not isinstance(argument.value, tuple) and text[:1] == "-"
    return f"({text})" if negative else text


def _binding(call: Call) -> int:
    operands = len(call.arguments)
    if call.keywords or call.target in (GETITEM, GETATTR) or not is_operator(call.target, operands):
        return _ATOM
    symbol = (UNARY if operands == 1 else BINARY)[call.target][0]
    return _BINDING.get(symbol, _COMPARISON) if operands == 2 else _SIGN if symbol.strip() in ("-", "+", "~") else -1


def _binary(call: Call, write: Write) -> str:
    symbol, own = BINARY[call.target][0], _binding(call)
    # A power takes what is right of it first; comparisons would be chained.
    left = operand(call.arguments[0], write, own + (symbol == "**" or own == _COMPARISON))
    right = operand(call.arguments[1], write, own + (symbol != "**"))
    hugged = symbol == "**" and _SHORT.fullmatch(left) and _SHORT.fullmatch(right)
    return f"{left}**{right}" if hugged else f"{left} {symbol} {right}"


def _index(index: Argument, write: Write) -> str:
    """Return the index expression."""
    match index:
        case Constant(value):
            return emit_index(value)
        case Call(target="slice", arguments=parts):
            texts = ["" if part == Constant(None) else write(part) for part in parts]
            texts = texts if len(texts) > 2 and texts[2] else texts[:2]
            if all(_NAME_OR_NUMBER.fullmatch(text) for text in texts):
                return ":".join(texts)
            return re.sub(" +", " ", " : ".join(texts)).strip()
        case Call(target="tuple", arguments=(Sequence(items),)) if len(items) > 1:
            return ", ".join(_index(item, write) for item in items)
    return write(index)


def dictionary(call: Call, write: Write) -> Text:
    """Return a call that makes a dictionary, in braces.

    Raises:
        CompileError: If there are not as many keys as items.
    """
    given = {**dict(zip(("items", "keys"), call.arguments, strict=False)), **dict(call.keywords)}
    items, keys = given.get("items"), given.get("keys")
    values = items.items if isinstance(items, Sequence) else ()
    names = keys.value if isinstance(keys, Constant) else None
    if not isinstance(names, tuple) or len(names) != len(values):
        raise CompileError(f"{call.node}: a dictionary needs a tuple of as many keys as it has items.")
    pairs = zip(names, values, strict=True)
    return Bracketed("{", tuple(f"{emit(name)}: {write(value)}" for name, value in pairs), "}")
