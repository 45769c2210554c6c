"""Verifies that a compiled model equals another module: results, gradients, buffer updates and state_dict keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from html import escape
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeAlias, final

import msgspec
import torch
from torch import nn

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.dispatch_modes import DigestedProducts, Digests, FillEmptyTensors
from pnne_nb.compiler.analysis.gradient_checksums import Gradients, collected, parameter_bytes
from pnne_nb.compiler.analysis.nested_values import Near, copied, difference, has_nan, tensors_in
from pnne_nb.compiler.analysis.own_noise import OwnNoise, deterministic
from pnne_nb.compiler.lowering.attributes import whole_node
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
        equal: Whether both sides are equal, bit for bit, or as near as the module is to itself.
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
        noise: How far the module differs from itself, where that was the measure; else empty.
    """

    checks: tuple[Check, ...]
    opaque: dict[str, str] = {}
    noise: str = ""

    @property
    def equal(self) -> bool:
        """Return whether all comparisons are equal, bit for bit, or as near as the module is to itself (`noise`)."""
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
        lines = [*map(str, self.checks), *([self.noise] if self.noise else [])]
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
    args, given = following(call_arguments(args, kwargs), net)
    opaque: dict[str, str] = {}
    _collect_opaque(graph, "", "", opaque)
    noise = OwnNoise()
    with untouched(net), deterministic(net, args, given):
        with private_random_state():
            model = compile_graph(graph, reuse=net)
        checks = tuple(compare(net, model, args, given, key_prefix(graph), noise=noise))
    results = [check for check in checks if check.what == "outputs"]
    if all(check.equal and check.detail for check in results):
        raise CompileError(f"Nothing can be compared: {results[0].detail}. Give the arguments of a call: args=(x,).")
    return VerificationReport(checks, opaque, noise.said(net))


_SEED = 20_731
"""An unusual seed: with a common one, a forward that seeds the generator would seem to draw what its import draws."""


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
    noise: OwnNoise | None = None,
) -> Iterator[Check]:
    """Yield every comparison of copies of two modules; keys of the second begin with `prefix`.

    What differs is compared again with memory filled that code leaves as it was: its content makes no difference. If it
    still differs, the first module is compared with itself, which gives the measure (`noise`).
    Whoever has `copies` of both already may give them. With `digests`, most calls have `DigestedProducts`, where these
    prove as much; one call of both in evaluation mode computes everything.
    """
    mine, theirs = [f"{prefix}{key}" for key in net.state_dict()], list(model.state_dict())
    detail = "" if mine == theirs else _keys(mine, theirs)
    yield Check("keys", "", not detail, detail)
    ours, others = copies or (Copies(net), Copies(model))
    modes: tuple[Mode, ...] = ("train", "eval")
    for mode in modes:
        for memory in (nullcontext, FillEmptyTensors):
            with memory():
                checks = _checks(ours, others, args, kwargs, mode, prefix, digests=digests, noise=noise)
            if all(check.equal for check in checks):
                break
            if noise is not None and _is_noisy(net, ours, args, kwargs, mode, noise):
                checks = _checks(ours, others, args, kwargs, mode, prefix, noise=noise)
                break
        yield from checks


_REPEATS = 3
"""Comparisons of a module with itself, which show how far it differs from call to call."""


def _is_noisy(
    net: nn.Module, ours: Copies, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode, noise: OwnNoise
) -> bool:
    """Compare a module with itself, and return whether its results differ from call to call as rounding does."""
    again = Copies(net)
    for _ in range(_REPEATS):
        _checks(ours, again, args, kwargs, mode, "", near=noise.note)
    return bool(noise)


class _Run(NamedTuple):
    """What calls of both modules have shown.

    Attributes:
        found: The comparisons; None if both refuse to compute gradients to the inputs.
        keeps: Whether a module keeps what it has computed, for a later call.
        differentiated: Whether there was anything to differentiate.
    """

    found: list[Check] | None
    keeps: bool = False
    differentiated: bool = False

    @property
    def is_equal(self) -> bool | None:
        """Whether everything is equal; None if nothing was compared."""
        return None if self.found is None else all(check.equal for check in self.found)


def _checks(
    ours: Copies,
    others: Copies,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    mode: Mode,
    prefix: str,
    *,
    digests: Digests | None = None,
    noise: OwnNoise | None = None,
    near: Near | None = None,
) -> list[Check]:
    """Compare in one mode: with inputs that require gradients in evaluation, or where nothing else does.

    A module that keeps what it has computed is called three times with them, before one backward pass through all of the
    calls; in training mode also twice, each call with its own backward pass.
    """
    near = noise.allows if noise else near

    def run(calls: int, *, wanted: bool) -> _Run:
        attempts = ("digested", "sums", "whole") if digests is not None else ("sums", "whole")
        for attempt in attempts if near is None else ("whole",):
            pair = ours.next().train(mode == "train"), others.next().train(mode == "train")
            before = tuple(map(_numbers, pair))
            return_free_memory(parameter_bytes(pair[0]))
            products = None
            if digests is not None and attempt == "digested":
                digests.share(*pair)
                products = DigestedProducts(digests)
            # What differs is told by its values.
            with collected(*pair, whole=attempt == "whole", digests=products and digests) as gradients:
                try:
                    made = _run_both(
                        *pair, args, kwargs, mode, prefix, calls, gradients, products, wanted=wanted, near=near
                    )
                except Exception:
                    if products is None:
                        raise
                    continue
            if made.is_equal is not False and (products is None or products.is_certain):
                break
        return made._replace(keeps=made.keeps or tuple(map(_numbers, pair)) != before)

    wanted = mode == "eval"
    made = run(1, wanted=wanted)
    if made.found is None:  # it changes its inputs in place, as none can be that requires gradients
        made = run(1, wanted=False)
    elif not (wanted or made.differentiated) and made.is_equal:
        again = run(1, wanted=True)
        wanted, keeps = again.found is not None, again.keeps or made.keeps
        made = (again if wanted else made)._replace(keeps=keeps)
    found = made.found
    assert found is not None, "only inputs that require gradients are refused by both"
    if made.keeps and made.is_equal and found[0].what == "outputs" and len(found) > 1:
        found = (run(3, wanted=True).found if wanted else None) or run(3, wanted=False).found or found
        if mode == "train" and all(check.equal for check in found):
            detail = _second_step(ours.next().train(), others.next().train(), args, kwargs, prefix, near)
            found = [*found, *([Check("gradients", mode, False, detail)] if detail else [])]
    return found


