"""Imports the layers and blocks inside an opaque module, which its own code calls.

The module stays opaque and runs its own code; its submodules become nodes without edges. A submodule becomes a graph
if all calls of it have one form and the code around it only calls it, because its class lacks the original's other
attributes, or if it equals another of its class for which this holds. Any other submodule is itself opaque.
"""

from __future__ import annotations

import dis
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from inspect import getclosurevars
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.catalog.operators import CHECK
from pnne_nb.compiler.importing.draft.describe import BECAUSE
from pnne_nb.compiler.importing.draft.draft import Item, Level, UntranslatableError
from pnne_nb.compiler.importing.draft.layers import described, obstacle
from pnne_nb.compiler.importing.draft.source_lines import module_at, with_line
from pnne_nb.compiler.importing.draft.variable_names import is_possible
from pnne_nb.compiler.importing.tracing.calls import argument_names, named_arguments
from pnne_nb.compiler.importing.tracing.interception import MODULES_OWN
from pnne_nb.compiler.importing.tracing.observed_calls import ObservedCall, ObservedCalls
from pnne_nb.compiler.importing.tracing.patched_functions import is_torchs
from pnne_nb.compiler.importing.translation.emit_ops import (
    UNCALLED,
    assemble,
    class_name,
    class_title,
    legal,
    likeness,
    stored,
)
from pnne_nb.compiler.ir.variables import is_attribute
from pnne_nb.graph.schema.names import free_name

_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
_NO_SIZES = ("ndim", "dtype")
"""Attributes that stay when sizes change."""

_CLOSED = ("Module", "Parameter", "Buffer")

TRIES = 2
"""Attempts to import the content of an opaque module: the second one keeps the code of its blocks."""

Call: TypeAlias = "tuple[list[tuple[str, Any]], int]"
"""Arguments by name, and how many of them are given by position."""


class _Calls(NamedTuple):
    """Every call of a module in the observed run.

    Attributes:
        first: In each mode.
        every: In order.
    """

    first: ObservedCalls
    every: list[ObservedCall]


