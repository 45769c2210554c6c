"""Python identifiers for generated source, and replacements for names that are none."""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Container

from pnne_nb.errors import CompileError
from pnne_nb.graph.schema.names import MAX_LENGTH

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
