"""The program that a document is lowered to: calls in order, bound to their arguments, as frozen values.

A `Program` is one definition: the members that its class constructs and the calls that its ``forward`` makes.
`compiler.lowering.lower` makes programs, `compiler.codegen.writer` writes them, passes turn them into other programs.
They are trees, which is why Python's collector of cycles need not look at their parts (``gc=False``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from pnne_nb.graph.schema.spec import Returns

Inside: TypeAlias = tuple[str, ...]
"""Names of the contexts that a node runs in, the outermost first (autocast, no_grad)."""

NOWHERE: Inside = ()


class Ref(msgspec.Struct, frozen=True, gc=False):
    """The value at an output port of a node of the same definition."""

    node: str
    port: str


class Constant(msgspec.Struct, frozen=True, gc=False):
    """A constant of ``graph.schema.values``."""

    value: object


class Mode(msgspec.Struct, frozen=True, gc=False):
    """The training mode of the module that makes the call: ``self.training``."""


class Sequence(msgspec.Struct, frozen=True, gc=False):
    """A list of arguments: the tensors of ``torch.cat``."""

    items: tuple[Argument, ...]


class Construction(msgspec.Struct, frozen=True, gc=False):
    """A constructor call of a class of the catalogue.

    Attributes:
        target: Dotted name of the class.
        arguments: By position.
        keywords: By name.
    """

    target: str
    arguments: tuple[Argument, ...] = ()
    keywords: tuple[tuple[str, Argument], ...] = ()


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """A parameter or buffer of the class: ``self.scale``."""

    name: str


class Given(msgspec.Struct, frozen=True, gc=False):
    """An argument of the constructor of the generated class."""

    name: str


Argument: TypeAlias = "Ref | Constant | Mode | Attribute | Sequence | Construction | Given | Call"
"""A call is an argument only in the readable form; in the form that runs, each has a line of its own."""


class Layer(msgspec.Struct, frozen=True, gc=False):
    """A submodule whose class is in the catalogue.

    Attributes:
        device: Where it is put; None leaves it where it is made. The same holds for every submodule.
    """

    name: str
    construction: Construction
    device: str | None = None


class Nested(msgspec.Struct, frozen=True, gc=False):
    """A submodule whose class is generated, with its constructor arguments."""

    name: str
    definition: str
    device: str | None = None
    arguments: tuple[tuple[str, Argument], ...] = ()


class Chain(msgspec.Struct, frozen=True, gc=False):
    """A submodule that is an ``nn.Sequential``."""

    name: str
    members: tuple[Member, ...]
    device: str | None = None


class Opaque(msgspec.Struct, frozen=True, gc=False):
    """A submodule that the constructor receives, because no class of the catalogue makes it.

    Attributes:
        kind: Qualified name of its class, for a person to read.
        reason: Why it is kept as it is.
        definition: Definition of its parameters, buffers and submodules, if they are in the document.
    """

    name: str
    device: str | None = None
    kind: str = ""
    reason: str = ""
    definition: str = ""


class Weight(msgspec.Struct, frozen=True, gc=False):
    """A parameter or buffer that belongs to the class itself.

    Attributes:
        name: Attribute that holds it.
        shape: Its sizes.
        dtype: Name of its element type.
        init: How it is filled, as the structural types say: ``"zeros"``, ``"normal"`` …
        mean: Of what ``"normal"`` draws.
        std: Standard deviation of that.
        trained: Whether it is an ``nn.Parameter``.
        requires_grad: Of a parameter.
        persistent: Whether a buffer is part of ``state_dict``.
        values: Its elements as nested tuples, instead of `init`.
        absent: Whether its values are those of the imported module, and too many for the document to keep.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    init: str
    trained: bool
    requires_grad: bool = True
    persistent: bool = True
    values: object = None
    mean: float = 0.0
    std: float = 1.0
    absent: bool = False


