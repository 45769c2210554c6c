"""Proves an import: what it compiles to is compared with the module, in both modes, at other sizes and in other types.

After ``.bfloat16()`` and ``.double()``, and in an autocast, it must compute what the module then computes: nothing else finds
tensors whose element type the module's code fixes, and which the import would convert with the weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.analysis.dispatch_modes import Digests, has_large_products
from pnne_nb.compiler.analysis.gradient_checksums import parameter_bytes
from pnne_nb.compiler.analysis.own_noise import OwnNoise, deterministic
from pnne_nb.compiler.analysis.verify import key_prefix, whole_prefix
from pnne_nb.compiler.importing.tracing.call_site import failed_at
from pnne_nb.compiler.importing.verification.batch_resize import Varied, tried, unlike
from pnne_nb.compiler.importing.verification.bisect import ImportFault, find_fault, innermost
from pnne_nb.compiler.module.call_errors import blame
from pnne_nb.compiler.pipeline.compile import compile_for_proof
from pnne_nb.compiler.weights.deepcopy import Copies, Shared, duplicate
from pnne_nb.errors import CompileError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.structural import CHECKPOINT
from pnne_nb.process.gc_pause import return_free_memory
from pnne_nb.process.random_state import private_random_state

_T = TypeVar("_T")


class Tell(Protocol):
    """Reports the progress of an import."""

    def __call__(self, what: str, path: str = "", *, done: float | None = None) -> None:
        """Report the work on the module at a path; `done` is the share of the whole."""


def ended(pieces: Generator[object, None, _T]) -> _T:
    """Do all pieces of a work, and return its result."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            result: _T = done.value
            return result


def proof(
    graph: NodeGraph, net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell, noise: OwnNoise, varied: Varied,
    *, by_mode: bool, typed: bool,
) -> Generator[None, None, ImportFault | None]:  # fmt: skip
    """Compare an import with its module, piece by piece, and return the innermost part that differs, or None.

    Where comparing itself fails, nothing is proved, which is a fault like any other. Nothing of the process is changed
    between two pieces.

    Args:
        graph: The import.
        net: The module.
        args: Arguments by position of the call that was imported.
        kwargs: Those by name.
        tell: Called with what is compared.
        noise: Learns what the module has of its own, which makes no difference.
        varied: Learns the axes at which both do the same with another size.
        by_mode: Whether the module's code depends on the training mode.
        typed: Whether it depends on element types.
    """
    pieces = _compared(graph, net, args, kwargs, tell, noise, varied, by_mode=by_mode, typed=typed)
    try:
        while True:
            with deterministic(net, args, kwargs):
                try:
                    next(pieces)
                except StopIteration as ended:
                    found: ImportFault | None = ended.value
                    return found
            yield
    except Exception as error:  # noqa: BLE001  # whatever happens in a proof, the module itself can still be called
        place = innermost(f"{blame(error) or ''}".removeprefix(whole_prefix(graph)), dict(net.named_modules()))
        return ImportFault(place, f"comparing it with what is drawn fails: {failed_at(error)[1]}", unproved=True)


def _compared(
    graph: NodeGraph, net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell, noise: OwnNoise, varied: Varied,
    *, by_mode: bool, typed: bool,
) -> Generator[None, None, ImportFault | None]:  # fmt: skip
    tell("comparing what it compiles to", done=0.5)
    used = parameter_bytes(net)
    return_free_memory(used)
    is_large = has_large_products(net, (args, kwargs))
    for together in (True, False):
        try:
            with private_random_state():  # fresh weights are drawn before those of `net` take their place
                model = compile_for_proof(graph, net)
        except CompileError as error:
            place = next((d.node for d in error.diagnostics if d.node is not None), "")
            return ImportFault(
                innermost(place.removeprefix(whole_prefix(graph)), dict(net.named_modules(remove_duplicate=False))),
                f"the imported graph does not compile: {error.diagnostics[0].message if error.diagnostics else error}",
                again=any(d.code.startswith(f"{CHECKPOINT.name}-") for d in error.diagnostics),
            )
        shared = Shared(net, model, key_prefix(graph)) if together else None
        copies = shared.copies if shared is not None else (Copies(net), Copies(model))
        digests = Digests() if is_large else None
        yield
        fault = yield from find_fault(graph, net, model, args, kwargs, copies, digests, noise)
        return_free_memory(used)
        if shared is None or shared.is_intact:
            break  # otherwise its code changes parameters, and each needs its own
    if fault is not None:
        return fault
    tell("comparing inputs of other sizes", done=0.7)
    inputs, differs = yield from unlike(graph, copies, (args, kwargs), digests, varied, by_mode=by_mode)
    unknown = ImportFault("", "the imported graph computes something else")
    if differs:
        fault = (yield from find_fault(graph, net, model, *inputs, copies, noise=noise)) or unknown
        return fault._replace(reason=f"with inputs of other sizes, {fault.reason}")
    if shared is not None:
        shared.release()
    for first in converted(net, model, inputs, shared.originals if shared is not None else {}, typed=typed):
        tell(f"comparing what it does {first.said}", done=0.9)
        yield
        return_free_memory(used)
        each, answer = first, _same_converted(graph, first, is_large=is_large, by_mode=by_mode)
        if not answer and first.whole is not None:
            each = first.whole()
            answer = _same_converted(graph, each, is_large=is_large, by_mode=by_mode)
        if answer is False:
            again = Copies(each.net), Copies(each.model)
            with each.around():
                fault = ended(find_fault(graph, each.net, each.model, *each.inputs, again, noise=noise)) or unknown
            return fault._replace(reason=f"{each.said}, {fault.reason}")
    return None


