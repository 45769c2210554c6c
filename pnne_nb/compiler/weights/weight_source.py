"""Where the weights of a document are, for every function that takes a graph.

A graph file holds no weights. A document that was imported, loaded from a package, given weights (`pn.load_weights`) or
trained knows beside its content which module has them: weakly, unless nobody else keeps it. Who uses a model takes the
`latest` of these, who trains one what the document was `given`, so that two trainings with one seed are equal.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from torch import Tensor, nn

from pnne_nb.compiler.weights.rename_log import all_paths, former_paths, remember, track_of
from pnne_nb.compiler.weights.reuse import former_path
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OwnWeights

Role: TypeAlias = Literal["given", "trained", "shown"]
"""Who has the weights: what the document came with, a training of it, or the editor that shows it."""

Purpose: TypeAlias = Literal["make", "train", "run", "show", "look"]
"""What a model is for. To run it or to show it in an editor takes the latest weights: those of a training first. To make or
train one begins with those that the document came with, so that doing it twice gives the same."""

Hold: TypeAlias = Callable[[], AbstractContextManager[nn.Module | None]]
"""Gives a block that has a module to itself, to read it; None if the module is gone."""


Reuse: TypeAlias = "nn.Module | Mapping[str, Tensor] | str | Path | OwnWeights | None"
"""Whose weights to take: a module's, a ``state_dict``'s, those of a file, the graph's own; None: fresh ones."""


class Source(msgspec.Struct, frozen=True):
    """One place where a document's weights are.

    Attributes:
        said: The place in words, to follow "those of".
        hold: Gives the module.
    """

    said: str
    hold: Hold


class Weights(NamedTuple):
    """What a model is made with.

    Attributes:
        module: A module whose tensors are taken, or None for fresh ones.
        said: Whose they are; empty for fresh ones.
        lost: Why there is no module, though there was one, to follow "because".
        role: Who has them, or had them.
        later: Who has later ones, which do not count for the purpose.
    """

    module: nn.Module | None = None
    said: str = ""
    lost: str = ""
    role: Role | None = None
    later: str = ""


def keep_given(graph: NodeGraph, model: nn.Module, said: str, *, strongly: bool = False) -> None:
    """Remember that a document came with the weights of a module; what was trained before is no longer the latest.

    Args:
        graph: The document.
        model: Has the weights under the names of the nodes.
        said: Whose they are, to follow "those of".
        strongly: Whether nobody else keeps the module.
    """
    remember(model, graph)
    hold = (lambda: nullcontext(model)) if strongly else weakly(model)
    track_of(graph).sources = {"given": Source(said, hold)}


def keep_latest(graph: NodeGraph, role: Role, said: str, hold: Hold) -> None:
    """Remember that a training or an editor of a document has weights of it."""
    track_of(graph).sources[role] = Source(said, hold)


def weakly(module: nn.Module) -> Hold:
    """Return what gives a module as long as somebody else keeps it."""
    found = weakref.ref(module)
    return lambda: nullcontext(found())


def given(graph: NodeGraph) -> Source | None:
    """Return where the weights are that a document came with, or None."""
    return track_of(graph).sources.get("given")


@contextmanager
def own_weights(graph: NodeGraph, purpose: Purpose) -> Iterator[Weights]:
    """Yield the weights that belong to a document; they may be read in this block.

    Args:
        graph: The document.
        purpose: What they are for.
    """
    sources = track_of(graph).sources
    roles: tuple[Role, ...] = ("trained", "shown", "given")
    if purpose == "train":
        roles = ("given",)
    elif purpose == "make" and "given" in sources:
        roles = ("shown", "given")
    later = sources["trained"].said if "trained" in sources and "trained" not in roles else ""
    for role in roles:
        if role not in sources:
            continue
        source = sources[role]
        with source.hold() as module:
            if module is not None:
                yield Weights(module, source.said, role=role, later=later)
                return
        if role != "shown":  # an editor that was closed has had no weights that nobody else keeps
            yield Weights(lost=f"{source.said} is gone", role=role)
            return
    yield Weights()


def inherit(part: NodeGraph, whole: NodeGraph, block: str = "") -> None:
    """Let a document that was made of the nodes of another know the weights that the other was given.

    Args:
        part: The new document.
        whole: The other.
        block: The node of `whole` whose inside it is; empty if its nodes have the same paths.
    """
    part.tables = whole.tables
    source = given(whole)
    if source is None:
        return
    track_of(part).sources = {"given": source}
    with source.hold() as module:
        if module is not None:
            former = former_paths(whole, module)
            above = f"{block}." if block else ""
            remember(module, part, {path: former_path(f"{above}{path}", former) for path in all_paths(part)})
