"""Imports an ``nn.Module`` as a document that compiles to an equal module, with a proof."""

from __future__ import annotations

import functools
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.catalog.operators import CHECK
from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.dispatch_modes import Digests, has_large_products
from pnne_nb.compiler.analysis.example_inputs import EXAMPLES, normal_inputs
from pnne_nb.compiler.analysis.gradient_checksums import parameter_bytes
from pnne_nb.compiler.analysis.own_noise import OwnNoise, deterministic
from pnne_nb.compiler.analysis.verify import call_arguments, key_prefix, whole_prefix
from pnne_nb.compiler.importing.draft.draft import Item, Kind, Level, UntranslatableError
from pnne_nb.compiler.importing.draft.layers import is_extensible, layer_spec, obstacle, read_properties
from pnne_nb.compiler.importing.draft.source_lines import module_at, with_line, written_at
from pnne_nb.compiler.importing.tracing.call_site import failed_at
from pnne_nb.compiler.importing.tracing.calls import Slot, argument_names, named_arguments, port_names, slot_of
from pnne_nb.compiler.importing.tracing.observed_calls import (
    ObservedCalls,
    innermost_failure,
    observe,
    observe_failing,
    structure_of,
)
from pnne_nb.compiler.importing.tracing.tracer import ForwardCall
from pnne_nb.compiler.importing.translation.containers import nest
from pnne_nb.compiler.importing.translation.emit_ops import assemble, class_name, class_title, complete
from pnne_nb.compiler.importing.translation.translate import translate
from pnne_nb.compiler.importing.verification.bad_modules import (
    refuse_cycles,
    refuse_hidden,
    refuse_lazy,
    told_if_it_ends_or_hangs,
)
from pnne_nb.compiler.importing.verification.batch_resize import batch_of, tried, unlike
from pnne_nb.compiler.importing.verification.bisect import ImportFault, find_fault, innermost
from pnne_nb.compiler.importing.verification.element_types import Converted, converted
from pnne_nb.compiler.importing.verification.opaque_modules import TRIES, Call, OpaqueModules
from pnne_nb.compiler.ir.bind import element_type
from pnne_nb.compiler.lowering.attributes import node_at
from pnne_nb.compiler.module.call_errors import blame
from pnne_nb.compiler.pipeline.compile import compile_for_proof
from pnne_nb.compiler.weights.deepcopy import Copies, Shared, duplicate, untouched
from pnne_nb.compiler.weights.weight_source import keep_given
from pnne_nb.errors import CompileError, answers_misuse
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.structural import CHECKPOINT, TRAINABLE
from pnne_nb.process.gc_pause import collecting_new_only, return_free_memory
from pnne_nb.process.progress_line import ProgressLine, bar, is_watched, runs_unattended
from pnne_nb.process.random_state import private_random_state


@answers_misuse("pn.from_module(net, args=(x,))", EXAMPLES, input_shape="input_size=(2, 3)")
def from_module(
    net: nn.Module,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_size: Sequence[int] | Sequence[Sequence[int]] | None = None,
    partial: bool = False,
    timeout: float | None = 600.0,
) -> NodeGraph:
    """Import a module as a document, from one call with example inputs.

    Submodules become nested graphs, layers become nodes under their own names. What cannot be imported becomes an
    opaque ``Module`` node. The result is compiled and compared with the original before it is returned: every
    node's ``origin`` says ``{"proof": "equal"}``, or ``{"proof": "opaque", "reason": …}``. Arguments that are no
    tensors are taken as constants. ``graph.import_report`` lists what is open, what is closed, and why. From the first
    second on, a line in the notebook or terminal tells how far it is; an interrupt leaves the module as it was.

    Args:
        net: The module; it is not changed.
        args: Positional arguments of a typical call, such as images `[N, C, H, W]` or token ids `[N, T]`; a tensor
            alone is the only argument.
        kwargs: Keyword arguments of that call.
        input_size: Instead of `args`, the shape of the only input, or a sequence of shapes: normal float32 numbers.
        partial: Whether a module that fails with these inputs is drawn all the same, as far as its code can be followed,
            with a red frame around the node that fails. Nothing of it is proved then.
        timeout: Seconds after which an import is given up, with the line that runs then; None means none. Where a
            program handles interrupts in its own way, a call that waits outside Python, such as ``time.sleep``, ends first.

    Raises:
        CompileError: If the module cannot be called with these inputs, or cannot be copied, or contains itself; if its
            code ends the program, or runs longer than `timeout`.
        ArgumentError: If `input_size` is no shape, or `args` are given too; if `timeout` is no time.
    """
    if not isinstance(net, nn.Module):
        raise CompileError(f"pn.from_module takes an nn.Module, {_instead(net)}.")
    if input_size is not None:
        args = normal_inputs(input_size, args)
    refuse_cycles(net)
    refuse_hidden(net)
    args, given = following(call_arguments(args, kwargs), net)
    refuse_lazy(net)
    line = ProgressLine(sys.stderr)
    try:
        with untouched(net), told_if_it_ends_or_hangs(net, timeout), collecting_new_only():
            # The line is gone when the import ends, but a notebook that is run for its outputs keeps that it was there.
            seen = is_watched(sys.stderr) and not runs_unattended()
            return _proved(net, args, given, _Steps(net, line if seen else None), partial=partial)
    finally:
        line.clear()


