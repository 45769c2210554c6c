"""Writes ``js/src/protocol.ts``: the wire's types and what both sides must agree on, generated from Python.

Regenerate after a change of any message, op, port, property type or constant that stands here::

    python -m pnne_nb.protocol.typescript
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import inspect as types

from pnne_nb.errors import Severity
from pnne_nb.graph.layout import inlining
from pnne_nb.graph.model import annotation
from pnne_nb.graph.model.content import KEYWORDS
from pnne_nb.graph.model.ops import Op
from pnne_nb.graph.model.origin import Proof
from pnne_nb.graph.schema import categories
from pnne_nb.graph.schema.names import MAX_LENGTH, NODE_NAME, RESERVED
from pnne_nb.graph.schema.property_types import DEVICE, SIZE_NAME, PropertyType
from pnne_nb.graph.schema.spec import NodeKind, PortKind
from pnne_nb.graph.schema.structural import MODULE_PROPERTIES, PROMOTED
from pnne_nb.graph.schema.values import DTYPES, Dtype
from pnne_nb.protocol import control_messages
from pnne_nb.protocol.base_message import Answer, ViewRequest
from pnne_nb.protocol.messages import Event, Request
from pnne_nb.telemetry.frames import TrainingState

_Fields: TypeAlias = types.StructType | types.TypedDictType

TARGET = Path(__file__).parents[2] / "js" / "src" / "protocol.ts"
COMMAND = "python -m pnne_nb.protocol.typescript"

_UNIONS: dict[str, Any] = {
    "Op": Op,
    "PropertyType": PropertyType,
    "Request": Request,
    "Event": Event,
    "ControlRequest": control_messages.ControlRequest,
    "ControlEvent": control_messages.ControlEvent,
}
_SINGLE = (
    control_messages.MoveMessage,
    control_messages.AskMessage,
    control_messages.DropMessage,
    control_messages.TrainingStatus,
)
_LITERALS: dict[str, Any] = {
    "PortKind": PortKind,
    "NodeKind": NodeKind,
    "Severity": Severity,
    "Proof": Proof,
    "Dtype": Dtype,
    "TrainingState": TrainingState,
    "Command": control_messages.Command,
    "Move": control_messages.Move,
    "PageTheme": control_messages.PageTheme,
}
_CONSTANTS: dict[str, object] = {
    "DTYPES": DTYPES,
    "DEVICE": DEVICE,
    "SIZE_NAME": SIZE_NAME,
    "NODE_NAME": NODE_NAME,
    "MAX_NAME_LENGTH": MAX_LENGTH,
    "RESERVED_NAMES": tuple(sorted(RESERVED)),
    "KEYWORDS": KEYWORDS,
    "FRAME_COLOURS": annotation.COLOURS,
    "FARTHEST": annotation.FARTHEST,
    "MAX_TITLE": annotation.MAX_TITLE,
    "MAX_TEXT": annotation.MAX_TEXT,
    "FRAME_PADDING": annotation.PADDING,
    "FRAME_TITLE_HEIGHT": annotation.TITLE_HEIGHT,
    **{name: getattr(inlining, name) for name in inlining.TABLES},
    "RARE": tuple(each.name for each in MODULE_PROPERTIES if each is not PROMOTED),
    "SNOWFLAKE": categories.SNOWFLAKE,
    "STRUCTURE": categories.STRUCTURE,
    "BLOCK": categories.BLOCK,
    "MY_BLOCKS": categories.MY_BLOCKS,
    "TEMPLATES": categories.TEMPLATES,
    "UNKNOWN": categories.UNKNOWN,
}

_HEADER = f"""\
// Generated from pnne_nb/protocol. Do not edit; regenerate with: {COMMAND}

