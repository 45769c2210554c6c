"""The exceptions of the package, and `Diagnostic`.

```
PnneError
├── ArgumentError(TypeError, ValueError)  an argument has the wrong type or value
├── GraphError(ValueError)              a change to the document was refused
│   ├── UnknownFrameError(KeyError)
│   ├── UnknownGraphError(KeyError)
│   ├── UnknownNodeError(KeyError)
│   ├── UnknownTypeError(KeyError)
│   ├── UnknownPropertyError(KeyError)
│   ├── BadValueError
│   ├── NameTakenError / IllegalNameError
│   ├── UnknownPortError(KeyError)
│   ├── PortTakenError
│   ├── KindMismatchError
│   ├── CycleError
│   └── StaleVersionError
├── GraphFileError(ValueError)          a graph file is damaged, hostile, or from a newer version
│   └── GraphFileAccessError(OSError)   it cannot be opened or written
│       └── GraphFileNotFoundError(FileNotFoundError)
├── ProtocolError(ValueError)           a browser message cannot be read
├── RegistrationError(ValueError)       a node type cannot be registered
├── CompileError(ValueError)            a document cannot become a module
│   ├── ShapeError
│   └── PassError                       a pass cannot do what was asked of it
├── ExportError(RuntimeError)           a model cannot be written to a file for another runtime, or such a file not opened
├── ExecutionError(RuntimeError)        a compiled module failed at a node while running
├── TrainingError(RuntimeError)
│   ├── CheckpointError
│   ├── TargetError(ValueError, IndexError)  a loss cannot compare outputs and targets
│   └── UnknownSeriesError(KeyError)
├── LayerNotFoundError(KeyError)
└── InspectionError(RuntimeError)       a module cannot be inspected
```
"""

from __future__ import annotations

import difflib
import dis
import functools
import inspect
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, ParamSpec, TypeVar

import msgspec

from pnne_nb.habits import FUNCTIONS

Severity = Literal["error", "warning", "info"]


class Fix(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag="set"):
    """A change that would remove a diagnostic: one property set to one value.

    Attributes:
        node: Path of the node to change.
        property: Name of the property.
        value: The JSON form of the value to set (see ``graph.schema.values``).
        label: What a button says, e.g. ``"Set in_features to 400"``.
    """

    node: str
    property: str
    value: object
    label: str


class Retype(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag="retype"):
    """A change that would remove a diagnostic: another type for a node, which keeps its edges and the values it can keep.

    Attributes:
        node: Path of the node to change.
        type: Its new type.
        label: What a button says, e.g. ``"Change pool to MaxPool2d"``.
    """

    node: str
    type: str
    label: str


class Diagnostic(msgspec.Struct, frozen=True, rename="camel"):
    """One finding about the document, shown as a badge at its node.

    Attributes:
        code: Stable machine name in kebab case, e.g. ``"unconnected-input"``.
        message: What is wrong and why, in one or two sentences.
        node: Path of the node as on screen (``"layer1.conv1"``), or None for the whole graph.
        port: Name of the port at that node, or None.
        hint: What to do about it.
        severity: ``"error"`` keeps the graph from compiling.
        fix: A one-click repair, where one is known.
    """

    code: str
    message: str
    node: str | None = None
    port: str | None = None
    hint: str | None = None
    severity: Severity = "error"
    fix: Fix | Retype | None = None

    def __str__(self) -> str:
        where = "" if self.node is None else f"{self.node}{f'.{self.port}' if self.port else ''}: "
        return f"{where}{self.message}{f' {self.hint}' if self.hint else ''}"


@functools.cache
def meanings() -> dict[str, dict[str, str]]:
    """Return what each code of a `Diagnostic` means in general: its ``"cause"``, and its ``"repair"``."""
    return tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))


class PnneError(Exception):
    """Root of every exception that this package raises on purpose.

    Args:
        message: What, where, why and what to do.
        diagnostics: The findings behind the message, if there are several or they have a place.
    """

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        if isinstance(self, CompileError | ExportError | TrainingError):  # whose findings have codes
            known = [code for code in dict.fromkeys(each.code for each in self.diagnostics) if code in meanings()]
            for code in known[:3]:
                self.add_note(f'pn.explain("{code}") says more.')

    def __str__(self) -> str:
        # KeyError, a base of some subclasses, would show the repr of the message.
        return self.message

    def __reduce__(self) -> tuple[type[PnneError], tuple[str, tuple[Diagnostic, ...]]]:
        return type(self), (self.message, self.diagnostics)


