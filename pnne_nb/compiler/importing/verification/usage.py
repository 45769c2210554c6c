"""Finds whether the code of a module only calls its submodules, or uses other attributes of them.

An imported submodule has the same name and the same parts, and does the same when it is called. Its class lacks the
original's attributes and methods: code that uses these needs the original.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from typing import Any

from torch import nn

from pnne_nb.compiler.importing.tracing.interception import MODULES_OWN
from pnne_nb.compiler.importing.tracing.patched_functions import is_torchs

_READS = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR")
_VARIABLES = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")
_NAMES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")


def used_of(module: nn.Module, mentioned: frozenset[str]) -> str:
    """Return the attributes of a module, or of one inside it, that code uses and an import lacks."""
    for each in module.modules():
        kind = type(each)
        if is_torchs(kind):
            continue
        own = {name for name in vars(each) if name not in MODULES_OWN}
        for base in _own_bases(kind):
            own |= {name for name in vars(base) if name != "forward" and not name.startswith("__")} | {base.__name__}
        found = sorted(own & mentioned)
        if found:
            return found[0]
    return ""


def mentioned_by(kind: type[nn.Module]) -> frozenset[str]:
    """Return the names and strings in the ``forward`` of a class and in its callees, without its own attributes.

    Names of keyword arguments end in ``=``.
    """
    found: set[str] = set()
    done: set[int] = set()
    pending = list(_methods(kind, "forward"))
    while pending:
        function = pending.pop()
        if id(function) in done:
            continue
        done.add(id(function))
        names, own = _read(function.__code__)
        found |= names
        for name in own:
            pending += _methods(kind, name)
        for name in names:
            value = function.__globals__.get(name)
            if isinstance(value, types.FunctionType) and _package(value) == _package(function):
                pending.append(value)
            elif isinstance(value, type):
                found.add(value.__name__)  # imported under another name
    return frozenset(found)


def _methods(kind: type, name: str) -> Iterator[types.FunctionType]:
    for base in _own_bases(kind):
        value: Any = vars(base).get(name)
        value = getattr(value, "__func__", getattr(value, "fget", value))
        while hasattr(value, "__wrapped__"):
            if isinstance(value, types.FunctionType):
                yield value
            value = value.__wrapped__
        if isinstance(value, types.FunctionType):
            yield value


def _read(code: types.CodeType, me: str = "") -> tuple[set[str], set[str]]:
    """Return the names and texts in the code of a method, and the names of the attributes that it reads of its object."""
    names: set[str] = set()
    own: set[str] = set()
    me = me or (code.co_varnames[0] if code.co_argcount else "")
    before: dis.Instruction | None = None
    for step in dis.get_instructions(code):
        if step.opname == "STORE_ATTR" and before is not None and before.opname == "SWAP":
            pass  # of `self.count += 1`, which has read it
        elif step.opname in _READS:
            loaded = before.argval if before is not None and before.opname.startswith(_VARIABLES) else None
            is_own = me == (loaded[-1] if isinstance(loaded, tuple) else loaded)  # an instruction may load two
            (own if is_own or step.opname == "LOAD_SUPER_ATTR" else names).add(str(step.argval))
        elif step.opname in _NAMES or (step.opname == "LOAD_CONST" and isinstance(step.argval, str)):
            names.add(str(step.argval))
        before = step if step.opname not in ("CACHE", "COPY", "EXTENDED_ARG", "NOP") else before
    for constant in code.co_consts:
        if isinstance(constant, tuple):  # the names of keyword arguments of a call are one
            names |= {f"{name}=" for name in constant if isinstance(name, str)}
        elif isinstance(constant, types.CodeType):
            inner, inner_own = _read(constant, me)
            names |= inner
            own |= inner_own
    return names, own


def _own_bases(kind: type) -> Iterator[type]:
    return (base for base in kind.__mro__ if not is_torchs(base))


def _package(function: types.FunctionType) -> str:
    return str(function.__globals__.get("__name__", "")).partition(".")[0]
