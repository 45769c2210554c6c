"""Where the weights of a document are, for every function that takes a graph.

A graph file holds no weights. A document that was imported, loaded from a package, given weights (`pn.load_weights`) or
trained knows beside its content which module has them. It keeps the module that it came with, since often nobody else does, and
those of trainings and editors weakly. Who uses a model takes the latest of these, who trains one what the document was
`given`, so that two trainings with one seed are equal.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from torch import Tensor, nn

from pnne_nb.compiler.codegen.loader import Loaded
from pnne_nb.compiler.ir.snapshot import GraphSnapshot
from pnne_nb.compiler.shapes.infer import failure
from pnne_nb.compiler.weights.rename_log import all_paths, former_paths, new_paths, remember, track_of
from pnne_nb.compiler.weights.reuse import former_path
from pnne_nb.errors import CompileError, Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OwnWeights
from pnne_nb.graph.model.node import Node

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


def keep_given(graph: NodeGraph, model: nn.Module, said: str) -> None:
    """Keep the module that a document came with, for its weights; what was trained before is no longer the latest.

    Args:
        graph: The document.
        model: Has the weights under the names of the nodes.
        said: Whose they are, to follow "those of".
    """
    remember(model, graph)
    track_of(graph).sources = {"given": Source(said, lambda: nullcontext(model))}


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
    """Yield the weights that belong to a document; they may be read in this block."""
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


_PACKAGE = str(Path(__file__).parents[2])

_BUFFER = "The document does not contain the values of this buffer: it keeps only those of small buffers."
_DRAWN = (
    "The document does not contain the values of this parameter, nor how the imported module's own code draws them: "
    "it is drawn from a normal distribution with the mean and the standard deviation of the imported values."
)
_ZERO = "The document does not contain the values of this parameter: it starts at zero."


def require_values(
    graph: NodeGraph, loaded: Loaded, model: nn.Module, carried: Collection[str], *, warns: bool, why: str = ""
) -> None:
    """Say which tensors of an imported graph have no values, because the document does not keep them.

    Args:
        graph: The document.
        loaded: Its class.
        model: A new model of it.
        carried: Names of the tensors that have values.
        warns: Whether to warn of those that ``load_state_dict`` could give.
        why: Why the file beside the graph file has not the values of fixed tables.

    Raises:
        CompileError: If ``load_state_dict`` could not give them either.
    """
    generated = loaded.generated
    names = {generated.classes[id]: absent for id, absent in generated.absent.items()}
    keys = model.state_dict().keys()
    missing = [
        f"{path}.{name}" if path else name
        for path, module in model.named_modules(remove_duplicate=False)
        for name in names.get(type(module).__name__, ())
        if type(module).__module__ == loaded.module.__name__
    ]
    missing = [path for path in missing if path not in carried]
    trained = dict(model.named_parameters(remove_duplicate=False))
    alike: dict[tuple[str, bool], list[str]] = {}
    for path in missing:
        parameter = trained.get(path)
        is_drawn = parameter is not None and (parameter.is_meta or bool(parameter.detach().any()))
        start = _BUFFER if parameter is None else _DRAWN if is_drawn else _ZERO
        alike.setdefault((start, path in keys), []).append(path)
    found = [
        Diagnostic(
            code="absent-values",
            message=f"{start} {why if start is not _DRAWN else ''}".rstrip()
            + (f" The same holds for {_listed(paths[1:])}." if len(paths) > 1 else ""),
            node=paths[0],
            severity="warning" if is_loadable else "error",
            hint="Pass the model that has it: pn.compile(graph, reuse=model)"
            + (", or load a state_dict." if is_loadable else "."),
        )
        for (start, is_loadable), paths in alike.items()
    ]
    if any(diagnostic.severity == "error" for diagnostic in found):
        raise failure(graph.name, found)
    for diagnostic in found if warns else ():
        tell(str(diagnostic))


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def warn_of_lost(
    graph: NodeGraph, model: nn.Module, afresh: Collection[str], source: nn.Module, taken: Collection[str]
) -> None:
    """Say which weights of a model that the document does not know may belong to nodes that have other names."""
    # A layer that both have may have got or lost a bias on purpose.
    had = {name for name, _ in source.named_modules()} if afresh else set()
    missing = [name for name in afresh if _owner(name) not in had]
    unused = [(name, each) for name, each in source.named_parameters() if name not in taken] if missing else []
    left = [(name, each.shape) for name, each in unused if _owner(name) not in graph]
    pairs: list[tuple[str, str]] = []
    for name in missing if left else ():
        like = (name.rpartition(".")[2], model.get_parameter(name).shape)
        other = next((old for old, shape in left if (old.rpartition(".")[2], shape) == like), None)
        if other is not None:
            left.remove((other, like[1]))
            pairs.append((name, other))
    new = new_paths(graph) if pairs else set()
    lost = [pair for pair in pairs if not any(pair[0] == path or pair[0].startswith(f"{path}.") for path in new)]
    if lost:
        more = f" There are {len(lost) - 1} more such weights." if len(lost) > 1 else ""
        tell(
            f"{graph.name}: {lost[0][0]} is newly initialised, although {lost[0][1]} of the reused model has the same "
            f"shape.{more} Renamed and moved nodes are tracked from the time when their graph was loaded or "
            "imported, not before. Give both the same names, or reuse a model that was "
            "compiled from this graph."
        )


def layers_of(
    graph: NodeGraph, names: Iterable[str], snapshots: Mapping[str, GraphSnapshot] | None = None, *, every: bool = True
) -> list[str]:
    """Return the paths of the nodes that have weights of these names.

    Unless `every` one is wanted, those of imported nodes whose values are not in the document.
    """
    if not every and not any(node.origin for each in (snapshots or {}).values() for node in each.nodes.values()):
        return []
    found: dict[str, None] = {}
    for name in names:
        around = [path for path in accumulate(name.split("."), "{}.{}".format) if path in graph]
        if around and (every or _is_lost([graph[path] for path in around])):
            found[around[-1]] = None
    return list(found)


def _is_lost(around: list[Node]) -> bool:
    """Return whether the values of a node, the last of the path `around` it, are those of an import and nowhere else."""
    origin = around[-1].origin
    if around[-1].type in ("Parameter", "Buffer") and origin is not None:
        return bool(around[-1].absent)
    return any(node.origin is not None for node in around)


def lost_text(graph: NodeGraph, layers: list[str], because: str, tables: str = "") -> str:
    """Return the sentence that names layers whose weights are gone, and what to write; then why fixed tables are."""
    because = because or "a graph file holds none"
    return (
        f"{graph.name}: the weights of {_listed(layers)} are not there, because {because}. Give them: "
        f'pn.compile(graph, reuse=net), or pn.load_weights(graph, "weights.safetensors"); reuse=None asks for fresh ones.'
        f" {tables}".rstrip()
    )


def refused(graph: NodeGraph, layers: list[str], because: str, tables: str = "") -> CompileError:
    """Return the error for a model that would be used with random weights in place of those that are gone."""
    message = lost_text(graph, layers, because, tables)
    return CompileError(
        message, [Diagnostic(code="lost-weights", message="Its weights are gone.", node=path) for path in layers]
    )


def tell(message: str) -> None:
    """Warn whoever has called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _owner(tensor: str) -> str:
    return tensor.rpartition(".")[0]
