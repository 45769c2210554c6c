"""Proves that a compiled model does what another module does: same results, gradients, updates and keys."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Literal, TypeAlias, final

import msgspec
import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.compiling import compile as compile_graph
from pnne_nb.compiler.copying import Copies, untouched
from pnne_nb.compiler.filling import Filling
from pnne_nb.compiler.holding import whole_node
from pnne_nb.compiler.running import describe
from pnne_nb.errors import CompileError, expect
from pnne_nb.graph.boxes import whole_of
from pnne_nb.graph.document import NodeGraph, expect_graph

Mode: TypeAlias = Literal["train", "eval"]
SEED = 0
_randomness = threading.RLock()
"""Held while random numbers begin at a fixed seed: two comparisons at once would draw each other's."""


class Check(msgspec.Struct, frozen=True):
    """One comparison.

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
    """What `verify` found; true if everything is equal.

    Attributes:
        checks: Every comparison.
        opaque: Paths of the nodes that are kept as they are, with the reason.
    """

    checks: tuple[Check, ...]
    opaque: dict[str, str] = {}

    @property
    def equal(self) -> bool:
        """Whether everything is equal, bit for bit."""
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

    def __str__(self) -> str:
        lines = [str(check) for check in self.checks]
        return "\n".join([*lines, *(f"opaque: {path}: {reason}" for path, reason in self.opaque.items())])


def verify(
    graph: NodeGraph, net: nn.Module, args: Sequence[Any] | torch.Tensor = (), kwargs: Mapping[str, Any] | None = None
) -> VerificationReport:
    """Compare what `graph` compiles to with the module that it was imported from.

    Both run on the same inputs under the same seed, in training and in evaluation mode. Neither `net`, nor the
    inputs, nor torch's random state are changed.

    Args:
        graph: The document.
        net: The module to compare with; the compiled model takes its tensors and opaque modules from it.
        args: Positional arguments of the call.
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