/** Any JSON value. Property values are in the JSON form of pnne_nb/graph/schema/values.py. */
export type Json = null | boolean | number | string | readonly Json[] | {{ readonly [key: string]: Json }};
"""


def generate() -> str:
    """Return the text of ``protocol.ts``."""
    structs: dict[str, _Fields] = {}
    for union in _UNIONS.values():
        for info in types.multi_type_info(get_args(union)):
            _collect(info, structs)
    for info in types.multi_type_info(_SINGLE):
        _collect(info, structs)
    parts = [_HEADER]
    parts += [_one_of(name, map(_quoted, get_args(alias))) for name, alias in _LITERALS.items()]
    parts += [_one_of(name, (member.__name__ for member in get_args(alias))) for name, alias in _UNIONS.items()]
    # A message that holds property values as Python constants travels in their JSON form, so `object` is Json.
    parts += [_interface(struct) for struct in structs.values()]
    parts += [_constant(name, value) for name, value in _CONSTANTS.items()]
    return "\n".join(parts)


def _collect(info: types.Type, structs: dict[str, _Fields]) -> None:
    match info:
        case types.StructType(cls=cls, fields=fields) | types.TypedDictType(cls=cls, fields=fields):
            if cls.__name__ not in structs:
                if (base := _base(cls)) is not None:
                    _collect(types.type_info(base), structs)
                structs[cls.__name__] = info
                for field in fields:
                    _collect(field.type, structs)
            elif structs[cls.__name__].cls is not cls:
                raise TypeError(f"Two classes of the wire are called {cls.__name__}: rename one.")
        case types.UnionType(types=members):
            for member in members:
                _collect(member, structs)
        case types.VarTupleType(item_type=item) | types.DictType(value_type=item) | types.ListType(item_type=item):
            _collect(item, structs)
        case types.TupleType(item_types=items):
            for item in items:
                _collect(item, structs)
        case _:
            pass


def _base(struct: type) -> type[msgspec.Struct] | None:
    """Return the class that a message has its address from."""
    return next((base for base in (ViewRequest, Answer) if struct is not base and issubclass(struct, base)), None)


def _interface(info: _Fields) -> str:
    struct, base = info.cls, _base(info.cls)
    heir = "" if base is None else f" extends {base.__name__}"
    lines = [*_comment(inspect.getdoc(struct) or "", ""), f"export interface {struct.__name__}{heir} {{"]
    if isinstance(info, types.StructType) and info.tag_field is not None and struct not in {ViewRequest, Answer}:
        lines.append(f"  readonly {info.tag_field}: {_quoted(info.tag)};")
    docs = _attribute_docs(struct)
    # What the browser sends may leave defaults out; what Python sends leaves them out where the struct says so.
    lenient = isinstance(info, types.StructType) and (
        info.cls.__struct_config__.omit_defaults or struct in get_args(Request)
    )
    for field in info.fields:
        if base is not None and field.name in base.__struct_fields__:
            continue
        lines += _comment(docs.get(field.name, ""), "  ")
        optional = "?" if lenient and not field.required else ""
        lines.append(f"  readonly {field.encode_name}{optional}: {_typescript(field.type)};")
    return "\n".join((*lines, "}", ""))


def _typescript(info: types.Type) -> str:
    match info:
        case types.StructType(cls=cls) | types.TypedDictType(cls=cls):
            return cls.__name__
        case types.CustomType(cls=cls) if cls is object:
            return "Json"
        case types.NoneType():
            return "null"
        case types.BoolType():
            return "boolean"
        case types.IntType() | types.FloatType():
            return "number"
        case types.StrType():
            return "string"
        case types.LiteralType(values=values):
            for name, alias in _LITERALS.items():
                if set(values) == set(get_args(alias)):
                    return name
            return " | ".join(map(_quoted, values))
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            text = _typescript(item)
            return f"readonly {f'({text})' if ' ' in text else text}[]"
        case types.TupleType(item_types=items):
            return f"readonly [{', '.join(map(_typescript, items))}]"
        case types.DictType(value_type=item):
            return f"Readonly<Record<string, {_typescript(item)}>>"
        case types.UnionType(types=members):
            return _union(members)
    raise TypeError(f"{info!r} has no TypeScript form: teach {__name__} to write it.")


def _union(members: Iterable[types.Type]) -> str:
    texts = [_typescript(member) for member in members]
    for name, alias in _UNIONS.items():
        names = [member.__name__ for member in get_args(alias)]
        if set(names) <= set(texts):
            texts = [name, *(text for text in texts if text not in names)]
    return " | ".join(texts)


def _constant(name: str, value: object) -> str:
    match value:
        case re.Pattern(pattern=pattern):
            return f"export const {name} = /^(?:{pattern})$/;\n"
        case tuple():
            items = _filled(", ".join(map(_quoted, value)))
            return f"export const {name} = [{items}] as const;\n"
        case msgspec.Struct():
            return f"export const {name}: {type(value).__name__} = {json.dumps(msgspec.to_builtins(value))};\n"
        case _:
            return f"export const {name} = {json.dumps(value)};\n"


def _attribute_docs(struct: type) -> dict[str, str]:
    """Read the ``Attributes:`` sections of a struct and of its bases."""
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        _, _, section = inspect.cleandoc(base.__dict__.get("__doc__") or "").partition("Attributes:\n")
        name = ""
        for line in section.splitlines():
            if line.startswith("     "):
                docs[name] += " " + line.strip()
            elif line.startswith("    "):
                name, _, text = line.strip().partition(": ")
                docs[name] = text
            elif line.strip():
                break
    return docs


def _comment(doc: str, indent: str) -> list[str]:
    lines = doc.partition("Attributes:\n")[0].strip().replace("``", "`").splitlines()
    if not lines:
        return []
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]


def _one_of(name: str, members: Iterable[str]) -> str:
    return f"export type {name} ={_filled(' | '.join(members), ' ').rstrip()};\n"


def _filled(items: str, before: str = "") -> str:
    """Return items in one line, or in lines of their own."""
    lines = textwrap.indent(textwrap.fill(items, 110, break_on_hyphens=False), "  ")
    return f"\n{lines}\n" if "\n" in lines else before + lines.strip()


def _quoted(value: object) -> str:
    return f'"{value}"'


def main(arguments: list[str]) -> None:
    """Write the file; with ``--check``, only say whether it is what it should be.

    Raises:
        SystemExit: If it is stale.
    """
    if arguments != ["--check"]:
        TARGET.write_text(generate(), encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != generate():
        raise SystemExit(f"{TARGET} is stale: run `{COMMAND}`, or `make types`.")


if __name__ == "__main__":
    main(sys.argv[1:])
