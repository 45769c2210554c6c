"""The exception tree and the diagnostic: everything that can be wrong, said in one form.

```
PnneError
├── GraphError(ValueError)              a change to the document was refused
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
├── GraphFileError(ValueError)          a graph file cannot be read
├── ProtocolError(ValueError)           a browser message cannot be read
├── RegistrationError(ValueError)       a node type cannot be registered
├── CompileError(ValueError)            a document cannot become a module
│   └── ShapeError
├── ExecutionError(RuntimeError)        a compiled module failed at a node while running
├── TrainingError(RuntimeError)
│   └── CheckpointError
├── LayerNotFoundError(KeyError)
└── InspectionError(RuntimeError)       a module cannot be looked into
```
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "info"]


class Fix(msgspec.Struct, frozen=True, rename="camel"):
    """A change that would remove a diagnostic: one property set to one value.

    Attributes:
        node: Path of the node to change.
        property: Name of the property.
        value: The JSON form of the value to set (see ``graph.values``).
        label: What a button says, e.g. ``"Set in_features to 400"``.
    """

    node: str
    property: str
    value: object
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
    fix: Fix | None = None

    def __str__(self) -> str:
        where = "" if self.node is None else f"{self.node}{f'.{self.port}' if self.port else ''}: "
        return f"{where}{self.message}{f' {self.hint}' if self.hint else ''}"


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

    def __str__(self) -> str:
        # KeyError, a base of some subclasses, would show the repr of the message.
        return self.message

    def __reduce__(self) -> tuple[type[PnneError], tuple[str, tuple[Diagnostic, ...]]]:
        return type(self), (self.message, self.diagnostics)


class GraphError(PnneError, ValueError):
    """A change to the document was refused; the document is as it was."""


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


class GraphFileError(PnneError, ValueError):
    """A graph file is damaged, hostile, or from a newer version."""


class ProtocolError(PnneError, ValueError):
    """A browser message does not fit the protocol."""


class RegistrationError(PnneError, ValueError):
    """A node type cannot be registered."""


class CompileError(PnneError, ValueError):
    """The document cannot become a module; ``diagnostics`` lists every reason."""


class ShapeError(CompileError):
    """Shapes or dtypes do not fit."""


class ExecutionError(PnneError, RuntimeError):
    """A compiled module failed while running; the message names the node."""


class TrainingError(PnneError, RuntimeError):
    """Training cannot start or go on."""


class CheckpointError(TrainingError):
    """A checkpoint is damaged or does not fit."""


class LayerNotFoundError(PnneError, KeyError):
    """No layer matches the name or pattern."""


class InspectionError(PnneError, RuntimeError):
    """A module cannot be looked into, or there is nothing yet to show."""


def near(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the known names nearest to `name`, or an empty string."""
    candidates = list(known)
    # A name in other capitals is what was meant, more likely than any with other letters.
    matches = [candidate for candidate in candidates if candidate.casefold() == name.casefold()]
    matches += difflib.get_close_matches(name, candidates, n=3, cutoff=0.6)
    if not matches:
        folded = {c.casefold(): c for c in candidates}
        matches = [folded[m] for m in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    if not matches:
        return ""
    matches = list(dict.fromkeys(matches))[:3]
    return f" Did you mean {' or '.join(repr(match) for match in matches)}?"
