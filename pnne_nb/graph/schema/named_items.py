"""Ports and properties of a node type, in their order and by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeVar, overload

from pnne_nb.errors import GraphError, near, shown


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=_HasName)
Default = TypeVar("Default")


class Named(tuple[Item, ...]):
    """A tuple whose items can also be accessed by name: ``spec.properties["stride"]``, ``"stride" in spec.properties``."""

    __slots__ = ()
    _WHAT: ClassVar[str]
    _UNKNOWN: ClassVar[type[GraphError]]

    @overload  # type: ignore[override]  # a name is one more kind of key
    def __getitem__(self, key: int | str, /) -> Item: ...

    @overload
    def __getitem__(self, key: slice, /) -> tuple[Item, ...]: ...

    def __getitem__(self, key: int | slice | str, /) -> Item | tuple[Item, ...]:
        """Return the item at an index or of a name, or the items of a slice.

        Raises:
            IndexError: If there is no such index.
            UnknownPropertyError, UnknownPortError: If there is no such name; they are ``KeyError`` too.
        """
        if not isinstance(key, str):
            return super().__getitem__(key)
        for item in self:
            if item.name == key:
                return item
        names = self.keys()
        listed = f"They are {', '.join(names)}." if names else "There are none."
        raise self._UNKNOWN(f"There is no {self._WHAT} {shown(key)}.{near(key, names)} {listed}")

    def __contains__(self, item: object) -> bool:
        return any(each.name == item for each in self) if isinstance(item, str) else super().__contains__(item)

    @overload
    def get(self, name: str, /) -> Item | None: ...

    @overload
    def get(self, name: str, default: Default, /) -> Item | Default: ...

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the item of that name, or `default`."""
        return next((each for each in self if each.name == name), default)

    def keys(self) -> tuple[str, ...]:
        """Return the names, in their order."""
        return tuple(each.name for each in self)

    def values(self) -> tuple[Item, ...]:
        """Return the items, in their order."""
        return tuple(self)

    def items(self) -> Iterator[tuple[str, Item]]:
        """Return pairs of a name and its item."""
        return ((each.name, each) for each in self)
