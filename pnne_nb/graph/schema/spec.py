"""Defines node types: one `NodeSpec` each, from which everything else is derived.

Palette entry, property form, lint rule, lowering and generated source all read the same spec.
A spec is plain data except `NodeSpec.torch`, which this room only stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Protocol, TypeAlias, TypeVar, overload

import msgspec

from pnne_nb.errors import GraphError, UnknownPortError, UnknownPropertyError, near, no_attribute, shown
from pnne_nb.graph.schema.property_types import PropertyType, admits, describe, range_of
from pnne_nb.graph.schema.values import Value
from pnne_nb.habits import Habits


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


PortKind: TypeAlias = Literal[
    "tensor", "value", "dataset", "loader", "model", "parameters", "loss", "optimizer", "scheduler", "metric"
]
"""The kind of value on an edge. ``"value"`` is any Python value of a forward pass (a size, a tuple). It fits ``"tensor"``,
and both fit ``"loss"``; the other kinds fit only themselves."""

NodeKind: TypeAlias = Literal["module", "function", "method", "structural", "training"]


class Required(msgspec.Struct, frozen=True):
    """The default of a property without a default."""


REQUIRED = Required()

AUTO = "auto"
"""The value of a property that shape inference determines."""


class Port(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One place where an edge can end (input) or start (output).

    Attributes:
        name: Name of the argument of ``forward`` or of the function; outputs are named
            ``"output"`` or as torch's documentation names them (``"h_n"``).
        kind: The kind of its values.
        optional: Whether an input may stay unconnected.
        variadic: Whether an input takes any number of edges, addressed as ``name_0``, ``name_1`` …
        dtypes: The element types that an input accepts; checked during shape inference.
        when: Name of the property that an output depends on: the output exists only while that property
            differs from its default (``"return_indices"`` of a pooling). Empty: it always exists.
        doc: One sentence.
    """

    name: str
    kind: PortKind = "tensor"
    optional: bool = False
    variadic: bool = False
    dtypes: Literal["any", "floating", "integer"] = "any"
    when: str = ""
    doc: str = ""


class Property(msgspec.Struct, frozen=True, rename="camel"):
    """One value that a person may type in.

    Attributes:
        name: Name of the argument.
        type: The values that it takes.
        default: Its default, or `REQUIRED`.
        role: ``"init"`` is an argument of the constructor; ``"call"`` one of the call, which may be
            wired instead of typed (a port of the same name, hidden until wired, unless `NodeSpec.inputs`
            lists it); ``"node"`` belongs to the node itself (``shares``, ``device`` …).
        doc: One or two sentences from torch's docstring.
    """

    name: str
    type: PropertyType
    default: Value | Required = REQUIRED
    role: Literal["init", "call", "node"] = "init"
    doc: str = ""

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return isinstance(self.default, Required)

    @property
    def range(self) -> tuple[float | None, float | None] | None:
        """The smallest and the largest number that it takes, each None if unbounded; None if it takes no numbers."""
        return range_of(self.type)


class Ports(Named[Port]):
    """Ports of one side of a node type."""

    __slots__ = ()
    _WHAT = "port"
    _UNKNOWN = UnknownPortError


class Properties(Named[Property]):
    """Properties of a node type."""

    __slots__ = ()
    _WHAT = "property"
    _UNKNOWN = UnknownPropertyError


class Part(msgspec.Struct, frozen=True):
    """A constructor argument that is itself a module, built from properties of the same node.

    ``TransformerEncoder(encoder_layer=TransformerEncoderLayer(d_model=…), num_layers=6)`` is one node; its
    ``encoder_layer`` is a part.

    Attributes:
        argument: Name of the constructor argument.
        target: Dotted name of the part's class.
        properties: Pairs (argument of the part's class, property of the node).
        when: Name of a boolean property: the part is passed only while it is true. Empty: always.
    """

    argument: str
    target: str
    properties: tuple[tuple[str, str], ...]
    when: str = ""


Returns: TypeAlias = tuple["str | Returns", ...]


