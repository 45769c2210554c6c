"""Verifies that a compiled model equals another module: results, gradients, buffer updates and state_dict keys."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from html import escape
from types import NoneType
from typing import Any, Literal, TypeAlias, final

import msgspec
import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.analysis.dispatch_modes import DigestedProducts, Digests, FillEmptyTensors
from pnne_nb.compiler.analysis.gradient_checksums import Gradients, collected, parameter_bytes
from pnne_nb.compiler.lowering.attributes import whole_node
from pnne_nb.compiler.module.call_errors import describe
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.weights.deepcopy import Copies, computed, untouched
from pnne_nb.errors import CompileError, expect
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.node import whole_of
from pnne_nb.process.gc_pause import return_free_memory
from pnne_nb.process.random_state import private_random_state

Mode: TypeAlias = Literal["train", "eval"]
_DREW = "the random numbers of later calls differ, as one of them draws more"


class Check(msgspec.Struct, frozen=True):
    """One comparison of two modules.

    Attributes:
        what: ``"keys"``, ``"outputs"``, ``"gradients"`` or ``"buffers"`` (what running changes: parameters too).
        mode: ``"train"`` or ``"eval"``; empty where it does not matter.
        equal: Whether both sides are equal, bit for bit.
        detail: What differs, and by how much.
    """

    what: Literal["keys", "outputs", "gradients", "buffers"]
    mode: Mode | Literal[""]
    equal: bool
    detail: str = ""

    def __str__(self) -> str:
        place = f" in {self.mode} mode" if self.mode else ""
        said = f" ({self.detail})" if self.detail else ""
        return f"{self.what}{place}: {'equal' if self.equal else 'different'}{said}"


@final
class VerificationReport(msgspec.Struct, frozen=True):
    """Result of `verify`; true if everything is equal.

    Attributes:
        checks: Every comparison.
        opaque: Paths of the nodes that are kept as they are, with the reason.
    """

    checks: tuple[Check, ...]
    opaque: dict[str, str] = {}

    @property
    def equal(self) -> bool:
        """Return whether all comparisons are equal, bit for bit."""
        return all(check.equal for check in self.checks)

    @property
    def differences(self) -> tuple[Check, ...]:
        """The comparisons that failed."""
        return tuple(check for check in self.checks if not check.equal)

    def __bool__(self) -> bool:
        return self.equal

    def __repr__(self) -> str:
        headline = "equal" if self.equal else f"{len(self.differences)} of {len(self.checks)} comparisons differ"
        kept = f", {len(self.opaque)} opaque" if self.opaque else ""
        return f"VerificationReport({headline}{kept})\n{self}"

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{escape(line)}</li>" for line in str(self).splitlines())
        return f"<p>{escape(repr(self).splitlines()[0])}</p><ul>{rows}</ul>"

    def __str__(self) -> str:
        lines = [str(check) for check in self.checks]
        return "\n".join([*lines, *(f"opaque: {path}: {reason}" for path, reason in self.opaque.items())])


def verify(
    graph: NodeGraph, net: nn.Module, args: Sequence[Any] | torch.Tensor = (), kwargs: Mapping[str, Any] | None = None
) -> VerificationReport:
    """Compare the model that `graph` compiles to with the module that it was imported from.

    Both run on the same inputs under the same seed, in training and in evaluation mode. Neither `net`, nor the
    inputs, nor torch's random state are changed.

    Args:
        graph: The document.
        net: The module to compare with; the compiled model takes its tensors and opaque modules from it.
        args: Positional arguments of the call, such as images `[N, C, H, W]`; a tensor alone is the only argument.
        kwargs: Keyword arguments of the call.

    Raises:
        CompileError: If the document cannot be compiled, or the inputs are refused in both modes: nothing would be proved.
        ArgumentError: If an argument is of the wrong kind.
    """
    expect_graph(graph)
    expect(net, nn.Module, "net", "the module to compare with")
    args, given = call_arguments(args, kwargs)
    opaque: dict[str, str] = {}
    _collect_opaque(graph, "", "", opaque)
    with untouched(net):
        with private_random_state():
            model = compile_graph(graph, reuse=net)
        checks = tuple(compare(net, model, args, given, key_prefix(graph)))
    results = [check for check in checks if check.what == "outputs"]
    if all(check.equal and check.detail for check in results):
        raise CompileError(f"Nothing can be compared: {results[0].detail}. Give the arguments of a call: args=(x,).")
    return VerificationReport(checks, opaque)


_SEED = 20_731
"""None that code would itself begin at: a forward that seeds would seem to draw what its import draws."""


def call_arguments(
    args: Sequence[Any] | torch.Tensor, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as a tuple; one tensor alone is the only argument.

    Raises:
        ArgumentError: If they are no sequence and no mapping.
    """
    if isinstance(args, torch.Tensor):
        args = (args,)
    expect(args, (tuple, list), "args", "a tuple of the arguments of a call, or its only tensor")
    expect(kwargs, (Mapping, NoneType), "kwargs", "the keyword arguments of a call by name")
    return tuple(args), dict(kwargs or {})