Member: TypeAlias = "Layer | Nested | Chain | Opaque | Weight"


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call in ``forward``, made by one node.

    Attributes:
        node: Name of the node.
        kind: ``"member"``: call of a submodule; ``"function"``: of a torch function; ``"method"``: of a
            method of the first argument.
        target: Name of the member, dotted name of the function, or name of the method.
        arguments: By position; for a method, the first one is the object.
        keywords: By name.
        results: How the result is taken apart, by output port.
        single: Whether the result is one value rather than a tuple.
        again: Whether training computes a member's call again for the backward pass instead of keeping what is
            inside: ``"plain"``, or ``"restored"``, after which its buffers are put back, for they count once.
        variables: Names that the author gives its results, by output port, where known.
        inside: The contexts that it runs in.
    """

    node: str
    kind: Literal["member", "function", "method"]
    target: str
    arguments: tuple[Argument, ...] = ()
    keywords: tuple[tuple[str, Argument], ...] = ()
    results: Returns = ("output",)
    single: bool = True
    again: Literal["", "plain", "restored"] = ""
    variables: tuple[tuple[str, str], ...] = ()
    inside: Inside = NOWHERE


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An argument of ``forward``.

    Attributes:
        node: Name of the Input node.
        tensor: Whether it is known to be a tensor.
    """

    node: str
    tensor: bool = True


class Result(msgspec.Struct, frozen=True, gc=False):
    """A result of ``forward``: the value at an Output node.

    Attributes:
        node: Name of the Output node.
        value: What arrives there.
        tensor: Whether it is known to be a tensor, or where it is `optional`, a tensor or None.
        optional: Whether it may be None, as attention weights that nobody asks for.
    """

    node: str
    value: Argument
    tensor: bool = True
    optional: bool = False


Holder: TypeAlias = Literal["", "Module", "ModuleList", "ModuleDict", "Sequential"]


class Program(msgspec.Struct, frozen=True, dict=True):  # dict: for what is derived once from the fields
    """One definition, lowered.

    Attributes:
        definition: Its id; ``""`` is the document's outermost graph.
        members: In the order of the nodes, which is the order of ``state_dict``.
        entries: Arguments of ``forward``, in the order of the Input nodes.
        calls: In an order in which every value is made before it is used.
        results: In the order of the Output nodes; several are returned as a tuple.
        parameters: Arguments of the constructor: name, type in words, and default or None.
        ties: Tied tensors, by their paths: the second replaces the first.
        frozen: Paths of modules whose parameters are not trained.
        still: Paths of modules that stay in eval mode while the model trains.
        sizes: Named sizes in the constructor: what is assigned, and the calculation that it is made of.
        form: How the class is written: ``"chain"`` as an ``nn.Sequential``, ``"list"`` as a list of its members,
            ``"loop"`` as one whose members do the same one after the other.
        holds: Of the content of an opaque module, which has no ``forward``: its torch class.
        whole: Name of the member that an object of the class itself is, with that member's class and attributes.
    """

    definition: str
    members: tuple[Member, ...]
    entries: tuple[Entry, ...]
    calls: tuple[Call, ...]
    results: tuple[Result, ...]
    parameters: tuple[tuple[str, str, Constant | None], ...] = ()
    sizes: tuple[tuple[str, str], ...] = ()
    ties: tuple[tuple[str, str], ...] = ()
    frozen: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    form: Literal["", "chain", "list", "loop"] = ""
    holds: Holder = ""
    whole: str = ""

    @functools.cached_property
    def blocks(self) -> tuple[Nested | Opaque, ...]:
        """The members that are modules of other classes than torch's."""
        return tuple([member for member in self.members if isinstance(member, (Nested, Opaque))])

    def below(self, member: str, path: str = "") -> str:
        """Return the path of a member in an object of the class, or a path inside the member."""
        return ".".join(name for name in (member if member != self.whole else "", path) if name)