Faulty = TypeVar("Faulty", bound=PnneError)


class ArgumentError(PnneError, TypeError, ValueError):
    """An argument has the wrong type or value, such as a number instead of a graph."""


class GraphError(PnneError, ValueError):
    """A change to the document was refused; the document is as it was."""


class UnknownFrameError(GraphError, KeyError):
    """No frame of that name exists at that place."""


class UnknownGraphError(GraphError, KeyError):
    """The document has no definition of that name."""


class UnknownNodeError(GraphError, KeyError):
    """No node of that name exists at that place."""


class UnknownTypeError(GraphError, KeyError):
    """The catalogue has no node type of that name."""


class UnknownPropertyError(GraphError, KeyError):
    """The node's type has no property of that name."""


class BadValueError(GraphError):
    """A property value has the wrong type or lies outside its range."""


class NameTakenError(GraphError):
    """Another node already has that name."""


class IllegalNameError(GraphError):
    """The name cannot become an attribute of an ``nn.Module``."""


class UnknownPortError(GraphError, KeyError):
    """The node has no port of that name."""


class PortTakenError(GraphError):
    """An input port accepts one edge, and already has one."""


class KindMismatchError(GraphError):
    """The two ports carry different kinds of things, e.g. a dataset and a tensor."""


class CycleError(GraphError):
    """The edge would close a loop."""


class StaleVersionError(GraphError):
    """The change was made against a version of the document that no longer exists."""


class GraphChangedError(PnneError, AssertionError, ValueError):
    """A document is not what its test expects."""


class GraphFileError(PnneError, ValueError):
    """A graph file is damaged, hostile, or from a newer version."""


class GraphFileAccessError(GraphFileError, OSError):
    """A graph file cannot be opened or written."""


class GraphFileNotFoundError(GraphFileAccessError, FileNotFoundError):
    """There is no such graph file."""


class ProtocolError(PnneError, ValueError):
    """A browser message does not fit the protocol."""


class RegistrationError(PnneError, ValueError):
    """A node type cannot be registered."""


class CompileError(PnneError, ValueError):
    """The document cannot become a module; ``diagnostics`` lists every reason."""


class ShapeError(CompileError):
    """Shapes or dtypes do not fit."""


class PassError(CompileError):
    """A pass cannot do what was asked of it; the document is as it was."""


class ExportError(PnneError, RuntimeError):
    """A model cannot be exported, or an exported file cannot be opened; ``diagnostics`` names the nodes."""


class ExecutionError(PnneError, RuntimeError):
    """A compiled module failed while running; the message names the node."""


class TrainingError(PnneError, RuntimeError):
    """Training cannot start or continue."""


class CheckpointError(TrainingError):
    """A checkpoint is damaged or does not fit."""


class TargetError(TrainingError, ValueError, IndexError):
    """A loss cannot compare the model's output with the targets of the data."""


class UnknownSeriesError(TrainingError, KeyError):
    """The history has no measurements of that name."""


class LayerNotFoundError(PnneError, KeyError):
    """No layer matches the name or pattern."""


class InspectionError(PnneError, RuntimeError):
    """A module cannot be inspected, or there is no result yet."""


LONGEST = 80
"""Characters of a value that messages show."""


def shown(value: object, longest: int = LONGEST) -> str:
    """Return a shortened repr of a user's value for a message, or its type if the repr has several lines; never raises."""
    kind = f"a {type(value).__name__}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a number of thousands of digits, or whatever a foreign class raises
        return kind
    if "\n" in text:
        return kind
    return text if len(text) <= longest else f"{text[: longest - 3]}…"


def expect(value: object, kind: type | tuple[type, ...] | UnionType, name: str, what: str, hint: str = "") -> None:
    """Raise an error for an argument of another type.

    Args:
        value: What was given.
        kind: Of which type it must be.
        name: Of the argument.
        what: It must be, in words: ``"a NodeGraph"``.
        hint: A sentence on what to do.

    Raises:
        ArgumentError: If it is of another type.
    """
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} must be {what}, not {shown(value)}.{f' {hint}' if hint else ''}")


