"""Lets generated modules be indexed as the containers that they were drawn from: ``model.layer1[0]``.

What is in a graph with nodes "0", "1", … was in an ``nn.Sequential`` or ``nn.ModuleList``, or could be. The class that
is generated says itself how it calls them, so it is none of these: what is appended to it would never be called.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from pnne_nb.compiler.loader import Loaded
from pnne_nb.compiler.program import Program, Weight
from pnne_nb.compiler.tidying import is_chain


def make_indexable(loaded: Loaded) -> None:
    """Have the classes whose modules are numbered be indexed, sliced and gone through."""
    for id, (_, section) in loaded.generated.sections.items():
        program = section.program
        if not program.holds and _is_numbered(program):
            cls = getattr(loaded.module, loaded.generated.classes[id])
            cls.__getitem__ = _step if is_chain(program) else _item
            cls.__setitem__, cls.__len__, cls.__iter__ = _replace, _length, _items


def _is_numbered(program: Program) -> bool:
    names = [member.name for member in program.members if not isinstance(member, Weight)]
    return bool(names) and names == [str(index) for index in range(len(names))]


def _step(self: nn.Module, index: int | slice) -> nn.Module:
    found = _found(self, index)
    return found if isinstance(found, nn.Module) else nn.Sequential(*found)


def _item(self: nn.Module, index: int | slice) -> nn.Module:
    found = _found(self, index)
    return found if isinstance(found, nn.Module) else nn.ModuleList(found)


def _found(module: nn.Module, index: int | slice) -> nn.Module | list[nn.Module]:
    try:
        return list(_items(module))[index]
    except IndexError:
        raise IndexError(f"index {index} is out of range: there are {_length(module)} modules") from None


def _replace(self: nn.Module, index: int, module: nn.Module) -> None:
    setattr(self, list(self._modules)[index], module)


def _length(self: nn.Module) -> int:
    return len(self._modules)


def _items(self: nn.Module) -> Iterator[nn.Module]:
    return (module for module in self._modules.values() if module is not None)