def _same_converted(graph: NodeGraph, each: Converted, *, is_large: bool, by_mode: bool) -> bool | None:
    digests, answers = Digests() if is_large else None, set[bool | None]()
    if digests is not None:
        digests.share(each.net, each.model)
    for training in (False, True) if by_mode else (False,):
        pair = each.net.train(training), each.model.train(training)
        answers.add(tried(graph, *pair, each.inputs, each.around, digests, must_refuse=each.around is nullcontext))
    return False if False in answers else all(answers) or None


DTYPES = (torch.bfloat16, torch.float64)
"""Element types that are tried."""

MAX_DOUBLED = 2**26
"""Elements of all parameters beyond which float64 is not tried, to save memory."""

MAX_CONVERTED = 2**22
"""Elements of all parameters beyond which large ones have few different numbers at first, to save memory."""

LARGE = 2**16
"""Elements from which on a parameter is large."""


_METHODS = {torch.bfloat16: "bfloat16", torch.float16: "half", torch.float64: "double"}


class Converted(NamedTuple):
    """A module, its import, and inputs, all of another element type, or in an autocast to one.

    Attributes:
        dtype: The element type, as in ``torch.bfloat16``.
        net: A copy of the module.
        model: A copy of the model that the import compiles to, which shares the converted parameters.
        inputs: Arguments by position and by name.
        around: Makes the context of the calls.
        said: What is tried, in words.
        whole: Makes the same with all numbers of large parameters, if these have only few here.
    """

    dtype: torch.dtype
    net: nn.Module
    model: nn.Module
    inputs: tuple[tuple[Any, ...], dict[str, Any]]
    around: Callable[[], AbstractContextManager[Any]]
    said: str
    whole: Callable[[], Converted] | None = None


def converted(
    net: nn.Module, model: nn.Module, inputs: Any, originals: Mapping[int, torch.Tensor], *, typed: bool = False
) -> Iterator[Converted]:
    """Yield a module and its import in each of `DTYPES` and in an autocast; nothing for modules that this would harm.

    Args:
        net: The module.
        model: The model that its import compiles to.
        inputs: The inputs of a call.
        originals: The parameters of `net` by the identity of the equal ones of `model`.
        typed: Whether its code asks for element types: float16 is tried too then.
    """
    tensors = [*net.parameters(), *net.buffers()]
    if any(isinstance(part, torch.jit.ScriptModule) or "_orig_mod" in part._modules for part in net.modules()):
        return  # copies of scripted modules share what they would convert, and torch.compile would compile again
    if any(each.is_meta or each.is_quantized or each.layout != torch.strided for each in tensors):
        return
    device = next((each.device.type for each in tensors), "cpu")
    kept = {**{id(each): each for each in originals.values()}, **originals}  # what its code may change is copied
    halves = (torch.bfloat16, torch.float16) if typed else (torch.bfloat16,)
    for dtype in halves if torch.amp.is_autocast_available(device) else ():
        one, other = (
            duplicate(each, lambda tensor: kept[id(tensor)].detach() if id(tensor) in kept else None)
            for each in (net, model)
        )
        around = functools.partial(torch.autocast, device, dtype)
        yield Converted(dtype, one, other, inputs, around, f"in an autocast to {dtype}")
    size = sum(parameter.numel() for parameter in net.parameters())
    for dtype in (*DTYPES, torch.float16) if typed else DTYPES:
        if dtype is torch.float64 and size > MAX_DOUBLED:
            continue

        def made(least: int, dtype: torch.dtype = dtype) -> Converted:
            share = _sharing(dtype, originals, least)
            # A module may have a method of its own that does more than convert its tensors.
            copies = duplicate(net, share), duplicate(model, share)
            one, other = (getattr(each, _METHODS[dtype])() for each in copies)
            cast = pytree.tree_map(lambda leaf: _cast(leaf, dtype), inputs)
            return Converted(dtype, one, other, cast, nullcontext, f"converted to {dtype}")

        if size <= MAX_CONVERTED:
            yield made(size + 1)
        else:
            yield made(LARGE)._replace(whole=functools.partial(made, size + 1))


def _sharing(
    dtype: torch.dtype, originals: Mapping[int, torch.Tensor], least: int
) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """Return a function that converts parameters, each once for all modules; those of `least` elements or more become few."""
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def convert(tensor: torch.Tensor) -> torch.Tensor | None:
        if type(tensor) is not nn.Parameter:
            return None
        tensor = originals.get(id(tensor), tensor)
        if id(tensor) not in known:
            few = tensor.numel() >= least and tensor.is_floating_point() and tensor.is_contiguous()
            known[id(tensor)] = tensor, (_few if few else _cast)(tensor.detach(), dtype)
        return known[id(tensor)][1].detach()

    return convert


def _few(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of the same shape in which each row begins one number later, in the memory of a few rows.

    Shape:
        - tensor: `[*]`, any shape with at least one dimension; the result has the same.
    """
    count = sum(size - 1 for size in tensor.shape) + 1
    return torch.as_strided(tensor.view(-1)[:count].to(dtype), tensor.shape, (1,) * tensor.dim())


def _cast(leaf: Any, dtype: torch.dtype) -> Any:
    is_number = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.is_floating_point()
    return leaf.to(dtype) if is_number else leaf