Function = TypeVar("Function", bound=Callable[..., Any])


def registers(keep: Callable[[Function], object], what: str) -> Callable[[Function], Function]:
    """Return a decorator that hands a function to `keep`, and leaves it as it is.

    Args:
        keep: Registers the function.
        what: What the function does, for the message: ``"takes the model"``.

    Raises:
        ArgumentError: By the decorator, if what it decorates cannot be called.
    """

    def decorate(function: Function) -> Function:
        if not callable(function):
            raise ArgumentError(f"Register a function that {what}: {shown(function)} cannot be called.")
        keep(function)
        return function

    return decorate


def choose(value: object, choices: Sequence[str], name: str) -> None:
    """Raise an error for an argument that is not one of a few strings.

    Raises:
        ArgumentError: If it is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(
            f"{name} cannot be {shown(value)}.{near(value, choices)} It is one of {', '.join(map(repr, choices))}."
        )


def together(faults: Sequence[Faulty]) -> Faulty:
    """Combine `faults` to one error of the class of the first."""
    if len(faults) == 1:
        return faults[0]
    lines = "".join(f"\n  {fault}" for fault in faults)
    found = [finding for fault in faults for finding in fault.diagnostics]
    return type(faults[0])(f"{len(faults)} things are wrong:{lines}", found)


_EMPTY: Final = frozenset("a all as at by do for from get is it last my of on save set the to with".split())
"""Words that say nothing alone."""


def meant(name: object, known: Iterable[str], *tables: Mapping[str, str]) -> str:
    """Return ``" Write …"`` of a table, or ``" Did you mean 'x'?"``; "" if nothing is near.

    A name is looked up apart from capitals and underscores, and then the longest run of its words that is a known name or
    one in a table: ``rename_layer`` is ``rename``, ``per_device_train_batch_size`` is ``batch_size``. What is left are
    names with nearly the same letters.

    Args:
        name: What was written.
        known: The names that there are.
        tables: What to write, by name in other libraries; the first one counts, also before a known name.
    """
    if not isinstance(name, str) or len(name) > LONGEST:
        return ""
    own = list(known)
    answers = {"".join(words(key)): answer for table in reversed(tables) for key, answer in table.items()}
    first = {"".join(words(key)) for table in tables[:1] for key in table}
    names = {"".join(words(each)): each for each in own}
    parts = words(name)
    runs = sorted(
        ((start, end) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)),
        key=lambda run: (run[0] - run[1], "".join(parts[slice(*run)]) not in names, run[0]),
    )
    is_typo = bool(difflib.get_close_matches(name, own, n=1, cutoff=0.85))
    for start, end in runs:
        run = parts[start:end]
        if is_typo and len(run) < len(parts):
            break  # ``kernal_size`` is not ``size``
        if len(parts) > 1 and run[0] in _EMPTY and len(run) == 1:
            continue
        plain = "".join(run)
        if plain in names and plain not in first:
            return f" Did you mean {names[plain]!r}?"
        if plain in answers:
            return f" Write {answers[plain]}."
    return near(name, own)


def asked_further(frame: FrameType, name: str) -> list[str]:
    """Return what a line asks of an attribute `name` that is not there, last first: of ``pn.utils.data.split`` split and data."""
    after = (each for each in dis.get_instructions(frame.f_code) if each.offset >= frame.f_lasti)
    asked = [each.argval for each in itertools.takewhile(lambda each: each.opname in _ATTRIBUTES, after)]
    return asked[:0:-1] if asked[:1] == [name] else []


_ATTRIBUTES: Final = ("LOAD_ATTR", "LOAD_METHOD")


def words(name: str) -> list[str]:
    """Return the words of a name in lower case: ``NeuralNetClassifier`` and ``neural_net_classifier`` have the same."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def near(name: object, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the known names nearest to `name`, or an empty string."""
    if not isinstance(name, str) or len(name) > LONGEST:
        return ""
    candidates = list(known)
    # A name in other capitals is what was meant, more likely than any with other letters.
    matches = [candidate for candidate in candidates if candidate.casefold() == name.casefold()]
    matches += difflib.get_close_matches(name, candidates, n=3, cutoff=0.6)
    if not matches:
        folded = {c.casefold(): c for c in candidates}
        matches = [folded[m] for m in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    matches = list(dict.fromkeys(matches))[:3]
    return f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""


def no_attribute(owner: object, name: str, elsewhere: Mapping[str, str]) -> AttributeError:
    """Return the error for an attribute that `owner` lacks, with its replacement.

    Args:
        owner: The object that was asked.
        name: The attribute. Of names with an underscore, which protocols ask for, only the absence is reported.
        elsewhere: The line to write, by what other libraries call it.
    """
    message = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if isinstance(owner, type):
        message = f"type object {owner.__name__!r} has no attribute {name!r}"
    if name.startswith("_") and name not in elsewhere:
        return AttributeError(message)
    answer = meant(name, (known for known in dir(owner) if known[0] != "_"), elsewhere, FUNCTIONS)
    return AttributeError(f"{message}.{answer}" if answer else message)


class AnswersNames(type):
    """The class of a class that answers a name which it lacks with the line to write, one of its `_elsewhere`."""

    _elsewhere: Mapping[str, str] = {}

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __getattr__(cls, name: str) -> NoReturn:
            raise no_attribute(cls, name, cls._elsewhere)


class Room(ModuleType):
    """A package of this one, which answers ``pn.inspector(net)`` as a name that it lacks."""

    if not TYPE_CHECKING:  # for a type checker, the module would then have any attribute

        def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
            answer = meant(self.__name__.rpartition(".")[2], (), FUNCTIONS)
            raise TypeError(f"{self.__name__} is a module, not a function.{answer}")

        def __getattr__(self, name: str) -> NoReturn:
            answer = "" if name.startswith("_") else f".{meant(name, (), FUNCTIONS)}"
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{answer}")


def require_settable(owner: object, name: str, elsewhere: Mapping[str, str]) -> None:
    """Refuse to set an attribute where nobody would read it: ``engine.lr = 0.1`` would change nothing.

    What a class declares may be set once, by its constructor. A class derived from one that is final has attributes of
    its own.

    Args:
        owner: The object whose attribute is set.
        name: The attribute; private ones are the object's own.
        elsewhere: The line to write, by name.

    Raises:
        AttributeError: If it is neither declared nor a property that can be set.
    """
    if name.startswith("_") or "__final__" not in vars(type(owner)):
        return
    known = getattr(type(owner), name, None)
    if isinstance(known, property) and known.fset is not None:
        return
    declared = any(name in getattr(cls, "__annotations__", {}) for cls in type(owner).__mro__)
    if declared and name not in vars(owner):
        return
    message = f"{name!r} of a {type(owner).__name__} cannot be set"
    if not declared and known is None:
        message = f"{type(owner).__name__!r} object has no attribute {name!r}, so setting it would change nothing"
    raise AttributeError(f"{message}.{meant(name, (), elsewhere)}")


def usage_of(function: Callable[..., object]) -> str:
    """Return a call of a public function with the arguments that it needs: ``pn.compare(run_a, run_b)``."""
    parameters = inspect.signature(function).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return f"pn.{function.__name__}({', '.join(needed)})"


P = ParamSpec("P")
R = TypeVar("R")


def answers_misuse(
    usage: str, elsewhere: Mapping[str, str] | None = None, /, **further: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function answer a wrong call with its correct form.

    Args:
        usage: A call that works.
        elsewhere: What to write, by names that its arguments have in other libraries.
        further: More of these.
    """
    table = {**(elsewhere or {}), **further}

    def answering(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        known = [name for name in signature.parameters if name != "self"]
        is_method = "self" in signature.parameters
        owner = usage.partition("(")[0]
        takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                answers: dict[str, list[str]] = {}
                for name in () if takes_any else (name for name in kwargs if name not in known):
                    answer = meant(name, known, table) or f" Write {usage}."
                    answers.setdefault(answer, []).append(repr(name))
                said = [
                    f"{owner} has no argument {' and no '.join(sorted(names))}.{answer}"
                    for answer, names in answers.items()
                ]
                raise ArgumentError(" ".join(said) or f"{owner}: {error}. Write {usage}.") from None
            if is_method and args and not hasattr(args[0], function.__name__):
                raise ArgumentError(
                    f"{owner} was called on the class, with {shown(args[0])} as the object. Write {usage}."
                )
            return function(*args, **kwargs)

        return checked

    return answering
