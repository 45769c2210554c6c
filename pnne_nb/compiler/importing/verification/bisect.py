"""Finds the first module whose results in a compiled import differ from the original's."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Generator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.analysis.dispatch_modes import Digests, FillEmptyTensors
from pnne_nb.compiler.analysis.nested_values import Near, copied, difference
from pnne_nb.compiler.analysis.own_noise import OwnNoise
from pnne_nb.compiler.analysis.verify import Check, compare, key_prefix, whole_prefix
from pnne_nb.compiler.importing.draft.layers import difference as layer_difference
from pnne_nb.compiler.importing.draft.layers import layer_spec
from pnne_nb.compiler.module.call_errors import blame
from pnne_nb.compiler.weights.deepcopy import Copies, duplicate
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.random_state import private_random_state

TRIES = 5
"""Repetitions of a failed comparison: other threads may use random numbers in between."""


class ImportFault(NamedTuple):
    """A module whose import differs from it.

    Attributes:
        path: The path of the module.
        reason: The difference, in words.
        again: Whether recomputing for the backward pass is what fails.
        unproved: Whether nothing differs that is known, but comparing failed.
    """

    path: str
    reason: str
    again: bool = False
    unproved: bool = False


def find_fault(
    graph: NodeGraph,
    net: nn.Module,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    copies: tuple[Copies, Copies],
    digests: Digests | None = None,
    noise: OwnNoise | None = None,
) -> Generator[None, None, ImportFault | None]:
    """Return, piece by piece, the innermost module whose import differs, or None; `copies` are of `net` and `model`.

    With `digests`, large products are computed only where that is needed. What `noise` the module has of its own, which is
    measured here if anything differs, makes no difference.
    """
    modules = dict(net.named_modules(remove_duplicate=False))
    prefix = key_prefix(graph)
    drawn = model.get_submodule(prefix.removesuffix("."))
    for path, module in drawn.named_modules():
        original = modules.get(path)
        if original is not None and layer_spec(module) is not None and layer_spec(original) is not None:
            reason = layer_difference(original, module)
            if reason:
                return ImportFault(path, reason)
    try:
        before: list[Check] = []
        for _ in range(TRIES):
            failed: list[Check] = []
            for check in compare(net, model, args, kwargs, prefix, copies, digests=digests, noise=noise):
                failed += [] if check.equal else [check]
                yield
            if failed == before:
                break  # it failed in the same way again
            before = failed
    except Exception as error:  # noqa: BLE001  # whatever the drawn model raises is its fault
        place = innermost(f"{blame(error) or ''}.".removeprefix(whole_prefix(graph)).rstrip("."), modules)
        return ImportFault(place, f"the imported graph fails: {str(error).splitlines()[0] if str(error) else error!r}")
    if not failed:
        return None
    for mode in [mode for mode in ("train", "eval") if any(check.mode == mode for check in failed)]:
        for gradients in (True, False):
            found = _first_difference(net, drawn, (args, kwargs), mode, gradients=gradients, noise=noise)
            if found is not None:
                return found
    around = innermost(failed[0].detail.partition(":")[0], dict(net.named_modules()))
    return ImportFault(around, f"the imported graph has other {failed[0]}")


def innermost(path: str, modules: Collection[str]) -> str:
    """Return the path of the innermost one of `modules` around a node or tensor; empty if it is the outermost module."""
    while path and path not in modules:
        path = path.rpartition(".")[0]
    return path


def _first_difference(
    net: nn.Module, model: nn.Module, inputs: Any, mode: str, *, gradients: bool, noise: OwnNoise | None
) -> ImportFault | None:
    """Return the first module, in the order in which they finish, whose results differ."""
    mine, theirs = (_results(module, inputs, mode, gradients=gradients) for module in (net, model))
    if noise:
        again = _results(net, inputs, mode, gradients=gradients)
        for name, results in mine.items():
            _differ("result", results, again.get(name, []), noise.note, name)
    places = Counter(id(module) for _, module in net.named_modules(remove_duplicate=False))
    shared = {name for name, module in net.named_modules() if places[id(module)] > 1}
    for name, results in mine.items():
        others = theirs.get(name)
        if others is None or name in shared:
            continue
        near = noise.allows if noise else None
        detail = _differ("result", results, others, near, name)
        pairs = zip(results, others, strict=True)
        if not detail and any(not torch.equal(one.drawn, two.drawn) for one, two in pairs):
            detail = "the random numbers after it differ"
        if detail:
            given = _differ("args", results, others, near, name)
            if given and layer_spec(net.get_submodule(name)) is not None:
                name = name.rpartition(".")[0]  # the code that calls the layer gives it something else
            where = f"in {mode} mode{'' if gradients else ' without gradients'}"
            return ImportFault(name, f"the imported graph computes something else {where}: {detail}")
    return None


def _differ(what: str, ones: list[_Result], others: list[_Result], near: Near | None, name: str) -> str:
    """Describe how the results or the arguments of a module's calls differ; `near` gets its name before that of the place."""
    beside: Near | None = None if near is None else lambda place, one, other: near(f"{name}: {place}", one, other)
    return difference([getattr(each, what) for each in ones], [getattr(each, what) for each in others], near=beside)


class _Result(NamedTuple):
    """What one call of a module did: the state of random numbers after it, its arguments, and its result."""

    drawn: torch.Tensor
    args: Any
    result: Any


def _results(net: nn.Module, inputs: Any, mode: str, *, gradients: bool) -> dict[str, list[_Result]]:
    """Return the results of each module."""
    module = duplicate(net).train(mode == "train")
    found: dict[str, list[_Result]] = {}
    for name, each in module.named_modules():
        if isinstance(each, torch.jit.ScriptModule):
            continue

        def record(_module: nn.Module, args: Any, result: Any, name: str = name) -> None:
            kept = pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, (args, result))
            found.setdefault(name, []).append(_Result(torch.get_rng_state(), *kept))

        each.register_forward_hook(record)
    given = copied(inputs)
    with FillEmptyTensors(), private_random_state(), contextlib.suppress(Exception), torch.set_grad_enabled(gradients):
        module(*given[0], **given[1])
    return found
