"""Loads generated source as a class.

This is the only place in the package that executes text, and only text of `compiler.codegen.writer`. A class gets a
real module in ``sys.modules`` and an entry in ``linecache``, so that ``inspect.getsource``, tracebacks,
``torch.export``, ``torch.compile`` and pickling treat it like a class in a file. Equal text gives the same class.
Classes without a living model are dropped, least recently used first.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import nn

from pnne_nb.compiler import generated as parent
from pnne_nb.compiler.codegen.model_document import ModelDocument
from pnne_nb.compiler.codegen.source_map import Generated, NodeLine
from pnne_nb.errors import CompileError
from pnne_nb.process.fork import fork_safe

KEPT = 128
"""Sources without a living model, or part of one, that stay cached."""


@final
class Loaded:
    """A generated class with its module and source.

    Attributes:
        key: Name of its module.
        generated: Its source.
        module: Holds it, and the classes of nested graphs.
        cls: The root class.
        codes: Code objects of the text, class by class.
        instances: Models that are alive, each with its document: shapes may differ where the source is the same.
        parts: Modules of nested graphs that are alive: one may be kept without its model.
        document: The document whose source this was first, if there is one.
    """

    def __init__(
        self, key: str, generated: Generated, module: types.ModuleType, codes: tuple[types.CodeType, ...]
    ) -> None:
        self.key = key
        self.codes = codes
        self.generated = generated
        self.module = module
        self.cls: type[nn.Module] = getattr(module, generated.name)
        self.document: ModelDocument | None = None
        self.instances: weakref.WeakKeyDictionary[nn.Module, ModelDocument | None] = weakref.WeakKeyDictionary()
        self.parts: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def new(self, *opaque: nn.Module, document: ModelDocument | None = None) -> nn.Module:
        """Return a new model of a document, with fresh weights and the given opaque modules."""
        model = self.cls(*opaque)
        self.instances[model] = document
        if len(self.generated.classes) > 1:
            self.parts.update(part for part in model.modules() if type(part).__module__ == self.key)
        return model

    def empty(self, document: ModelDocument, own: type[nn.Module] | None = None) -> nn.Module:
        """Return a model of a document without parameters or submodules, for unpickling."""
        cls = self.cls if own is None else self.module.__dict__["joined"](self.cls, own)
        model: nn.Module = object.__new__(cls)
        self.instances[model] = document
        return model

    def empty_part(self, name: str) -> nn.Module:
        """Return a module of a nested graph, whose class has that name, without parameters or submodules, for unpickling."""
        cls: type[nn.Module] = getattr(self.module, name)
        part = cls.__new__(cls)
        self.parts.add(part)
        return part


OWN_CALLS = "own_calls"
"""Attribute of a model that is itself an imported module: the hooks and the ``forward`` of that module."""

_lock = fork_safe(threading.RLock())
_loaded: OrderedDict[str, Loaded] = OrderedDict()
_codes: weakref.WeakValueDictionary[str, types.CodeType] = weakref.WeakValueDictionary()
"""Code objects of classes by their text, as long as a `Loaded` keeps them: later versions reuse them."""


def load(generated: Generated, objects: Mapping[str, object]) -> Loaded:
    """Return the class of a generated source; equal sources give the same class.

    Args:
        generated: From `compiler.codegen.writer`.
        objects: Registered classes and functions by target.
    """
    names = {name: objects[target] for name, target in generated.imports.items()}
    # Registering another function under the same name gives the same text a new meaning.
    identity = "".join(f"{name}={id(value)};" for name, value in sorted(names.items()))
    digest = hashlib.sha256((identity + generated.text).encode()).hexdigest()[:16]
    key = f"{parent.__name__}.{generated.name.lower()}_{digest}"
    with _lock:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = _make(key, generated, names)
            _forget()
        _loaded.move_to_end(key)
        return found


def find(key: str) -> Loaded | None:
    """Return the class with that key, or with that file name in tracebacks, or None."""
    with _lock:
        return _loaded.get(key.removeprefix("<").removesuffix(">"))


def line_at(filename: str, number: int) -> NodeLine | None:
    """Return the node of a line of generated source; None for other files and lines."""
    loaded = find(filename)
    return None if loaded is None else loaded.generated.lines.get(number)


def loaded_from(model: nn.Module) -> Loaded | None:
    """Return the class that a compiled model is an instance of, or None for other modules."""
    with _lock:
        found = _loaded.get(type(model).__module__)
    return found if found is not None and issubclass(type(model), found.cls) else None


def document_of(model: nn.Module) -> ModelDocument | None:
    """Return the document that a compiled model was made of, or None for other modules."""
    loaded = loaded_from(model)
    return None if loaded is None else loaded.instances.get(model)


def take_place(old: nn.Module, new: nn.Module) -> None:
    """Give a compiled model the class and the document of another one."""
    before, loaded = loaded_from(old), loaded_from(new)
    assert loaded is not None, "it was compiled"
    if before is not None:
        before.instances.pop(old, None)
    object.__setattr__(old, "__class__", type(new))
    loaded.instances[old] = loaded.instances.get(new)


def own_class(model: nn.Module) -> type[nn.Module] | None:
    """Return the class of the imported module that a compiled model itself is an object of, or None."""
    own = getattr(type(model), "own_class", None) if loaded_from(model) is not None else None
    return own if isinstance(own, type) else None


def itself(model: nn.Module) -> nn.Module:
    """Return the imported module that a compiled model is, without the nodes around it; other models as they are.

    It shares everything with the model but the list of its submodules.
    """
    own, loaded = own_class(model), loaded_from(model)
    if own is None or loaded is None:
        return model
    module: nn.Module = object.__new__(own)
    object.__setattr__(module, "__dict__", dict(vars(model)))
    vars(module).update(vars(module).pop(OWN_CALLS))
    for name, value in vars(module).items():
        if isinstance(value, types.MethodType) and value.__self__ is model:
            vars(module)[name] = types.MethodType(value.__func__, module)
    drawn = loaded.generated.drawn
    for kind in ("_parameters", "_buffers", "_modules"):
        vars(module)[kind] = {name: part for name, part in vars(model)[kind].items() if name not in drawn}
    return module


def require(model: object, because: str) -> Loaded:
    """Return the class that a compiled model is an instance of.

    Raises:
        CompileError: If it is none; what it is instead, and what to give.
    """
    found = loaded_from(model) if isinstance(model, nn.Module) else None
    if found is not None:
        return found
    name = type(model).__name__
    if not isinstance(model, nn.Module):
        raise CompileError(
            f"{name} is no model that was compiled from a graph, so {because}. pn.compile(graph) makes one."
        )
    if type(model).__module__ in _loaded:
        raise CompileError(f"{name} is a part of a compiled model, so {because}. Give the whole model.")
    for path, inner in model.named_modules():
        if loaded_from(inner) is not None:
            raise CompileError(
                f"{name} only holds a model that was compiled from a graph, so {because}. Give its {path}."
            )
    raise CompileError(f"{name} was not compiled from a graph, so {because}.")


def _make(key: str, generated: Generated, names: dict[str, Any]) -> Loaded:
    filename = f"<{key}>"
    module = types.ModuleType(key, f"Generated by pnne_nb for the graph of {generated.name}.")
    module.__file__ = filename
    module.__dict__.update({"torch": torch, "nn": nn, "F": F, **names})
    linecache.cache[filename] = (len(generated.text), None, generated.text.splitlines(True), filename)
    parts = [(_code(generated.header), 0)]
    parts += [(_code(section.text), above) for above, section in generated.sections.values()]
    sys.modules[key] = module
    try:
        for code, above in parts:
            exec(_moved(code, filename, above), module.__dict__)  # noqa: S102  # our own text, on validated names only
        for id, (above, _) in generated.sections.items():
            cls = getattr(module, generated.classes[id])
            if hasattr(cls, "__firstlineno__"):  # a constant, in Python 3.13 and later
                cls.__firstlineno__ += above
    except BaseException:
        _discard(key)
        raise
    return Loaded(key, generated, module, tuple(code for code, _ in parts))


def _code(text: str) -> types.CodeType:
    """Return the code of a part of a module; Python reads again only what is new."""
    code = _codes.get(text)
    if code is None:
        code = _codes[text] = compile(text, "<section>", "exec", dont_inherit=True)
    return code


def _moved(code: types.CodeType, filename: str, lines: int) -> types.CodeType:
    """Return code as if it stood that many lines further down in a file; line numbers inside count from its first."""
    inner = (_moved(each, filename, lines) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    first = code.co_firstlineno + lines
    return code.replace(co_filename=filename, co_firstlineno=first, co_consts=tuple(inner))


def _forget() -> None:
    # A few more stay meanwhile: a look at all of them takes as long as it takes to lower a document.
    if len(_loaded) <= KEPT + KEPT // 8:
        return
    idle = [key for key, loaded in _loaded.items() if not loaded.instances and not loaded.parts]
    for key in idle[: max(0, len(idle) - KEPT)]:
        del _loaded[key]
        _discard(key)


def _discard(key: str) -> None:
    sys.modules.pop(key, None)
    linecache.cache.pop(f"<{key}>", None)
