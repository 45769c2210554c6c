"""Proves an import: what it compiles to is compared with the module, in both modes, at other sizes and in other types."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from typing import Any, Protocol, TypeVar

from torch import nn

from pnne_nb.compiler.analysis.dispatch_modes import Digests, has_large_products
from pnne_nb.compiler.analysis.gradient_checksums import parameter_bytes
from pnne_nb.compiler.analysis.own_noise import OwnNoise, deterministic
from pnne_nb.compiler.analysis.verify import key_prefix, whole_prefix
from pnne_nb.compiler.importing.tracing.call_site import failed_at
from pnne_nb.compiler.importing.verification.batch_resize import tried, unlike
from pnne_nb.compiler.importing.verification.bisect import ImportFault, find_fault, innermost
from pnne_nb.compiler.importing.verification.element_types import Converted, converted
from pnne_nb.compiler.module.call_errors import blame
from pnne_nb.compiler.pipeline.compile import compile_for_proof
from pnne_nb.compiler.weights.deepcopy import Copies, Shared
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
    graph: NodeGraph, net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell, noise: OwnNoise, *,
    by_mode: bool, typed: bool,
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
        by_mode: Whether the module's code depends on the training mode.
        typed: Whether it depends on element types.
    """
    pieces = _compared(graph, net, args, kwargs, tell, noise, by_mode=by_mode, typed=typed)
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
    graph: NodeGraph, net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell, noise: OwnNoise, *,
    by_mode: bool, typed: bool,
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
    inputs, differs = yield from unlike(graph, copies, (args, kwargs), digests, by_mode=by_mode)
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