def whole_prefix(graph: NodeGraph) -> str:
    """Return the prefix of all paths of a document whose one node is the imported module itself."""
    whole = whole_node(graph)
    return f"{whole}." if whole else ""


def key_prefix(graph: NodeGraph) -> str:
    """Return the prefix of all ``state_dict`` keys of such a document's model, if it differs."""
    return whole_prefix(graph) if whole_of(graph.nodes) != whole_node(graph) else ""


def _collect_opaque(graph: NodeGraph, id: str, prefix: str, found: dict[str, str]) -> None:
    for name, node in graph.graphs[id].nodes.items():
        if node.origin is not None and node.origin.proof == "opaque":
            found[prefix + name] = node.origin.reason
        if node.definition is not None:
            _collect_opaque(graph, node.definition, f"{prefix}{name}.", found)


def compare(
    net: nn.Module,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    prefix: str = "",
    copies: tuple[Copies, Copies] | None = None,
    *,
    digests: Digests | None = None,
) -> Iterator[Check]:
    """Yield every comparison of copies of two modules; keys of the second begin with `prefix`.

    What differs is compared again with memory filled that code leaves as it was: its content makes no difference.
    Whoever has `copies` of both already may give them. With `digests`, most calls have `DigestedProducts`, where these
    prove as much; one call of both in evaluation mode computes everything.
    """
    mine, theirs = [f"{prefix}{key}" for key in net.state_dict()], list(model.state_dict())
    detail = "" if mine == theirs else _keys(mine, theirs)
    yield Check("keys", "", not detail, detail)
    ours, others = copies or (Copies(net), Copies(model))
    for mode in ("train", "eval"):
        for memory in (nullcontext, FillEmptyTensors):
            with memory():
                checks = _checks(ours, others, args, kwargs, mode, prefix, digests=digests)
            if all(check.equal for check in checks):
                break
        yield from checks


def _checks(
    ours: Copies,
    others: Copies,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    mode: Mode,
    prefix: str,
    *,
    digests: Digests | None,
) -> list[Check]:
    """Compare in one mode: with inputs that require gradients in evaluation, or where nothing else does.

    A module that keeps what it has computed is called three times with them, before one backward pass through all of the calls.
    """

    def run(calls: int, *, wanted: bool) -> tuple[list[Check] | None, bool, bool]:
        for attempt in ("digested", "sums", "whole") if digests is not None else ("sums", "whole"):
            pair = ours.next().train(mode == "train"), others.next().train(mode == "train")
            before = tuple(map(_numbers, pair))
            return_free_memory(parameter_bytes(pair[0]))
            products = None
            if digests is not None and attempt == "digested":
                digests.share(*pair)
                products = DigestedProducts(digests)
            # What differs is told by its values.
            with collected(*pair, whole=attempt == "whole", few=products is not None) as gradients:
                try:
                    found, keeps, differentiated = _run_both(
                        *pair, args, kwargs, mode, prefix, calls, gradients, products, wanted=wanted
                    )
                except Exception:
                    if products is None:
                        raise
                    continue
            if (found is None or all(check.equal for check in found)) and (products is None or products.is_certain):
                break
        return found, keeps or tuple(map(_numbers, pair)) != before, differentiated

    wanted = mode == "eval"
    found, keeps, differentiated = run(1, wanted=wanted)
    if found is None:  # it changes its inputs in place, as none can be that requires gradients
        found, keeps, differentiated = run(1, wanted=False)
    elif not (wanted or differentiated) and all(check.equal for check in found):
        again, also_keeps, _ = run(1, wanted=True)
        wanted, found, keeps = again is not None, again or found, also_keeps or keeps
    assert found is not None, "only inputs that require gradients are refused by both"
    if keeps and all(check.equal for check in found) and found[0].what == "outputs" and len(found) > 1:
        found = (run(3, wanted=True)[0] if wanted else None) or run(3, wanted=False)[0] or found
    return found