@final
class OpaqueModules:
    """Imports the submodules of opaque modules.

    Args:
        net: The whole module.
        opaque: Why modules must stay as they are, by path.
        failed: How often a module differed with its content imported, by path.
        frames: An observed call of `net`.
        draw: Imports a module that is called in one form.

    Attributes:
        open: Paths of the opaque modules with imported content.
    """

    def __init__(
        self,
        net: nn.Module,
        opaque: Mapping[str, str],
        failed: Counter[str],
        frames: ObservedCalls,
        draw: Callable[[nn.Module, str, ObservedCalls, Call], Level],
    ) -> None:
        self._modules = dict(net.named_modules(remove_duplicate=False))
        self._places = Counter(map(id, self._modules.values()))
        self._opaque = opaque
        self._failed = failed
        self._calls: dict[str, _Calls] = {}
        self._entered: set[str] = set()
        for mode, frame in frames.items():
            self._collect(mode, frame, frame.path)
        self._draw = draw
        self._levels: dict[str, Level] = {}
        self._inside: dict[str, Level | None] = {}
        self._drafts: dict[str, str] = {}
        self.open: set[str] = set()

    def _collect(self, mode: bool, frame: ObservedCall, caller: str) -> None:
        calls = self._calls.setdefault(frame.path, _Calls({}, []))
        calls.first.setdefault(mode, frame)
        calls.every.append(frame)
        # A caller of `block.layer` that has not called `block` reaches into it.
        above = frame.path.rpartition(".")[0]
        while above and above != caller and not caller.startswith(f"{above}."):
            self._entered.add(above)
            above = above.rpartition(".")[0]
        for inner in frame.inner:
            self._collect(mode, inner, frame.path)

    def inside(
        self, module: nn.Module, path: str, mentioned: frozenset[str] = frozenset(), around: str = ""
    ) -> Level | None:
        """Return the draft of the content of an opaque module; None if nothing can be imported.

        Args:
            module: The module.
            path: The path of the module.
            mentioned: Names in the code of the opaque modules around it.
            around: The place of that code.
        """
        if path not in self._inside:
            level = None
            within = [each for each in module.modules() if each is not module]
            # A drawing would have several copies of a module that is held at several places.
            is_shared = any(self._places[id(each)] > 1 for each in within)
            closed = obstacle(module) or is_shared or _keeps_functions(module)
            if within and self._failed[path] < TRIES and not closed:
                level = self._holding(module, path, mentioned | mentioned_by(type(module)), around)
            self._inside[path] = level if level is not None and _has_open(level) else None
            if self._inside[path] is not None:
                self.open.add(path)
        return self._inside[path]

    def _holding(self, module: nn.Module, path: str, mentioned: frozenset[str], around: str) -> Level | None:
        around = module_at(module) or around
        level = Level(class_title(module), module)
        groups = (module._parameters, module._buffers, module._modules)
        taken = {name for group in groups for name in group}
        for group in groups:
            for name, value in group.items():
                if value is None:
                    continue
                if not is_attribute(name):
                    return None
                below = f"{path}.{name}" if path else name
                if isinstance(value, nn.Module):
                    item = level.add(self._part(value, name, below, mentioned, around))
                else:
                    item = level.add(stored(module, (name,)))
                if not is_possible(name):
                    item.name = free_name(legal(name), taken)
                    taken.add(item.name)
        level.order = {item: index for index, item in enumerate(level.items)}
        return level

    def _part(self, module: nn.Module, name: str, path: str, mentioned: frozenset[str], around: str) -> Item:
        reason = self._opaque.get(path) or obstacle(module)
        called, entered = path in self._calls, path in self._entered or self._failed[path.rpartition(".")[0]] > 0
        kept: dict[str, object] = {"target": class_name(module), "inputs": (), "outputs": ()}
        if not reason:
            if (layer := described(module)) is not None:
                return Item(layer[0], name, layer[1], member=(name,), called=called)
            if type(module) in _CONTAINERS and (entered or not called):
                inner = self._holding(module, path, mentioned, around)
                if inner is not None and inner.items:
                    inner.title = name.capitalize() if not name.isdecimal() else inner.title
                    return Item("Module", name, kept, member=(name,), inner=inner)
            try:
                level = self._called(module, path, mentioned, entered=entered)
            except UntranslatableError as error:
                reason = str(error)
            else:
                return Item("Subgraph", name, member=(name,), inner=level, called=called)
        reason = reason if reason == UNCALLED else with_line(reason, around)
        return Item(
            "Module", name, kept, member=(name,), reason=reason, inner=self.inside(module, path, mentioned, around)
        )

    def _called(self, module: nn.Module, path: str, mentioned: frozenset[str], *, entered: bool) -> Level:
        """Import a module that the code of an opaque module calls."""
        used = used_of(module, mentioned)
        if used:
            raise UntranslatableError(f"the code around it uses more than its results ({used})")
        if entered:
            raise UntranslatableError("the code around it calls what is inside it")
        if path in self._calls:
            self._refuse_unseen(module, self._calls[path], mentioned)
            return self._alone(module, path, self._calls[path])
        for other, calls in self._calls.items():
            if type(self._modules.get(other)) is type(module):
                self._refuse_unseen(module, calls, mentioned)
                like, level = self._alone(self._modules[other], other, calls), self._alone(module, path, calls)
                if self._draft(path, level) == self._draft(other, like):
                    return level
                break
        raise UntranslatableError(UNCALLED)

    @staticmethod
    def _refuse_unseen(module: nn.Module, calls: _Calls, mentioned: frozenset[str]) -> None:
        """Raise if the code around a module names an argument of it that no call has passed yet."""
        passed = {name for name, _ in named_arguments(module, calls.every[0].args, calls.every[0].kwargs)}
        unseen = [name for name in argument_names(module) if name not in passed and f"{name}=" in mentioned]
        if unseen:
            raise UntranslatableError(f"the code around it passes {unseen[0]} in other cases")

    def _draft(self, path: str, level: Level) -> str:
        if path not in self._drafts:
            self._drafts[path] = "".join(likeness(assemble(level)))
        return self._drafts[path]

    def _alone(self, module: nn.Module, path: str, calls: _Calls) -> Level:
        if path not in self._levels:
            if path in self._opaque:
                raise UntranslatableError(self._opaque[path])
            if any(is_dataclass(frame.result) for frame in calls.every):
                raise UntranslatableError("it returns an object of a data class to code that is not imported")
            named = (named_arguments(module, frame.args, frame.kwargs) for frame in calls.every)
            ways = {repr(sorted((name, _kind(value)) for name, value in given)) for given in named}
            if len(ways) > 1:
                raise UntranslatableError("the code around it calls it in different ways")
            frame = calls.every[0]
            given = named_arguments(module, frame.args, frame.kwargs)
            level = self._draw(module, path, calls.first, (given, len(frame.args)))
            if _goes_by_sizes(level):
                raise UntranslatableError("it depends on sizes, which the code around it may change from call to call")
            self._levels[path] = level
        return self._levels[path]


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"tensor of {value.dim()} dimensions, {value.dtype}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of {[_kind(each) for each in value]}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "number"
    return repr(value) if isinstance(value, (str, bool, type(None), torch.dtype)) else type(value).__name__


def _keeps_functions(module: nn.Module) -> bool:
    """Return whether attributes of a module are functions that call modules; a copy would still call the original's."""
    kept = {name: value for name, value in vars(module).items() if name not in MODULES_OWN}
    functions = [leaf for leaf in pytree.tree_leaves(kept) if isinstance(leaf, FunctionType)]
    around = [value for function in functions for value in getclosurevars(function).nonlocals.values()]
    return any(isinstance(each, nn.Module) for each in around)


def _goes_by_sizes(level: Level) -> bool:
    """Return whether an import would refuse tensors of other sizes."""
    for item in level.items:
        if item.inner is not None and _goes_by_sizes(item.inner):
            return True
        if item.type == CHECK:
            if BECAUSE in str(item.properties.get("message")):
                continue  # the module itself stops there
            condition, port = item.inputs["condition"]
            if condition.kinds.get(port, "tensor") == "tensor":
                continue  # it depends on data, as the module itself does
            asked = [source for source, _ in item.inputs["condition"][0].inputs.values()]
            if any(
                each.type not in ("Input", "Constant") and each.properties.get("name") not in _NO_SIZES
                for each in asked
            ):
                return True
    return False


def _has_open(level: Level) -> bool:
    """Return whether an opaque module has content that can be edited."""
    return any(item.type not in _CLOSED or (item.inner is not None and _has_open(item.inner)) for item in level.items)


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
