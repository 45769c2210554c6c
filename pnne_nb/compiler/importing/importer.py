"""Imports an ``nn.Module`` as a document that compiles to an equal module, with a proof."""

from __future__ import annotations

import functools
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.catalog.operators import CHECK
from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.example_inputs import EXAMPLES, normal_inputs
from pnne_nb.compiler.analysis.nested_values import copied, tensors_in
from pnne_nb.compiler.analysis.own_noise import OwnNoise
from pnne_nb.compiler.analysis.verify import call_arguments
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
from pnne_nb.compiler.importing.verification.batch_resize import Varied, batch_of, free_sizes
from pnne_nb.compiler.importing.verification.opaque_modules import TRIES, Call, OpaqueModules
from pnne_nb.compiler.importing.verification.proof import ended, proof
from pnne_nb.compiler.ir.bind import element_type
from pnne_nb.compiler.lowering.attributes import node_at
from pnne_nb.compiler.weights.deepcopy import duplicate, refers_to_itself, untouched
from pnne_nb.compiler.weights.weight_source import keep_given
from pnne_nb.errors import CompileError, answers_misuse
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.origin import FreeSizes
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.structural import CHECKPOINT, TRAINABLE
from pnne_nb.process.gc_pause import collecting_new_only
from pnne_nb.process.progress_line import ProgressLine, bar, is_watched, runs_unattended


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
    args, given = _call(net, args, kwargs, input_size)
    tell, varied = _Steps(net), Varied()
    with _guarded(net, tell, timeout):
        graph = ended(_stages(net, args, given, tell, varied, partial=partial))
    graph.note_sizes(_sizes(graph, net, args, given, varied))
    keep_given(graph, net, _whose(net))
    return graph


@final
class UnprovedImport:
    """An import that shows its document before it is proved, and is proved piece by piece.

    The proof works on a copy, so that the module and its arguments can be used and changed between two pieces. A module
    whose copies still refer to it, by hooks or a replaced ``forward``, or share what they would change, as scripted ones
    do, is proved at once.

    Args:
        net: The module; it is not changed.
        args: Positional arguments of a typical call.
        kwargs: Keyword arguments of that call.
        input_size: Instead of `args`, the shape of the only input, or a sequence of shapes.

    Attributes:
        graph: The document as it is drawn; in the end as it is proved, or as it was drawn if the proof failed.
        is_proved: Whether the proof has ended.
        error: Why nothing could be proved in the end; None if it was.

    Raises:
        CompileError: As `from_module`, with ``partial=True``.
    """

    def __init__(
        self,
        net: nn.Module,
        args: Sequence[Any] | torch.Tensor = (),
        kwargs: Mapping[str, Any] | None = None,
        input_size: Sequence[int] | Sequence[Sequence[int]] | None = None,
    ) -> None:
        args, given = _call(net, args, kwargs, input_size)
        is_apart = not refers_to_itself(net)
        if is_apart:
            with suppress(Exception), untouched(net):  # what cannot be copied is refused below, in words
                net = duplicate(net)
        self._net, self._given = net, copied((args, given)) if is_apart else (args, given)
        self._tell = _Steps(net)
        self._stages: Generator[NodeGraph | None, None, NodeGraph] | None = None
        self._varied = Varied()
        self.is_proved = False
        self.error: Exception | None = None
        self.graph = self._begin()
        if not is_apart:
            self.go_on(until_proved=True)
            if self.error is not None:
                raise self.error

    def _begin(self) -> NodeGraph:
        args, given = self._given
        self._stages = _stages(self._net, args, given, self._tell, self._varied, partial=True)
        try:
            with _guarded(self._net, self._tell):
                drawn = next(self._stages)
        except StopIteration as done:  # the module itself fails, so there is nothing to compare with
            self.is_proved, drawn = True, done.value
        assert drawn is not None, "the first stage draws"
        return NodeGraph.from_json(drawn.to_json())

    @property
    def sizes(self) -> dict[str, FreeSizes]:
        """The free sizes that the proof has found, by the name of the Input."""
        args, given = self._given
        return _sizes(self.graph, self._net, args, given, self._varied)

    def go_on(self, *, until_proved: bool = False) -> bool:
        """Do one piece of the proof, or all that are left, and return whether it has ended.

        An interrupt goes through; the proof then begins again with the next piece.
        """
        try:
            with _guarded(self._net, self._tell):
                while not self._step() and until_proved:
                    pass
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing is proved
            self.error, self.is_proved = error, True
        return self.is_proved

    def _step(self) -> bool:
        args, given = self._given
        stages = self._stages or _stages(self._net, args, given, self._tell, self._varied, partial=True)
        self._stages = None
        if not self.is_proved:
            try:
                next(stages)
            except StopIteration as done:
                self.graph, self.is_proved = done.value, True
            else:
                self._stages = stages
        return self.is_proved


