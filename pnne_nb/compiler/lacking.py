"""What a model that was made anew has not got, and is said to whoever made it: values, and weights of lost nodes."""

from __future__ import annotations

import warnings
from collections.abc import Collection

from torch import nn

from pnne_nb.compiler.loader import Loaded
from pnne_nb.compiler.renaming import new_paths
from pnne_nb.compiler.shapes import failure
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph


def require_values(graph: NodeGraph, loaded: Loaded, model: nn.Module, carried: Collection[str]) -> None:
    """Say which buffers of an imported graph have no values, because they were too many for the document.

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
    message = "The values of this buffer are not in the document, which keeps those of small ones."
    found = [
        Diagnostic(
            code="absent-values",
            message=message,
            node=path,
            severity="warning" if path in keys else "error",
            hint="Pass the model that has it: pn.compile(graph, reuse=model)"
            + (", or load a state_dict." if path in keys else "."),
        )
        for path in missing
    ]
    if any(diagnostic.severity == "error" for diagnostic in found):
        raise failure(graph.name, found)
    for diagnostic in found:
        warnings.warn(str(diagnostic), stacklevel=4)


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
        warnings.warn(
            f"{graph.name}: {lost[0][0]} begins afresh, and {lost[0][1]} of the model that is reused, which is like it, "
            f"is not taken.{more} Nodes that were renamed or moved are followed from when their graph was loaded or "
            "imported; what was done before that is not known. Give both the same names, or reuse a model that was "
            "compiled from this graph.",
            stacklevel=4,
        )


def _owner(tensor: str) -> str:
    return tensor.rpartition(".")[0]
