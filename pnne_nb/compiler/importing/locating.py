"""Finds where a compiled import does something else than the original: in which module first."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.copying import Copies, duplicate
from pnne_nb.compiler.filling import Filling
from pnne_nb.compiler.importing.layers import difference as layer_difference
from pnne_nb.compiler.importing.layers import layer_spec
from pnne_nb.compiler.running import blame
from pnne_nb.compiler.verifying import (
    Check,
    compare,
    copied,
    difference,
    key_prefix,
    private_random_state,
    whole_prefix,
)
from pnne_nb.graph.document import NodeGraph

TRIES = 5
"""How often a comparison that fails is repeated: other threads may draw random numbers in between."""


class Fault(NamedTuple):
    """A module whose drawing is not equal to it.

    Attributes:
        path: Of the module.
        reason: What differs.
        again: Whether it is computing something again for the backward pass that fails.
    """

    path: str
    reason: str
    again: bool = False


def find_fault(
    graph: NodeGraph,
    net: nn.Module,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    copies: tuple[Copies, Copies],
) -> Fault | None:
    """Return the innermost module that is not drawn as it is, or None if all are; `copies` are of `net` and `model`."""
    modules = dict(net.named_modules(remove_duplicate=False))
    prefix = key_prefix(graph)
    drawn = model.get_submodule(prefix.removesuffix("."))
    for path, module in drawn.named_modules():
        original = modules.get(path)
        if original is not None and layer_spec(module) is not None and layer_spec(original) is not None:
            reason = layer_difference(original, module)
            if reason:
                return Fault(path, reason)
    try:
        before: list[Check] = []
        for _ in range(TRIES):
            failed = [check for check in compare(net, model, args, kwargs, prefix, copies) if not check.equal]
            if failed == before:
                break  # what is wrong is wrong in the same way again
            before = failed
    except Exception as error:  # noqa: BLE001  # whatever the drawn model raises is what is wrong with it
        place = f"{blame(error) or ''}.".removeprefix(whole_prefix(graph)).rstrip(".")
        while place and place not in modules:
            place = place.rpartition(".")[0]
        return Fault(place, f"what was drawn of it fails: {str(error).splitlines()[0] if str(error) else error!r}")
    if not failed:
        return None
    for mode in {check.mode for check in failed} & {"train", "eval"}:
        found = _first_difference(net, drawn, args, kwargs, mode)
        if found is not None:
            return found
    return Fault(_around(net, failed[0]), f"what was drawn of it has other {failed[0]}")


def _first_difference(
    net: nn.Module, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], mode: str
) -> Fault | None:
    """Return the first module, in the order in which they finish, whose results differ."""
    mine, theirs = (_results(module, args, kwargs, mode) for module in (net, model))
    places = Counter(id(module) for _, module in net.named_modules(remove_duplicate=False))
    shared = {name for name, module in net.named_modules() if places[id(module)] > 1}
    for name, results in mine.items():
        others = theirs.get(name)
        if others is None or name in shared:
            continue
        detail = difference([result for _, result in results], [result for _, result in others])
        if detail:
            return Fault(name, f"what was drawn of it computes something else in {mode} mode: {detail}")
    return None


def _results(
    net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], mode: str
) -> dict[str, list[tuple[int, Any]]]:
    module = duplicate(net).train(mode == "train")
    found: dict[str, list[tuple[int, Any]]] = {}
    for name, each in module.named_modules():
        if isinstance(each, torch.jit.ScriptModule):
            continue

        def record(_module: nn.Module, _args: Any, result: Any, name: str = name) -> None:
            kept = pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, result)
            found.setdefault(name, []).append((len(found), kept))

        each.register_forward_hook(record)
    given = copied((args, kwargs))
    with Filling(), private_random_state(), contextlib.suppress(Exception):
        module(*given[0], **given[1])
    return found


def _around(net: nn.Module, check: Check) -> str:
    """Return the innermost module around the tensor that a failed check names."""
    path = check.detail.partition(":")[0]
    modules = dict(net.named_modules())
    while path and path not in modules:
        path = path.rpartition(".")[0]
    return path