def _keeps_results(module: nn.Module) -> bool:
    """Return whether a later call could be given what an earlier one has computed, with its gradients."""
    return next(computed(module), None) is not None


def _numbers(module: nn.Module) -> list[object]:
    """Return the plain attributes of a module and its parts, such as a counter of calls."""
    return [
        value
        for part in module.modules()
        for name, value in vars(part).items()
        if name not in ("training", "_is_full_backward_hook") and isinstance(value, (int, float, str))
    ]


def copied(value: Any) -> Any:
    """Return a deep copy of arguments, with the same ``requires_grad``; of objects too, such as a cache that is filled."""
    known: dict[int, Any] = {}

    def fresh(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return copied_object(leaf, known)
        # Sparse ones have no memory format, not even their own.
        kept = {"memory_format": torch.preserve_format} if leaf.layout == torch.strided else {}
        return leaf.detach().clone(**kept).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(fresh, value)


def copied_object(value: Any, known: dict[int, Any] | None = None) -> Any:
    """Return a copy of an object that a call may fill, such as a cache; any other value, or one without copies, as it is.

    Args:
        value: An argument of a call.
        known: What was copied already, as for ``copy.deepcopy``.
    """
    if _is_made_of_attributes(value) and not isinstance(value, torch.Tensor):
        with contextlib.suppress(Exception):  # whatever its class says to copying
            return copy.deepcopy(value, known)
    return value


def difference(mine: Any, theirs: Any, place: str = "") -> str:
    """Describe how two results differ; empty if they are equal, bit for bit."""
    return _difference(mine, theirs, place, frozenset())


def _difference(mine: Any, theirs: Any, place: str, around: frozenset[int]) -> str:  # noqa: PLR0911  # one for each kind
    """Describe a difference; `around` are the objects that these are in, which some contain again."""
    if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"{place}{describe(mine)} and {describe(theirs)}"
        if mine.device.type == "meta" or _same(mine, theirs):
            return ""
        if mine.layout != torch.strided and mine.layout == theirs.layout:
            return _difference(mine.to_dense(), theirs.to_dense(), place, around)
        gap = (mine.detach().double() - theirs.detach().double()).abs().max().item() if not mine.is_complex() else ""
        return f"{place}differs by up to {gap}"
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        if type(mine) is not type(theirs):
            return f"{place}a {type(mine).__name__} and a {type(theirs).__name__}"
        if list(mine) != list(theirs):
            return f"{place}the keys {list(mine)} and {list(theirs)}"
        return next((d for key in mine if (d := _difference(mine[key], theirs[key], f"{place}{key}: ", around))), "")
    if isinstance(mine, (tuple, list)) and isinstance(theirs, (tuple, list)):
        if type(mine) is not type(theirs) or len(mine) != len(theirs):
            return f"{place}a {type(mine).__name__} of {len(mine)} and a {type(theirs).__name__} of {len(theirs)}"
        pairs = enumerate(zip(mine, theirs, strict=True))
        return next((d for index, (a, b) in pairs if (d := _difference(a, b, f"{place}item {index}: ", around))), "")
    if is_dataclass(mine) and type(mine) is type(theirs) and not isinstance(mine, type):
        one, other = ({field.name: getattr(side, field.name) for field in fields(side)} for side in (mine, theirs))
        return _difference(one, other, place, around)
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        same = mine.dtype == theirs.dtype and np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fc")
        return "" if same else f"{place}different values in an array"
    if type(mine) is type(theirs) and _is_made_of_attributes(mine) and mine is not theirs:
        inside = around | {id(mine)}
        return "" if id(mine) in around else _difference(_attributes(mine), _attributes(theirs), place, inside)
    if type(mine) is type(theirs) and (mine is theirs or isinstance(mine, _COMPARED)):
        return "" if mine == theirs or mine != mine else f"{place}{mine!r} and {theirs!r}"  # noqa: PLR0124  # nan
    return f"{place}{describe(mine)} and {describe(theirs)}"


_COMPARED = (bool, int, float, complex, str, bytes, set, frozenset, range, slice, np.generic, torch.Size, torch.device)
"""What is equal if it says so."""


def _is_made_of_attributes(value: Any) -> bool:
    """Return whether a result is an object of a plain class, such as a cache."""
    has_attributes = hasattr(value, "__dict__") or hasattr(type(value), "__slots__")
    return has_attributes and not isinstance(value, (type, nn.Module, *_COMPARED)) and not callable(value)


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    return {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **getattr(value, "__dict__", {})}


_PLAIN = (torch.Tensor, nn.Parameter)


def _same(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    if mine.layout != torch.strided and mine.layout == theirs.layout and not mine.is_quantized:
        return _same(mine.to_dense(), theirs.to_dense())
    if type(mine) in _PLAIN and type(theirs) in _PLAIN and mine.is_set_to(theirs):
        return mine.dtype == theirs.dtype  # it is the same memory
    if mine.is_quantized or mine.layout != torch.strided:
        return torch.equal(mine, theirs)
    return torch.equal(mine, theirs) or (
        (mine.is_floating_point() or mine.is_complex()) and torch.allclose(mine, theirs, rtol=0, atol=0, equal_nan=True)
    )


def _run_both(
    one: nn.Module,
    other: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    mode: Mode,
    prefix: str,
    calls: int,
    gradients: tuple[Gradients, Gradients],
    products: DigestedProducts | None,
    *,
    wanted: bool,
) -> tuple[list[Check] | None, bool, bool]:
    """Compare `calls` calls with one backward pass, whose `gradients` are of both, and another call without gradients.

    Where gradients to the inputs are `wanted`, return None if both modules refuse to compute them. With `products`, that
    other call in evaluation mode computes them all the same, and whatever fails is raised. Return also whether a module
    keeps what it has computed, and whether there was anything to differentiate.
    """
    results, inputs, drawn = [], [], []
    refused: list[str] = []
    backward: list[str] = []
    for module in (one, other):
        given = [copied((args, kwargs)) for _ in range(calls)]
        for leaf in tensors_in(given) if wanted else ():
            leaf.requires_grad_(leaf.requires_grad or leaf.is_floating_point())
        with private_random_state(_SEED), products or nullcontext():
            try:
                result = [module(*each[0], **each[1]) for each in given]
            except Exception as error:
                # BatchNorm refuses a single sample in training mode: so must both.
                if products is not None or (module is other and not refused):
                    raise
                refused.append(str(error))
                continue
            drawn.append(torch.get_rng_state())
            try:
                _backward(result)
            except Exception as error:
                # As for a result that was changed in place after something was computed from it, or a hook that fails.
                if products is not None or (module is other and not backward):
                    raise
                backward.append(str(error))
        results.append(result)
        inputs.append(given)
        if module is one:
            return_free_memory(parameter_bytes(one))
    if products is not None and has_nan(results):
        products.is_certain = False
    if refused:
        if wanted and not results:
            return None, False, False
        said = (
            f"both modules refuse these inputs: {refused[0]}"
            if not results
            else f"only one module accepts these inputs{' with gradients' if wanted else ''}: {refused[0]}"
        )
        return [Check("outputs", mode, not results, said)], False, False
    detail = next(filter(None, (difference(*pair) for pair in zip(*results, strict=True))), "")
    if not detail and (changed := difference(inputs[0], inputs[1])):
        detail = f"the arguments after the call: {changed}"
    if not detail and not torch.equal(*drawn):
        detail = _DREW
    keeps = any(map(_keeps_results, (one, other)))
    # A buffer that remembers how it was computed would forget it in such a call, and the next run with it.
    if not detail and (mode == "eval" or all(buffer.grad_fn is None for buffer in one.buffers())):
        detail = _without_gradients(one, other, args, kwargs, products if mode == "train" else None)
    found = [Check("outputs", mode, not detail, detail)]
    if backward:  # how far a backward pass has come that fails means nothing
        detail = "only one of them has gradients" if len(backward) == 1 else ""
    else:
        named = gradients[0].named(prefix), gradients[1].named()
        detail = difference(*named) or difference(_input_gradients(inputs[0]), _input_gradients(inputs[1]))
    found.append(Check("gradients", mode, not detail, detail))
    # Parameters too: some are changed by the forward itself, as a moving average of others.
    kept = {f"{prefix}{name}": tensor for name, tensor in (*one.named_buffers(), *one.named_parameters())}
    others = dict((*other.named_buffers(), *other.named_parameters()))
    detail = difference(kept, {name: others.get(name) for name in kept})
    differentiated = any(leaf.requires_grad for leaf in tensors_in(results))
    return [*found, Check("buffers", mode, not detail, detail)], keeps, differentiated


def has_nan(results: Any) -> bool:
    """Return whether results have a NaN, which would hide a difference of what it was computed from."""
    kept = (each for each in tensors_in(results) if each.layout == torch.strided and not each.is_meta)
    return any(bool(each.isnan().any()) for each in kept if each.is_floating_point())


def _without_gradients(
    one: nn.Module,
    other: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    products: DigestedProducts | None,
) -> str:
    """Call two modules again where torch records no gradients, and describe how the results differ."""
    results, drawn = [], []
    for module in (one, other):
        given = copied((args, kwargs))
        with private_random_state(_SEED), torch.no_grad(), products or nullcontext():
            try:
                results.append(module(*given[0], **given[1]))
                drawn.append(torch.get_rng_state())
            except Exception:
                if module is one:
                    return ""  # it needs gradients itself
                raise
    detail = difference(*results) or ("" if torch.equal(*drawn) else _DREW)
    return f"without gradients, {detail}" if detail else ""


def _input_gradients(given: Any) -> dict[str, torch.Tensor | None]:
    leaves = [leaf for leaf in tensors_in(given) if leaf.is_leaf]  # not what the call has put into a cache
    return {f"input {index}": leaf.grad for index, leaf in enumerate(leaves)}


def tensors_in(value: Any, known: set[int] | None = None) -> list[torch.Tensor]:
    """Return the tensors in a nested value, fields of data classes and attributes of plain objects included.

    Args:
        value: Anything.
        known: Identities of the objects that are left out, because they were seen.
    """
    known = set() if known is None else known
    found: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            found += tensors_in([getattr(leaf, field.name) for field in fields(leaf)], known)
        elif _is_made_of_attributes(leaf) and id(leaf) not in known:
            known.add(id(leaf))
            found += tensors_in(list(_attributes(leaf).values()), known)
    return found


def _backward(result: Any) -> None:
    leaves = [leaf for leaf in tensors_in(result) if leaf.requires_grad]
    if leaves:
        # A sum would give every element the same gradient, and hide what is swapped.
        losses = [
            (leaf * torch.linspace(0.5, 1.5, leaf.numel(), device=leaf.device).reshape(leaf.shape)).abs().sum()
            for leaf in leaves
        ]
        torch.stack([loss.double() for loss in losses]).sum().backward()  # type: ignore[no-untyped-call]  # torch does not say


def _keys(mine: list[str], theirs: list[str]) -> str:
    lost, new = [key for key in mine if key not in theirs], [key for key in theirs if key not in mine]
    if not lost and not new:
        return "the same keys in a different order"
    return f"{', '.join(lost[:3]) or 'nothing'} is missing, {', '.join(new[:3]) or 'nothing'} is new"