@final
class _Steps:
    """Reports the progress of an import.

    Args:
        net: The imported module.
        line: The line of the report; None where nobody reads it.
    """

    def __init__(self, net: nn.Module, line: ProgressLine | None) -> None:
        self._title = type(net).__name__
        self._line = line
        self._count = sum(1 for _ in net.modules())
        self._seen: set[str] = set()

    def __call__(self, what: str, path: str = "", *, done: float | None = None) -> None:
        """Report the work on the module at a path; `done` is the share of the whole, by default that of drawing."""
        self._seen.add(path)
        if self._line is not None and self._line.is_due():
            share = 0.5 * len(self._seen) / self._count if done is None else done
            self._line.write(f"importing {self._title} {bar(share)}, {what} {path}".rstrip())


def _proved(net: nn.Module, args: tuple[Any, ...], given: dict[str, Any], tell: _Steps, *, partial: bool) -> NodeGraph:
    try:
        work = duplicate(net, torch.Tensor.detach)  # shares the memory, which tracing leaves alone
    except Exception as error:
        raise CompileError(f"{type(net).__name__} cannot be copied, so it cannot be imported: {error}") from error
    try:
        frames = observe(work, args, given, functools.partial(tell, "calling", done=0.0))
    except CompileError as error:
        if not partial:
            raise
        graph = _unproved(work, args, given, tell, error)
        keep_given(graph, net, f"the imported {type(net).__name__}")
        return graph
    batch = functools.cache(lambda: batch_of(work, args, given))
    opaque: dict[str, str] = {}
    failed: Counter[str] = Counter()
    noise = OwnNoise()
    again = True
    for count in itertools.count(1):
        importing = _Import(work, opaque, failed, frames, batch, tell, again=again)
        graph = importing.document(args, given)
        goes_by = {"by_mode": importing.goes_by_mode, "typed": importing.goes_by_type}
        check = functools.partial(_check, graph, net, args, given, tell, noise, **goes_by)
        fault = _fault(graph, net, (args, given), check)
        if fault is not None and fault.again and again:
            again = False
            continue
        if fault is None or (fault.unproved and "" in opaque and not importing.open):
            # What stays closed as a whole runs the module itself, whatever kept it from being compared.
            graph = importing.document(args, given, noise=noise.said(net)) if noise else graph
            keep_given(graph, net, f"the imported {type(net).__name__}")
            return graph
        path = _outside(fault.path, graph, net, opaque, importing.open)
        if count > MANY:
            path = path.partition(".")[0] if count <= 2 * MANY else ""
        path = path if path in importing.open or path not in opaque else ""
        if path in importing.open:
            failed[path] += 1
        elif path in opaque:
            break  # all of it is closed
        else:
            opaque[path] = _told(fault.reason, net.get_submodule(path))
        if count > 2 * MANY:
            failed[path] = TRIES
    raise CompileError(
        f"{type(net).__name__} cannot be imported: {opaque.get('', 'nothing of it can be verified').rstrip('.')}."
    )


MANY = 16
"""Proofs of an import after which whole outer blocks are closed, and after as many again all of it: each calls the module."""


def _outside(path: str, graph: NodeGraph, net: nn.Module, opaque: Mapping[str, str], open: set[str]) -> str:
    """Return the path of the innermost module around a fault whose code is drawn: what it does not draw is not at fault."""
    while path and path not in open:
        node = node_at(graph, path)
        is_closed = node and graph[node].type == "Module" and not graph[node].is_box
        is_held = isinstance(net.get_submodule(path), (nn.ModuleList, nn.ModuleDict))
        if not (is_closed or is_held or path in opaque):
            break
        path = path.rpartition(".")[0]
    return path