def _sizes(
    graph: NodeGraph, net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], varied: Varied
) -> dict[str, FreeSizes]:
    """Return the free sizes of each Input of an import, which stand in the order of the arguments, by name."""
    tensors = tensors_in((args, kwargs))
    found = {id(tensor): sizes for tensor, sizes in zip(tensors, free_sizes(varied, tensors), strict=True)}
    entries = [name for name, node in graph.nodes.items() if node.type == "Input"]
    called = zip(entries, named_arguments(net, args, kwargs), strict=False)
    return {name: found[id(value)] for name, (_, value) in called if any(found.get(id(value), ()))}


def _whose(net: nn.Module) -> str:
    return f"the imported {type(net).__name__}"


def _call(
    net: nn.Module, args: Any, kwargs: Mapping[str, Any] | None, input_size: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a module's call, on its device; refuse a module that cannot be imported at all."""
    if not isinstance(net, nn.Module):
        raise CompileError(f"pn.from_module takes an nn.Module, {_instead(net)}.")
    if input_size is not None:
        args = normal_inputs(input_size, args)
    refuse_cycles(net)
    refuse_hidden(net)
    call: tuple[tuple[Any, ...], dict[str, Any]] = following(call_arguments(args, kwargs), net)
    refuse_lazy(net)
    return call


@contextmanager
def _guarded(net: nn.Module, tell: _Steps, timeout: float | None = 600.0) -> Iterator[None]:
    """Leave a module and the process as they were after this block, and tell on a line how far an import is."""
    line = ProgressLine(sys.stderr)
    try:
        with untouched(net), told_if_it_ends_or_hangs(net, timeout), collecting_new_only():
            # The line is gone when the import ends, but a notebook that is run for its outputs keeps that it was there.
            tell.line = line if is_watched(sys.stderr) and not runs_unattended() else None
            yield
    finally:
        tell.line = None
        line.clear()


@final
class _Steps:
    """Reports the progress of an import.

    Args:
        net: The imported module.

    Attributes:
        line: The line of the report; None where nobody reads it.
    """

    def __init__(self, net: nn.Module) -> None:
        self.line: ProgressLine | None = None
        self._title = type(net).__name__
        self._count = sum(1 for _ in net.modules())
        self._seen: set[str] = set()

    def __call__(self, what: str, path: str = "", *, done: float | None = None) -> None:
        """Report the work on the module at a path; `done` is the share of the whole, by default that of drawing."""
        self._seen.add(path)
        if self.line is not None and self.line.is_due():
            share = 0.5 * len(self._seen) / self._count if done is None else done
            self.line.write(f"importing {self._title} {bar(share)}, {what} {path}".rstrip())


def _stages(
    net: nn.Module, args: tuple[Any, ...], given: dict[str, Any], tell: _Steps, varied: Varied, *, partial: bool
) -> Generator[NodeGraph | None, None, NodeGraph]:
    """Yield an import as it is drawn, then after each piece of its proof, and return it as it is proved."""
    try:
        work = duplicate(net, torch.Tensor.detach)  # shares the memory, which tracing leaves alone
    except Exception as error:
        raise CompileError(f"{type(net).__name__} cannot be copied, so it cannot be imported: {error}") from error
    try:
        frames = observe(work, args, given, functools.partial(tell, "calling", done=0.0))
    except CompileError as error:
        if not partial:
            raise
        return _unproved(work, args, given, tell, error)
    batch = functools.cache(lambda: batch_of(work, args, given))
    opaque: dict[str, str] = {}
    failed: Counter[str] = Counter()
    noise = OwnNoise()
    again = True
    for count in itertools.count(1):
        importing = _Import(work, opaque, failed, frames, batch, tell, again=again)
        graph = importing.document(args, given)
        yield graph
        varied.clear()
        goes_by = {"by_mode": importing.goes_by_mode, "typed": importing.goes_by_type}
        fault = yield from proof(graph, net, args, given, tell, noise, varied, **goes_by)
        if fault is not None and fault.again and again:
            again = False
            continue
        if fault is None or (fault.unproved and "" in opaque and not importing.open):
            # What stays closed as a whole runs the module itself, whatever kept it from being compared.
            return importing.document(args, given, noise=noise.said(net)) if noise else graph
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
    graph = importing.document(args, given, f"it fails with the example: {said}")
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