class NodeSpec(msgspec.Struct, frozen=True, dict=True):  # dict: for values that are derived once from the fields
    """One node type.

    Attributes:
        type: The name in documents, torch's own: ``"Conv2d"``, ``"add"``.
        category: Heading in the palette, e.g. ``"Convolution"``.
        kind: How it is lowered. ``"module"``: a submodule, constructed from the ``init`` properties and
            called on the inputs. ``"function"``: a call of `target`. ``"method"``: a method of its first
            input. ``"structural"`` and ``"training"`` types have their own rules.
        target: Dotted name that generated source uses: ``"torch.nn.Conv2d"``, ``"torch.cat"``,
            ``"view"`` for a method, ``""`` for structural types.
        inputs: Ports that are always shown, in the order of the call; by name too, ``spec.inputs["input"]``.
        outputs: Ports; several mean that the call returns a tuple, in this order. By name too.
        properties: In the order of the signature; by name too, ``spec.properties["stride"].default``.
        positional: Names of the call's arguments, ports and ``call`` properties alike, that may be passed
            by position, in that order; arguments after a gap, and all others, are passed by keyword. A
            leading ``*`` marks a variadic port whose tensors are spread instead of passed as one list.
        returns: Output names of a nested result: ``("output", ("h_n", "c_n"))``.
            Empty: the outputs themselves are the flat tuple, or the single value, that the call returns.
        parts: Constructor arguments that are modules themselves; their properties are no constructor
            arguments of `target`.
        doc: Summary from torch's docstring, plain text, first paragraph.
        url: Page of the torch documentation, or an empty string.
        torch: The class or function that the type stands for; None for structural types.
    """

    type: str
    category: str
    kind: NodeKind
    target: str = ""
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    properties: tuple[Property, ...] = ()
    positional: tuple[str, ...] = ()
    returns: Returns = ()
    parts: tuple[Part, ...] = ()
    doc: str = ""
    url: str = ""
    torch: object = None

    def __post_init__(self) -> None:
        # Specs are written with plain tuples.
        msgspec.structs.force_setattr(self, "inputs", Ports(self.inputs))
        msgspec.structs.force_setattr(self, "outputs", Ports(self.outputs))
        msgspec.structs.force_setattr(self, "properties", Properties(self.properties))

    def __repr__(self) -> str:
        values = [
            prop.name if prop.required else f"{prop.name}={prop.default!r}"
            for prop in self.properties
            if prop.role != "node"
        ]
        given = f"; {', '.join(values)}" if values else ""
        return f"NodeSpec({self.type}: {self._flow}{given})"

    if not TYPE_CHECKING:  # for a type checker, a type would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, Habits("spec"))

    def _repr_html_(self) -> str:
        cell = "<td style='text-align:left'>"
        rows = "".join(
            f"<tr>{cell}{escape(prop.name)}</td>{cell}{'' if prop.required else escape(repr(prop.default))}</td>"
            f"{cell}{escape(describe(prop.type))}</td>{cell}{escape(prop.doc)}</td></tr>"
            for prop in self.properties
        )
        table = (
            f"<table><tr><th>property</th><th>default</th><th>value</th><th></th></tr>{rows}</table>" if rows else ""
        )
        return f"<b>{escape(self.type)}</b> ({escape(self.category)}): {escape(self._flow)}<p>{escape(self.doc)}</p>{table}"

    @property
    def _flow(self) -> str:
        """The names of the inputs and of the outputs."""
        return " → ".join(", ".join(port.name for port in side) or "()" for side in (self.inputs, self.outputs))

    def property_named(self, name: str) -> Property | None:
        """Return the property of that name, or None."""
        return self._by_name.get(name)

    @cached_property
    def required(self) -> tuple[Property, ...]:
        """The properties that must be given."""
        return tuple(prop for prop in self.properties if prop.required)

    @cached_property
    def passed(self) -> tuple[Property, ...]:
        """The properties that are arguments of the call."""
        return tuple(prop for prop in self.properties if prop.role == "call")

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the call."""
        return tuple(port.name for port in self.inputs)

    @cached_property
    def wired_inputs(self) -> tuple[str, ...] | None:
        """The names of the inputs if nothing else is passed to the call, and they by position; otherwise None."""
        names = self.input_names
        plain = not self.passed and not any(port.variadic for port in self.inputs)
        return names if plain and self.positional in ((), names) else None

    @cached_property
    def inferable(self) -> tuple[Property, ...]:
        """The properties of the constructor that may be `AUTO`."""
        return tuple(prop for prop in self.properties if prop.role == "init" and admits(prop.type, AUTO))

    @cached_property
    def _by_name(self) -> dict[str, Property]:
        return {prop.name: prop for prop in self.properties}

    @cached_property
    def _outputs_vary(self) -> bool:
        return any(port.when for port in self.outputs)

    @cached_property
    def _taken_apart(self) -> tuple[Returns, bool]:
        names: Returns = self.returns or tuple(port.name for port in self.outputs)
        return names, not self.returns and len(names) == 1

    def input_named(self, name: str) -> Port | None:
        """Return the input port that `name` addresses, or None.

        ``"tensors_3"`` addresses the variadic port ``"tensors"``; a ``call`` property is a port too.
        """
        for port in self.inputs:
            if port.variadic:
                stem, _, index = name.rpartition("_")
                if stem == port.name and index.isdecimal() and (index == "0" or index[0] != "0"):
                    return port
            elif port.name == name:
                return port
        prop = self.property_named(name)
        if prop is not None and prop.role == "call":
            return Port(name=name, kind="value", optional=not prop.required, doc=prop.doc)
        return None

    def present_outputs(self, properties: Mapping[str, Value]) -> tuple[Port, ...]:
        """Return the outputs that exist with these explicitly set property values (see `Port.when`)."""
        if not self._outputs_vary:
            return self.outputs
        return tuple(port for port in self.outputs if not port.when or self._differs(port.when, properties))

    def taken_apart(self, properties: Mapping[str, Value]) -> tuple[Returns, bool]:
        """Return the output names of a call, nested as its result is, and whether the result is one value."""
        if self.returns or not self._outputs_vary:
            return self._taken_apart
        names = tuple(port.name for port in self.present_outputs(properties))
        return names, len(names) == 1

    def _differs(self, name: str, properties: Mapping[str, Value]) -> bool:
        prop = self.property_named(name)
        return prop is not None and name in properties and properties[name] != prop.default

    def output_named(self, name: str) -> Port | None:
        """Return the output port of that name, or None."""
        return next((port for port in self.outputs if port.name == name), None)


def kinds_fit(source: PortKind, target: PortKind) -> bool:
    """Return whether an edge may run from a port of kind `source` to one of kind `target`."""
    forward = ("tensor", "value")
    return source == target or (source in forward and target in (*forward, "loss"))