def call_arguments(
    args: Sequence[Any] | torch.Tensor, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as they are passed on: one tensor alone is the only argument.

    Raises:
        ArgumentError: If they are no sequence and no mapping.
    """
    if isinstance(args, torch.Tensor):
        args = (args,)
    expect(args, (tuple, list), "args", "a tuple of the arguments of a call, or its only tensor")
    expect(kwargs, (Mapping, NoneType), "kwargs", "the keyword arguments of a call by name")
    return tuple(args), dict(kwargs or {})


def whole_prefix(graph: NodeGraph) -> str:
    """Return what stands before every path of a document that only calls the module that it was imported from."""
    whole = whole_node(graph)
    return f"{whole}." if whole else ""


def key_prefix(graph: NodeGraph) -> str:
    """Return what stands before every key in the ``state_dict`` of such a document's model, if that is another one."""
    return whole_prefix(graph) if whole_of(graph.nodes) != whole_node(graph) else ""


def _collect_opaque(graph: NodeGraph, id: str, prefix: str, found: dict[str, str]) -> None:
    for name, node in graph.graphs[id].nodes.items():
        if isinstance(node.origin, dict) and node.origin.get("proof") == "opaque":
            found[prefix + name] = str(node.origin.get("reason", ""))
        if node.definition is not None:
            _collect_opaque(graph, node.definition, f"{prefix}{name}.", found)


def compare(
    net: nn.Module,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    prefix: str = "",
    copies: tuple[Copies, Copies] | None = None,
) -> Iterator[Check]:
    """Yield every comparison of two modules, which are copied first; the second's keys begin with `prefix`.

    What differs is compared again with memory filled that code leaves as it was: its content makes no difference.
    Whoever has `copies` of both already may give them.
    """
    mine, theirs = [f"{prefix}{key}" for key in net.state_dict()], list(model.state_dict())
    detail = "" if mine == theirs else _keys(mine, theirs)
    yield Check("keys", "", not detail, detail)
    ours, others = copies or (Copies(net), Copies(model))
    for mode in ("train", "eval"):
        for memory in (nullcontext, Filling):
            one, other = ours.next(), others.next()
            for module in (one, other):
                module.train(mode == "train")
            with memory():
                checks = list(_run_both(one, other, args, kwargs, mode, prefix))
            if all(check.equal for check in checks):
                break
        yield from checks


def copied(value: Any) -> Any:
    """Return arguments with tensors of their own, which may collect gradients as the originals may."""

    def fresh(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        # Sparse ones have no memory format, not even their own.
        kept = {"memory_format": torch.preserve_format} if leaf.layout == torch.strided else {}
        return leaf.detach().clone(**kept).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(fresh, value)


@contextmanager
def private_random_state() -> Iterator[None]:
    """Leave the random state, which all threads have in common, as it was, and start from a fixed one.

    That of torch, of Python and of NumPy: some modules draw with those.
    """
    with _randomness, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        states = random.getstate(), np.random.get_state()  # noqa: NPY002  # of what others draw with
        torch.manual_seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)  # noqa: NPY002  # as above
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002  # as above


def difference(mine: Any, theirs: Any, place: str = "") -> str:
    """Say where two results differ; an empty string if they are equal, bit for bit."""
    if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"{place}{describe(mine)} and {describe(theirs)}"
        if mine.device.type == "meta" or _same(mine, theirs):
            return ""
        if mine.layout != torch.strided and mine.layout == theirs.layout:
            return difference(mine.to_dense(), theirs.to_dense(), place)
        gap = (mine.detach().double() - theirs.detach().double()).abs().max().item() if not mine.is_complex() else ""
        return f"{place}differs by up to {gap}"
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        if list(mine) != list(theirs):
            return f"{place}the keys {list(mine)} and {list(theirs)}"
        return next((d for key in mine if (d := difference(mine[key], theirs[key], f"{place}{key}: "))), "")
    if isinstance(mine, (tuple, list)) and isinstance(theirs, (tuple, list)):
        if type(mine) is not type(theirs) or len(mine) != len(theirs):
            return f"{place}a {type(mine).__name__} of {len(mine)} and a {type(theirs).__name__} of {len(theirs)}"
        pairs = enumerate(zip(mine, theirs, strict=True))
        return next((d for index, (a, b) in pairs if (d := difference(a, b, f"{place}item {index}: "))), "")
    if is_dataclass(mine) and type(mine) is type(theirs) and not isinstance(mine, type):
        one, other = ({field.name: getattr(side, field.name) for field in fields(side)} for side in (mine, theirs))
        return difference(one, other, place)
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        same = mine.dtype == theirs.dtype and np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fc")
        return "" if same else f"{place}other values in an array"
    if type(mine) is type(theirs) and _is_made_of_attributes(mine) and mine is not theirs:
        return difference(vars(mine), vars(theirs), place)
    if type(mine) is type(theirs) and (mine is theirs or isinstance(mine, _COMPARED)):
        return "" if mine == theirs or mine != mine else f"{place}{mine!r} and {theirs!r}"  # noqa: PLR0124  # nan
    return f"{place}{describe(mine)} and {describe(theirs)}"


_COMPARED = (bool, int, float, complex, str, bytes, set, frozenset, range, slice, np.generic, torch.Size, torch.device)
"""What is equal if it says so."""


def _is_made_of_attributes(value: Any) -> bool:
    """Whether a result is an object of a plain class, such as a cache."""
    return hasattr(value, "__dict__") and not isinstance(value, (type, nn.Module)) and not callable(value)


def _same(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    if mine.layout != torch.strided and mine.layout == theirs.layout and not mine.is_quantized:
        return _same(mine.to_dense(), theirs.to_dense())
    if mine.is_quantized or mine.layout != torch.strided:
        return torch.equal(mine, theirs)
    return torch.equal(mine, theirs) or (
        (mine.is_floating_point() or mine.is_complex()) and torch.allclose(mine, theirs, rtol=0, atol=0, equal_nan=True)
    )


def _run_both(
    one: nn.Module, other: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode, prefix: str
) -> Iterator[Check]:
    results, inputs = [], []
    refused: list[str] = []
    backward: list[str] = []
    for module in (one, other):
        given = copied((args, kwargs))
        with private_random_state():
            try:
                result = module(*given[0], **given[1])
            except Exception as error:
                # BatchNorm refuses a single sample in training mode: so must both.
                if module is other and not refused:
                    raise
                refused.append(str(error))
                continue
            try:
                _backward(result)
            except RuntimeError as error:
                # As for a result that was changed in place after something was computed from it.
                if module is other and not backward:
                    raise
                backward.append(str(error))
        results.append(result)
        inputs.append(given)
    if refused:
        said = f"both refuse these inputs: {refused[0]}" if not results else "only one of them refuses these inputs"
        yield Check("outputs", mode, not results, said)
        return
    detail = difference(*results)
    yield Check("outputs", mode, not detail, detail)
    if len(backward) == 1:
        yield Check("gradients", mode, equal=False, detail="only one of them has gradients")
    else:
        detail = difference(_gradients(one, inputs[0], prefix), _gradients(other, inputs[1]))
        yield Check("gradients", mode, not detail, detail)
    # Parameters too: some are changed by the forward itself, as a moving average of others.
    kept = {f"{prefix}{name}": tensor for name, tensor in (*one.named_buffers(), *one.named_parameters())}
    others = dict((*other.named_buffers(), *other.named_parameters()))
    detail = difference(kept, {name: others.get(name) for name in kept})
    yield Check("buffers", mode, not detail, detail)


def _gradients(module: nn.Module, given: Any, prefix: str = "") -> dict[str, torch.Tensor | None]:
    # Copies of scripted modules have parameters that are computed.
    found = {f"{prefix}{name}": p.grad if p.is_leaf else None for name, p in module.named_parameters()}
    return {**found, **{f"input {index}": leaf.grad for index, leaf in enumerate(tensors_in(given))}}


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors that a value consists of, those in objects of data classes included."""
    found: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            found += tensors_in([getattr(leaf, field.name) for field in fields(leaf)])
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
        return "the same keys in another order"
    return f"{', '.join(lost[:3]) or 'nothing'} is missing, {', '.join(new[:3]) or 'nothing'} is new"