def _second_step(
    one: nn.Module, other: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], prefix: str, near: Near | None
) -> str:
    """Call two modules twice, each call with its own backward pass, as in training, and describe how they differ."""
    results: list[list[Any]] = []
    failures: list[str] = []
    for module in (one, other):
        found: list[Any] = []
        try:
            with private_random_state(_SEED):
                for _ in range(2):
                    given = copied((args, kwargs))
                    result = module(*given[0], **given[1])
                    _backward(result)
                    found.append(copied(result))  # without what it was computed from
        except Exception as error:  # noqa: BLE001  # what is kept from the first step may be of no use in the second
            failures.append(str(error).partition(". ")[0])
            if module is one:
                return ""
        results.append(found)
    if failures:
        keepers = [path for path, part in other.named_modules() if any(True for _ in computed(part))]
        place = keepers[-1].removeprefix(prefix) if keepers else ""
        return f"{place}: in a second step, which the module itself takes, the imported graph fails: {failures[0]}"
    grown = [{name: each.grad for name, each in side.named_parameters()} for side in (one, other)]
    named = {f"{prefix}{name}": gradient for name, gradient in grown[0].items()}
    detail = difference(results[0], results[1], near=near) or difference(named, grown[1], near=near)
    return f"in a second step, {detail}" if detail else ""


def _numbers(module: nn.Module) -> list[object]:
    """Return the plain attributes of a module and its parts, such as a counter of calls."""
    return [
        value
        for part in module.modules()
        for name, value in vars(part).items()
        if name not in ("training", "_is_full_backward_hook") and isinstance(value, (int, float, str))
    ]


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
    near: Near | None,
) -> _Run:
    """Compare two modules: the outputs of `calls` calls, the gradients of one backward pass, and a call without gradients.

    Where gradients to the inputs are `wanted`, nothing is found if both modules refuse to compute them. With `products`,
    that other call in evaluation mode computes them all the same, and whatever fails is raised.
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
            return _Run(None)
        said = (
            f"both modules refuse these inputs: {refused[0]}"
            if not results
            else f"only one module accepts these inputs{' with gradients' if wanted else ''}: {refused[0]}"
        )
        return _Run([Check("outputs", mode, not results, said)])
    detail = next(filter(None, (difference(*pair, near=near) for pair in zip(*results, strict=True))), "")
    if not detail and (changed := difference(inputs[0], inputs[1], near=near)):
        detail = f"the arguments after the call: {changed}"
    if not detail and not torch.equal(*drawn):
        detail = _DREW
    keeps = any(True for module in (one, other) for _ in computed(module))  # for a later call, with its gradients
    # A buffer that remembers how it was computed would forget it in such a call, and the next run with it.
    if not detail and (mode == "eval" or all(buffer.grad_fn is None for buffer in one.buffers())):
        detail = _without_gradients(one, other, args, kwargs, products if mode == "train" else None, near)
    found = [Check("outputs", mode, not detail, detail)]
    if backward:  # how far a backward pass has come that fails means nothing
        detail = "only one of them has gradients" if len(backward) == 1 else ""
    else:
        named = gradients[0].named(prefix), gradients[1].named()
        given_back = _input_gradients(inputs[0]), _input_gradients(inputs[1])
        detail = difference(*named, near=near) or difference(*given_back, near=near)
    found.append(Check("gradients", mode, not detail, detail))
    # Parameters too: some are changed by the forward itself, as a moving average of others.
    kept = {f"{prefix}{name}": tensor for name, tensor in (*one.named_buffers(), *one.named_parameters())}
    others = dict((*other.named_buffers(), *other.named_parameters()))
    detail = difference(kept, {name: others.get(name) for name in kept}, near=near)
    differentiated = any(leaf.requires_grad for leaf in tensors_in(results))
    return _Run([*found, Check("buffers", mode, not detail, detail)], keeps, differentiated)


def _without_gradients(
    one: nn.Module,
    other: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    products: DigestedProducts | None,
    near: Near | None,
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
    detail = difference(results[0], results[1], near=near) or ("" if torch.equal(*drawn) else _DREW)
    return f"without gradients, {detail}" if detail else ""


def _input_gradients(given: Any) -> dict[str, torch.Tensor | None]:
    leaves = [leaf for leaf in tensors_in(given) if leaf.is_leaf]  # not what the call has put into a cache
    return {f"input {index}": leaf.grad for index, leaf in enumerate(leaves)}


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
