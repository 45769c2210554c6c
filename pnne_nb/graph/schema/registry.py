"""Holds the set of node types; ``pnne_nb`` installs the functions that fill it from torch on first use.

A document can therefore be opened without importing torch, and a document of structural nodes can be edited without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar, final, overload

import msgspec

from pnne_nb.errors import RegistrationError, UnknownTypeError, shown
from pnne_nb.graph.schema.habits import instead_of
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import CALL_PROPERTIES, STRUCTURAL
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.subscribers import Subscribers

_Default = TypeVar("_Default")
Provider = Callable[[], Iterable[NodeSpec]]
Finder = Callable[[str], NodeSpec | None]
Reader = Callable[[object], "tuple[str, Mapping[str, object]] | None"]


@final
class Registry(Mapping[str, NodeSpec]):
    """A mapping from type name to `NodeSpec`, loaded on first use, open to registration."""

    def __init__(self, specs: Iterable[NodeSpec] = ()) -> None:
        self._specs: dict[str, NodeSpec] = {spec.type: spec for spec in specs}
        self._providers: list[Provider] = []
        self._finder: Finder | None = None
        self._reader: Reader | None = None
        self._found: dict[str, NodeSpec] = {}
        self._observers = Subscribers[Callable[[NodeSpec], None]]()
        self._lock = fork_safe(threading.RLock())
        self._revision = 0

    @property
    def revision(self) -> int:
        """A number that rises with every change of the set of types."""
        with self._lock:
            self._loaded()
            return self._revision

    def provide(self, provider: Provider, finder: Finder | None = None, reader: Reader | None = None) -> None:
        """Install the functions that know torch.

        Args:
            provider: Returns the listed types; called once, at the first lookup of any type.
            finder: Returns a type that is not listed by its name. A registered type of that name comes first.
            reader: Returns the type and the properties of a layer.
        """
        with self._lock:
            self._providers.append(provider)
            self._finder, self._reader = finder or self._finder, reader or self._reader

    def of_layer(self, layer: object) -> tuple[str, Mapping[str, object]] | None:
        """Return the type and the properties of a layer, or None if it is of no type."""
        return None if self._reader is None else self._reader(layer)

    def listed(self, type: str) -> NodeSpec | None:
        """Return the spec of a type that is listed or registered, or None."""
        return self._loaded().get(type)

    def register(self, spec: NodeSpec, *, replace: bool = False) -> None:
        """Add a type.

        Raises:
            RegistrationError: If the name is taken and `replace` is False.
        """
        known = self.listed(spec.type)
        if known is not None and not replace:
            raise RegistrationError(
                f"A node type named {spec.type!r} already exists in category {known.category!r}. Give yours another "
                "name, or pass replace=True."
            )
        if not self.exchange(known, spec):
            self.register(spec, replace=replace)

    def exchange(self, known: NodeSpec | None, spec: NodeSpec) -> bool:
        """Add a type in the place of the `known` one, or of none, and return True; False if another thread was quicker."""
        with self._lock:
            if self.listed(spec.type) is not known:
                return False
            spec = self._specs[spec.type] = _whole(spec)
            self._revision += 1
        for observer in self._observers:
            observer(spec)
        return True

    def observe(self, observer: Callable[[NodeSpec], None]) -> Callable[[], None]:
        """Call `observer` with each type registered from now on; return a function that ends this."""
        return self._observers.add(observer)

    def _loaded(self) -> dict[str, NodeSpec]:
        with self._lock:
            while self._providers:
                # Popped only after it has succeeded: a failed import is reported again.
                for spec in self._providers[0]():
                    self._specs.setdefault(spec.type, _whole(spec))
                self._providers.pop(0)
                self._revision += 1
            return self._specs

    def __getitem__(self, type: str) -> NodeSpec:
        """Return the spec of a type.

        Raises:
            UnknownTypeError: If there is none; near names are suggested.
        """
        return require_type(self, type)

    @overload
    def get(self, type: object, /) -> NodeSpec | None: ...

    @overload
    def get(self, type: object, /, default: _Default) -> NodeSpec | _Default: ...

    def get(self, type: object, /, default: object = None) -> object:
        """Return the spec of a type, or `default`; called for every node, so a known type is returned without a lock."""
        if not isinstance(type, str):
            return default
        found = self._specs.get(type) or self._loaded().get(type) or self._unlisted(type)
        return default if found is None else found

    def _unlisted(self, type: str) -> NodeSpec | None:
        with self._lock:
            if self._finder is None:
                return None
            if type in self._found:
                return self._found[type]
            found = self._finder(type)
            if found is None:
                return None
            spec = self._found[type] = _whole(found)
            self._revision += 1
        for observer in self._observers:
            observer(spec)
        return spec

    def __contains__(self, type: object) -> bool:
        return self.get(type) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(tuple({**self._loaded(), **self._found}))

    def __len__(self) -> int:
        return len({**self._loaded(), **self._found})


def _whole(spec: NodeSpec) -> NodeSpec:
    """Return a spec with the properties that every call has."""
    if spec.kind not in ("function", "method"):
        return spec
    missing = tuple(prop for prop in CALL_PROPERTIES if spec.property_named(prop.name) is None)
    return msgspec.structs.replace(spec, properties=(*spec.properties, *missing)) if missing else spec


def require_type(types: Mapping[str, NodeSpec], name: object) -> NodeSpec:
    """Return the spec of a type.

    Raises:
        UnknownTypeError: If it is not among `types`; near names are suggested.
    """
    spec = types.get(name) if isinstance(name, str) else None
    if spec is None:
        # Nobody who writes "nn.Conv2d" means another type than "Conv2d".
        meant = name.rpartition(".")[2] if isinstance(name, str) else name
        raise UnknownTypeError(
            f"There is no node type {shown(name)}.{instead_of(meant, types)} "
            "pn.catalog lists all of them; pn.register_node adds your own."
        )
    return spec


registry = Registry(STRUCTURAL)
"""The process-wide set of node types."""