def _fault(
    graph: NodeGraph, net: nn.Module, inputs: Any, check: Callable[[], ImportFault | None]
) -> ImportFault | None:
    """Compare an import with its module; where that itself fails, nothing is proved, which is a fault like any other."""
    try:
        with deterministic(net, inputs):
            return check()
    except Exception as error:  # noqa: BLE001  # whatever happens in a proof, the module itself can still be called
        place = innermost(f"{blame(error) or ''}".removeprefix(whole_prefix(graph)), dict(net.named_modules()))
        return ImportFault(place, f"comparing it with what is drawn fails: {failed_at(error)[1]}", unproved=True)


def _told(reason: str, module: nn.Module) -> str:
    """Return why a module differs from its import, with a line of its code."""
    own = type(module).train
    if own is not nn.Module.train:
        at = written_at(own)
        reason += f"; its class has a train() of its own, which is not drawn{f' ({at})' if at else ''}"
    return with_line(reason, module_at(module))


def _unproved(
    net: nn.Module, args: tuple[Any, ...], given: dict[str, Any], tell: _Steps, error: CompileError
) -> NodeGraph:
    """Return the graph of a module that fails, with frames around the node that fails and the blocks that hold it."""
    seen = observe_failing(net, args, given)
    failing = innermost_failure(seen)
    importing = _Import(net, {}, Counter(), {False: seen}, lambda: None, tell, again=False)
    line, said = failed_at(error.__cause__ or error)
    graph = importing.document(args, given, said)
    path = node_at(graph, failing.path)
    own = importing.made_by(failing.path, line) if not path or graph[path].type == "Subgraph" else ""
    names = ".".join(filter(None, (path, own))).split(".")
    for depth in range(len(names), 0, -1):
        whole = ".".join(names[:depth])
        if whole in graph:
            title = "This fails" if depth == len(names) else f"{'.'.join(names[depth:])} fails in here"
            graph.frames.add(title, around=[whole], text=said, colour="red")
    return NodeGraph.from_json(graph.to_json())


def _instead(given: object) -> str:
    return (
        f"such as {given.__name__}(...), not its class" if isinstance(given, type) else f"not a {type(given).__name__}"
    )


def _frozen(module: nn.Module, path: str = "") -> Iterator[str]:
    """Yield the paths of the outermost modules of which no parameter is trained."""
    trained = [parameter.requires_grad for parameter in module.parameters()]
    if trained and not any(trained):
        yield path
    elif not all(trained):
        for name, part in module.named_children():
            yield from _frozen(part, f"{path}.{name}" if path else name)


def _check(
    graph: NodeGraph,
    net: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tell: _Steps,
    noise: OwnNoise,
    *,
    by_mode: bool,
    typed: bool,
) -> ImportFault | None:
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
        fault = find_fault(graph, net, model, args, kwargs, copies, digests, noise)
        return_free_memory(used)
        if shared is None or shared.is_intact:
            break  # otherwise its code changes parameters, and each needs its own
    if fault is not None:
        return fault
    tell("comparing inputs of other sizes", done=0.7)
    inputs, differs = unlike(graph, copies, (args, kwargs), digests, by_mode=by_mode)
    unknown = ImportFault("", "the imported graph computes something else")
    if differs:
        fault = find_fault(graph, net, model, *inputs, copies, noise=noise) or unknown
        return fault._replace(reason=f"with inputs of other sizes, {fault.reason}")
    if shared is not None:
        shared.release()
    for first in converted(net, model, inputs, shared.originals if shared is not None else {}, typed=typed):
        tell(f"comparing what it does {first.said}", done=0.9)
        return_free_memory(used)
        each, answer = first, _same_converted(graph, first, is_large=is_large, by_mode=by_mode)
        if not answer and first.whole is not None:
            each = first.whole()
            answer = _same_converted(graph, each, is_large=is_large, by_mode=by_mode)
        if answer is False:
            again = Copies(each.net), Copies(each.model)
            with each.around():
                fault = find_fault(graph, each.net, each.model, *each.inputs, again, noise=noise) or unknown
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