class Unit(msgspec.Struct, frozen=True, dict=True):  # dict: for what is derived once from the fields
    """A whole document, lowered.

    Attributes:
        name: The document's name; the root class is named after it.
        programs: By definition, a definition before those that use it, the root (``""``) last.
        objects: Registered classes and functions, by targets outside ``torch``.
    """

    name: str
    programs: dict[str, Program]
    objects: dict[str, object] = {}

    @property
    def root(self) -> Program:
        """The outermost graph."""
        return self.programs[""]

    @functools.cached_property
    def boxes(self) -> tuple[str, ...]:
        """Paths of opaque modules that run their own code on nodes of the document, outer ones first."""
        return self._paths(
            lambda program: (each.name for each in program.blocks if isinstance(each, Opaque) and each.definition)
        )

    @functools.cached_property
    def frozen(self) -> tuple[str, ...]:
        """Paths of the modules and parameters that are not trained."""
        return self._paths(
            lambda program: (*program.frozen, *(each.name for each in program.members if _is_frozen(each)))
        )

    @functools.cached_property
    def still(self) -> tuple[str, ...]:
        """Paths of the modules that stay in eval mode."""
        return self._paths(lambda program: program.still)

    def _paths(self, own: Callable[[Program], Iterable[str]]) -> tuple[str, ...]:
        """Return the paths that are `own` to each program, from the outermost graph."""
        inside: dict[str, list[str]] = {}
        for program in self.programs.values():
            found = inside[program.definition] = [program.below(path) for path in own(program)]
            for member in program.blocks:
                if member.definition:
                    found += [program.below(member.name, path) for path in inside[member.definition]]
        return tuple(inside[""])

    @functools.cached_property
    def devices(self) -> dict[str, str]:
        """Devices of submodules, by path, outer ones first."""
        inside: dict[str, dict[str, str]] = {}
        for program in self.programs.values():
            found = inside[program.definition] = {}
            for member in program.members:
                if not isinstance(member, Weight) and member.device is not None:
                    found[program.below(member.name)] = member.device
                if isinstance(member, (Nested, Opaque)) and member.definition:
                    inner = inside[member.definition]
                    found.update((program.below(member.name, path), device) for path, device in inner.items())
        return inside[""]


def ports_in(results: Returns) -> Iterator[str]:
    """Yield the output ports of a result, however it is taken apart."""
    for item in results:
        if isinstance(item, str):
            yield item
        else:
            yield from ports_in(item)


def references(call: Call) -> Iterator[Ref]:
    """Yield the values that a call reads, as often as it reads them."""
    for argument in call.arguments:
        if type(argument) is Ref:  # what most are
            yield argument
        else:
            yield from references_in(argument)
    for _, argument in call.keywords:
        yield from references_in(argument)


def references_in(argument: Argument) -> Iterator[Ref]:
    """Yield the values that an argument reads."""
    match argument:
        case Ref():
            yield argument
        case Sequence(items):
            for item in items:
                yield from references_in(item)
        case Call():
            yield from references(argument)


def nested_in(call: Call) -> Iterator[str]:
    """Yield the nodes whose calls are arguments of a call."""
    pending: list[Argument] = [*call.arguments, *(value for _, value in call.keywords)]
    while pending:
        match pending.pop():
            case Call() as inner:
                yield inner.node
                pending += [*inner.arguments, *(value for _, value in inner.keywords)]
            case Sequence(items):
                pending += items


def runs_alike(one: Program, other: Program) -> bool:
    """Return whether two programs have the same ``forward``: what their members are made of is another thing."""
    return (
        len(one.calls) == len(other.calls)
        # repr tells 1 from 1.0 and True.
        and all(was is now or repr(was) == repr(now) for was, now in zip(one.calls, other.calls, strict=True))
        and [member.name for member in one.members] == [member.name for member in other.members]
        and (one.entries, one.results, one.form) == (other.entries, other.results, other.form)
        and (one.holds, one.whole) == (other.holds, other.whole)
    )


def _is_frozen(member: Member) -> bool:
    return isinstance(member, Weight) and member.trained and not member.requires_grad
