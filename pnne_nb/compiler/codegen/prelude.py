"""Helper functions that generated source defines before its classes, where the classes need them."""

from __future__ import annotations

import inspect
import re

from pnne_nb.catalog.operators import check_structure

CHECKPOINTED = '''

@contextmanager
def restored(module: nn.Module):
    """Restore a module's buffers after recomputation: statistics count each batch once."""
    kept = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.copy_(value)


def checkpointed(module: nn.Module, *args, **kwargs):
    """Call a module, and recompute it in the backward pass instead of storing its activations."""
    # torch.compile takes care of buffers itself.
    extra = {} if torch.compiler.is_compiling() else {"context_fn": lambda: (nullcontext(), restored(module))}
    return torch.utils.checkpoint.checkpoint(module, *args, use_reentrant=False, **extra, **kwargs)
'''.splitlines()
"""Part of source whose checkpointed nodes have buffers."""

REMADE = '''

def remade(kind: type, attributes: dict):
    """Return an object of a class with the given attributes, without calling its constructor."""
    made = kind() if kind.__module__ == "types" else object.__new__(kind)
    vars(made).update(attributes)
    return made
'''.splitlines()
"""Part of source that makes objects of plain classes, such as caches of keys."""

STRUCTURED = ["", "", *re.sub(": Any|  # type: ignore.*", "", inspect.getsource(check_structure)).splitlines()]
"""Part of source that checks the structure of arguments: what runs is what a document's node does."""

EQUIPPED = '''

def equipped(module: nn.Module, parts: nn.Module) -> nn.Module:
    """Return a copy of a module whose own code runs on the given submodules and tensors."""
    old, new = (
        dict([*each.named_modules(), *each.named_parameters(), *each.named_buffers()]) for each in (module, parts)
    )
    made = copy.deepcopy(module, {id(part): new[path] for path, part in old.items() if path and path in new})
    for kind in ("_parameters", "_buffers", "_modules"):
        absent = {name: None for name, part in vars(module)[kind].items() if part is None}
        vars(made)[kind] = {**absent, **vars(parts)[kind]}
    vars(made)["_non_persistent_buffers_set"] = set(parts._non_persistent_buffers_set)
    return made
'''.splitlines()
"""Part of source with modules that run their own code."""

CALLED = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook", "forward",
)  # fmt: skip
"""Attributes of a module that determine what a call of it does."""

_NAMES = "".join(f'    "{name}",\n' for name in CALLED)

WHOLE = (
    f"""

CALLED = (
{_NAMES})
""".splitlines()
    + '''

@functools.cache
def joined(drawn: type[nn.Module], own: type[nn.Module]) -> type[nn.Module]:
    """Return a subclass of both classes, whose objects are called as the generated one."""
    names = {"own_class": own, "called_class": apart(own), "__call__": drawn.__call__, "__module__": drawn.__module__}
    return type(own)(drawn.__name__, (drawn, own), names)


def apart(own: type[nn.Module]) -> type[nn.Module]:
    """Return the class of modules that keep their hooks and their forward in `own_calls`."""

    def kept(name: str) -> property:
        def get(module: nn.Module):
            found = vars(module).get("own_calls", {}).get(name, {})
            if name == "forward" and not found:
                return super(called, module).forward
            is_bound = getattr(getattr(found, "__self__", None), "__dict__", None) is vars(module)
            return found.__func__.__get__(module) if is_bound else found

        return property(get, lambda module, value: vars(module).setdefault("own_calls", {}).update({name: value}))

    def call(module: nn.Module, *args, **kwargs):
        if own.__call__ is nn.Module.__call__ and not any(vars(module).get("own_calls", {}).values()):
            return super(called, module).forward(*args, **kwargs)
        return own.__call__(module, *args, **kwargs)

    names = {"__module__": own.__module__, "__call__": call, **{name: kept(name) for name in CALLED}}
    called = type(own)(own.__name__, (own,), names)
    return called


def become(model: nn.Module, module: nn.Module) -> None:
    """Turn a model into a module: with its class, attributes, submodules and tensors."""
    model.__class__ = joined(type(model), type(module))
    parts = [*module.modules(), *module.parameters(), *module.buffers()]
    own = copy.deepcopy(vars(module), {**{id(part): part for part in parts}, id(module): model})
    # Its hooks are called around its own forward, and not around all that is drawn.
    calls = {name: own.pop(name) for name in CALLED if name in own}
    vars(model).update({**own, "own_calls": calls})


def itself(model: nn.Module) -> nn.Module:
    """Return the module that a model has become, whose calls of itself run its own forward."""
    module = object.__new__(model.called_class)
    object.__setattr__(module, "__dict__", vars(model))
    return module
'''.splitlines()
)
"""Part of source of a model that is itself a module that the graph keeps as it is."""