@final
class _Import:
    def __init__(
        self,
        net: nn.Module,
        opaque: Mapping[str, str],
        failed: Counter[str],
        frames: ObservedCalls,
        batch: Callable[[], int | None],
        tell: Callable[[str, str], None],
        *,
        again: bool,
    ) -> None:
        self._opaque_modules = OpaqueModules(net, opaque, failed, frames, self._alone)
        self._net = net
        self._opaque = opaque
        self._frames = frames
        self._batch = batch
        self._tell = tell
        self._again = again
        self._levels: dict[tuple[str, str], Level] = {}
        self._drawn: dict[str, Level] = {}

    @property
    def open(self) -> set[str]:
        """Paths of opaque modules with imported submodules."""
        return self._opaque_modules.open

    @property
    def goes_by_mode(self) -> bool:
        """Whether the imported code depends on the training mode."""
        return any(level.branches for level in self._drawn.values())

    @property
    def goes_by_type(self) -> bool:
        """Whether the imported code depends on element types."""
        return any(level.typed for level in self._drawn.values())

    def document(self, args: tuple[Any, ...], kwargs: dict[str, Any], failure: str = "", noise: str = "") -> NodeGraph:
        called = named_arguments(self._net, args, kwargs)
        reason = self._opaque.get("") or obstacle(self._net)
        level = self._whole(called, len(args), reason) if reason else self._outermost(called, len(args))
        for name, value in called:
            item = next(item for item in level.of_type("Input") if item.argument == name)
            if isinstance(value, torch.Tensor):
                item.properties = {"shape": tuple(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        for item in list(level.of_type("Input"))[-1:]:
            item.omitted = tuple(name for name in argument_names(self._net) if name not in dict(called))
        self._tie(level)
        self._freeze(level, self._net)
        if self._again:
            _compute_again(level, inside=False)
        graph = NodeGraph(class_title(self._net))
        graph.apply(assemble(level, failure, noise), label=f"Import {class_title(self._net)}")
        return NodeGraph.from_json(graph.to_json())

    def made_by(self, path: str, line: int) -> str:
        """Return the last node that a line of a module's code makes, or else the last one of all; empty if there is none."""
        level = self._drawn.get(path)
        items = [item for item in level.items if item.line is not None] if level is not None else []
        there = [item for item in items if item.line == line] or items
        return there[-1].name if there else ""

    def _tie(self, level: Level) -> None:
        """Note tensors with several names, such as the weight of an embedding that is also that of the output."""
        held = {".".join(item.member): item for item in level.items if item.member and item.owner is None}
        whole = next((item for item in level.items if item.whole and item.inner is not None), None)
        first: dict[int, str] = {}
        named = self._net.named_parameters(remove_duplicate=False), self._net.named_buffers(remove_duplicate=False)
        for path, tensor in itertools.chain(*named):
            other = first.setdefault(id(tensor), path)
            parts = path.split(".")
            above = next((".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in held), "")
            if other != path and above:
                held[above].ties[path.removeprefix(above).removeprefix(".")] = other
            elif other != path and whole is not None:
                whole.ties[path] = other if whole.in_place else f"{whole.name}.{other}"

    def _freeze(self, level: Level, holder: nn.Module) -> None:
        """Freeze the layers and blocks that are not trained."""
        below = dict(holder.named_modules(remove_duplicate=False))
        for item in level.items:
            module = below.get(".".join(item.member)) if item.member and item.owner is None else None
            if module is None or item.type == "Module":
                continue
            paths = list(_frozen(module))
            if "" in paths and TRAINABLE in registry[item.type].properties:
                item.properties[TRAINABLE.name] = False
            elif item.inner is not None:
                self._freeze(item.inner, module)
            else:
                item.frozen = tuple(paths)

    def _outermost(self, called: list[tuple[str, Any]], positional: int) -> Level:
        try:
            return self._alone(self._net, "", self._frames, (called, positional))
        except UntranslatableError as error:
            reason = str(error)
        if [*self._net.children()]:
            reason += "; moved into a submodule or function of its own, only that part would stay opaque"
        return self._whole(called, positional, reason)

    def _alone(self, module: nn.Module, path: str, frames: ObservedCalls, call: Call) -> Level:
        """Draw a module by itself; numbers among its arguments stay arguments if no branch or loop depends on them."""
        called, positional = call
        reason = ""
        for computed in (True, False):
            try:
                slots = [slot_of(name, value, computed=computed) for name, value in called]
                arguments = tuple(slots[:positional]), {slot.name: slot for slot in slots[positional:]}
                return self._level(ForwardCall(module, arguments, frames), path, dict(called))
            except UntranslatableError as error:
                reason = reason or str(error)
        raise UntranslatableError(reason)

    def _whole(self, called: list[tuple[str, Any]], positional: int, reason: str) -> Level:
        """Return a graph that only calls the module, for a module that cannot be imported."""
        level = Level(class_title(self._net), nn.Module())
        entries = {name: level.add(Item("Input", name, argument=name)) for name, _ in called}
        reason = with_line(reason, module_at(self._net))
        ports = port_names(self._net, positional, [name for name, _ in called[positional:]])
        properties: dict[str, object] = {"target": class_name(self._net), "inputs": ports}
        item = level.add(Item("Module", "module", properties, reason=reason, whole=True))
        item.in_place = is_extensible(self._net)
        item.inner = self._opaque_modules.inside(self._net, "")
        item.inputs = {name: (entry, "output") for name, entry in entries.items()}
        level.add(Item("Output", "output", inputs={"input": (item, "output")}))
        complete(level)
        return level

    def _level(self, call: ForwardCall, path: str, called: Mapping[str, Any] | None = None) -> Level:
        self._tell("drawing", path)
        level = self._drawn[path] = translate(
            call, lambda below, inner: self._child(inner, ".".join([path, *below] if path else below), below)
        )
        for size, text in level.batches:
            if size == self._batch():
                raise UntranslatableError(
                    f"it loops over the examples of a batch ({text} is {size}), and the graph would "
                    "repeat the loop as often as in this call"
                )
        # Arguments that are constants stay in the signature, so that calls of the original fit.
        given = {item.argument: item for item in level.of_type("Input")}
        for name in called or ():
            if name not in given:
                given[name] = Item("Input", name, argument=name, kinds={"output": "value"})
        if called:
            rest = [item for item in level.items if item.type != "Input"]
            level.items[:] = [*(given[name] for name in called), *rest]
            if any(each.ranked for each in (level, *self._levels.values())):
                _check_ranks(level, called)
        nest(level)
        complete(level)
        return level

    def _child(self, call: ForwardCall, path: str, below: tuple[str, ...]) -> Item:
        name, called = below[-1], call.module
        reason = self._opaque.get(path) or obstacle(called)
        spec = layer_spec(called)
        if spec is not None and not reason:
            properties = read_properties(called, spec)
            if properties is not None:
                return Item(spec.type, name, properties, member=below, element=element_type(called))
            if not list(called.children()):
                reason = f"not every constructor argument of a {spec.type} can be read back from it"
        if not reason:
            slots = pytree.tree_map(lambda v: (v.name, v.tensor) if isinstance(v, Slot) else v, call.arguments)
            given = next(({**dict(enumerate(frame.args)), **frame.kwargs} for frame in call.frames.values()), {})
            key = path, repr((slots, structure_of(given)))
            try:
                if key not in self._levels:
                    self._levels[key] = self._level(call, path)
            except UntranslatableError as error:
                reason = str(error)
            else:
                return Item("Subgraph", name, member=below, inner=self._levels[key])
        tensor = all(isinstance(frame.result, torch.Tensor) for frame in call.frames.values())
        kind: Kind = "tensor" if tensor else "value"
        properties = {"target": class_name(called)}
        reason = with_line(reason, module_at(called))
        inner = self._opaque_modules.inside(called, path)
        return Item("Module", name, properties, member=below, inner=inner, reason=reason, kinds={"output": kind})


def _compute_again(level: Level, *, inside: bool, held: bool = False) -> None:
    """Checkpoint the nodes whose calls the original computes again.

    Args:
        level: The draft of the graph.
        inside: Whether the call of the whole level is checkpointed.
        held: Whether the code of an opaque module calls them, which checkpoints by itself.
    """
    for item in level.items:
        whole = item.inner is not None and item.inner.again
        if not held and ((item.again and not inside) or whole):
            item.properties[CHECKPOINT.name] = True
            item.twice = True
        if item.inner is not None:
            _compute_again(item.inner, inside=whole and not held, held=item.type == "Module")


def _check_ranks(level: Level, called: Mapping[str, Any]) -> None:
    """Add checks that refuse tensors with another number of dimensions than in this call to the outermost graph."""
    inputs = [item for item in level.of_type("Input") if isinstance(called.get(item.argument), torch.Tensor)]
    checks: list[Item] = []
    for item in inputs:
        rank = called[item.argument].dim()
        found = Item("getattr", "ndim", {"name": "ndim"}, {"input": (item, "output")}, kinds={"output": "value"})
        same = Item("operator_eq", "eq", {"b": rank}, {"a": (found, "output")}, kinds={"output": "value"})
        said = f"imported for {item.argument}.ndim == {rank}; otherwise import again"
        checks += [found, same, Item(CHECK, CHECK, {"message": said}, {"condition": (same, "output")})]
    place = len(list(level.of_type("Input")))
    level.items[place:place] = checks
