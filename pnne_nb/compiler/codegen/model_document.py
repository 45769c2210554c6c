"""`ModelDocument`: the document that a model was compiled from, with shapes; it checks what a call is given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import torch

from pnne_nb.graph import storage
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.storage import DocumentState

AGAIN = "import again with such a call"
"""Words of the advice for a call that differs from that of the imported module in what it gives."""


class Expected(NamedTuple):
    """One argument of a model, as its Input node declares it.

    Attributes:
        name: Of the Input node, and of the argument.
        shape: Sizes: numbers, and names for those that vary; None if it need not be a tensor.
        dtype: Name of the element type.
        imported: Whether it is an argument of the module that the document was imported from.
        omitted: Names of the arguments that this module may be given too, of which the document knows nothing.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: str
    imported: bool = False
    omitted: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.shape is None:
            return self.name
        sizes = ", ".join(map(str, self.shape))
        return f"{self.name} ({sizes}{',' if len(self.shape) == 1 else ''}) {self.dtype}"


def inputs_of(nodes: Iterable[Node]) -> tuple[Expected, ...]:
    """Return what the Input nodes among the outermost nodes of a document declare."""
    found = []
    for node in nodes:
        if node.type == "Input":
            shape, dtype = node.properties.get("shape"), str(node.properties.get("dtype", "float32"))
            sizes = tuple(size for size in shape if isinstance(size, (int, str))) if isinstance(shape, tuple) else None
            origin = node.origin
            omitted = origin.omitted if origin is not None else ()
            found.append(Expected(node.name, sizes, dtype, origin is not None, omitted))
    return tuple(found)


def misfits(
    expected: Sequence[Expected],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    home: torch.device | None,
    floats: torch.dtype | None,
) -> Iterator[str]:
    """Yield a sentence for each argument of a call that does not match its Input node.

    `home` and `floats` are the device of the model's tensors and the element type of those with floating-point numbers;
    None if there are several.
    """
    known: dict[str, int] = {}
    given = {**dict(zip((each.name for each in expected), args, strict=False)), **kwargs}
    if len(args) > len(expected) or any(each.name not in given for each in expected) or len(given) > len(expected):
        yield f"The model takes {', '.join(map(str, expected)) or 'no arguments'}.{_other_call(expected, args, given)}"
        return
    for each in expected:
        value = given[each.name]
        if each.shape is None:
            continue
        if not isinstance(value, torch.Tensor):
            kind = "None" if value is None else f"a {type(value).__name__}"
            hint = "" if value is None else ": torch.as_tensor makes one of numbers and arrays"
            hint = f"; {AGAIN}" if value is None and each.imported else hint
            yield f"Input {each.name!r} expects a tensor, and was given {kind}{hint}."
        elif not _fits(value.shape, each.shape, known):
            lacks_batch = value.dim() > 0 and _fits(value.shape, each.shape[1:], dict(known))
            alone = f" A single example needs a batch axis: {each.name}[None]." if lacks_batch else ""
            yield f"Input {each.name!r} expects {each}, and was given {tuple(value.shape)}.{alone}"
        elif value.is_floating_point() != getattr(torch, each.dtype).is_floating_point:
            kind = str(value.dtype).removeprefix("torch.")
            yield f"Input {each.name!r} expects {each.dtype}, and was given {kind}: convert it with .to(torch.{each.dtype})."
        elif floats is not None and value.is_floating_point() and value.dtype != floats:
            types = (str(each).removeprefix("torch.") for each in (value.dtype, floats))
            yield "Input {!r} is {}, and the model {}: convert one of them with .to(...).".format(each.name, *types)
        elif home is not None and value.device != home:
            yield f"Input {each.name!r} is on {value.device}, and the model on {home}: move one of them with .to(...)."


def _other_call(expected: Sequence[Expected], args: Sequence[Any], given: Mapping[str, Any]) -> str:
    """Return what a call leaves out or gives that the call of the imported module did not, and what to do."""
    if not any(each.imported for each in expected):
        return ""
    names = [each.name for each in expected]
    further = [name for each in expected for name in each.omitted if name not in given]
    count = max(0, len(args) - len(expected))
    more = [
        *further[:count],
        *(f"argument {len(args)}" for _ in range(len(further), count)),
        *(n for n in given if n not in names),
    ]
    less = [name for name in names if name not in given]
    said = [f"gives {', '.join(more)}"] if more else []
    said += [f"leaves out {', '.join(less)}"] if less else []
    call = "pn.from_module(net, args=(...), kwargs={...})"
    return f" It was imported from a call with {', '.join(names)}, and this one {' and '.join(said)}: {AGAIN}, {call}."


def _fits(actual: Sequence[int], wanted: Sequence[int | str], known: dict[str, int]) -> bool:
    """Return whether sizes are the declared ones; a symbol has one size wherever it occurs."""
    return len(actual) == len(wanted) and all(
        size == (want if isinstance(want, int) else known.setdefault(want, size))
        for size, want in zip(actual, wanted, strict=True)
    )


@final
class ModelDocument:
    """A document at the time of a compilation. Nothing of it is made before it is needed."""

    def __init__(self, state: Callable[[], DocumentState]) -> None:
        self._state = state

    @classmethod
    def of_text(cls, text: str) -> ModelDocument:
        """Return the document of a graph file."""
        return cls(lambda: NodeGraph.from_json(text).state())

    @functools.cached_property
    def state(self) -> DocumentState:
        """Its content."""
        return self._state()

    @functools.cached_property
    def text(self) -> str:
        """Its graph file."""
        return storage.write(self.state)

    @functools.cached_property
    def expected(self) -> tuple[Expected, ...]:
        """What its Input nodes declare."""
        return inputs_of(self.graph().nodes.values())

    def graph(self) -> NodeGraph:
        """Return it as a document of its own."""
        return NodeGraph.from_json(self.text)
