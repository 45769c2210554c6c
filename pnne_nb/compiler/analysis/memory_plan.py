"""Plans the memory of one pass of a model: lifetime of each node's results, peak use, and where the peak is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any, TypeAlias, final

import msgspec
import torch
from torch import nn
from torch.autograd.graph import Node
from torch.utils._python_dispatch import TorchDispatchMode

from pnne_nb.compiler.analysis.example_inputs import call_inputs
from pnne_nb.compiler.analysis.interpreter import NodeExecution, added_functions, stepping
from pnne_nb.compiler.analysis.nested_values import copied, tensor_leaves
from pnne_nb.compiler.analysis.observe import Observer
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.module.call_errors import blame
from pnne_nb.compiler.pipeline.compile import made
from pnne_nb.compiler.shapes.fake_tensors import imitation, imitation_with_optimizer
from pnne_nb.compiler.weights.deepcopy import duplicate
from pnne_nb.errors import ArgumentError, CompileError, Diagnostic, PnneError, expect, near, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.random_state import preserved_random_state, private_random_state

OptimizerKind: TypeAlias = str | type[torch.optim.Optimizer] | None
"""The optimizer of a planned training step, by name in ``torch.optim`` or as a class; None counts none."""

_NOT_PLANNED = ("Optimizer", "LBFGS")
"""The base class, and what computes the loss again by a closure."""

BACKWARD = "(backward)"
"""Stands behind the path of a node in the backward pass; alone where no node is known."""

OPTIMIZER = "(optimizer)"
"""Stands for a node while the optimizer makes its step."""


class Lifetime(msgspec.Struct, frozen=True):
    """Memory that one node allocates at one step, and the steps during which it is in use.

    Attributes:
        node: Path of the node.
        bytes: How much.
        born: Step at which it was taken.
        died: Last step at which it was in use.
        saved: Whether it was in use when the forward pass was over: a result, or kept for the backward pass.
    """

    node: str
    bytes: int
    born: int
    died: int
    saved: bool


@final
class MemoryPlan(msgspec.Struct, frozen=True):
    """Lifetimes of all memory in one forward pass, or in one training step.

    Attributes:
        steps: Path of the node that ran at each step, with `BACKWARD` behind it in the backward pass.
        live: The most bytes in use during each step, beside what is there all the time.
        lifetimes: Results of nodes and what is kept with them, in the order in which they were taken.
        fixed: Bytes of parameters, buffers, inputs and the optimizer's state, there all the time.
        devices: Most bytes in use at once on each device, parameters and inputs included.
        optimizer: Bytes of the optimizer's state, which `fixed` includes.
        workspaces: Paths of the nodes whose kernels are cuDNN's: what these take beside tensors is unknown.
    """

    steps: tuple[str, ...]
    live: tuple[int, ...]
    lifetimes: tuple[Lifetime, ...]
    fixed: int
    devices: dict[str, int] = {}
    optimizer: int = 0
    workspaces: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        """Most bytes in use at once, parameters and inputs included."""
        return self.fixed + max(self.live, default=0)

    @property
    def peak_at(self) -> str:
        """Path of the node that runs at the peak."""
        return self.steps[self.live.index(max(self.live))] if self.live else ""

    def saved_by(self, node: str) -> int:
        """Return how many bytes of a node and its content are still in use after the forward pass."""
        return sum(
            each.bytes for each in self.lifetimes
            if each.saved and (each.node == node or each.node.startswith(f"{node}."))
        )  # fmt: skip

    def table(self) -> list[tuple[str, int, str, str]]:
        """Return node, bytes, and the nodes at which the memory is allocated and freed, the largest first."""
        rows = [
            (each.node, each.bytes, self.steps[each.born], "kept" if each.saved else self.steps[each.died])
            for each in self.lifetimes
        ]
        return sorted(rows, key=lambda row: -row[1])

    def __repr__(self) -> str:
        peak = f"peak {size(self.peak)} at {self.peak_at or 'rest'}"
        return f"MemoryPlan({len(self.steps)} steps, {peak}{self._spread}{self.unknown})"

    @property
    def unknown(self) -> str:
        """What the plan does not count, as the end of a sentence; empty if it counts everything."""
        if not self.workspaces:
            return ""
        names = ", ".join(filter(None, self.workspaces[:3]))
        more = f" and {len(self.workspaces) - 3} more" if len(self.workspaces) > 3 else ""
        return f"; without the workspaces of cuDNN{f' at {names}{more}' if names else ''}, which no tensor shows"

    @property
    def _spread(self) -> str:
        """The peak on each device, if there are several."""
        if len(self.devices) < 2:
            return ""
        return "; " + ", ".join(f"{device}: {size(bytes)}" for device, bytes in self.devices.items())

    def __str__(self) -> str:
        width = max((len(step) for step in self.steps), default=0)
        top = max(self.live, default=0) or 1
        running = f"{size(top)} while it runs{self._spread}"
        lines = [
            f"peak {size(self.peak)} at {self.peak_at or 'rest'}: {size(self.fixed)} always, {running}{self.unknown}"
        ]
        for step, live in zip(self.steps, self.live, strict=True):
            lines.append(
                f"  {step:<{width}} {size(live):>9} {'█' * round(24 * live / top)}{' ← peak' if live == top else ''}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        top = max(self.live, default=0) or 1
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(step)}</td><td style='text-align:right'>{size(live)}</td>"
            f"<td style='min-width:220px'><div style='height:.8em;width:{100 * live / top:.1f}%;background:"
            f"{'#d62728' if live == top else '#1f77b4'}'></div></td></tr>"
            for step, live in zip(self.steps, self.live, strict=True)
        )
        longest = "".join(
            f"<tr><td style='text-align:left'>{escape(node)}</td><td style='text-align:right'>{size(bytes)}</td>"
            f"<td style='text-align:left'>{escape(born)} → {escape(died)}</td></tr>"
            for node, bytes, born, died in self.table()[:10]
        )
        rest = escape(self._spread + self.unknown)
        return (
            f"<b>Peak {size(self.peak)}</b> at {escape(self.peak_at)}; {size(self.fixed)} of it always{rest}"
            "<div style='max-height:32em;overflow:auto'>"
            f"<table><tr><th>step</th><th>in use</th><th></th></tr>{rows}</table></div>"
            "<table><caption style='text-align:left'>The largest</caption>"
            f"<tr><th>node</th><th>bytes</th><th>lives</th></tr>{longest}</table>"
        )


def plan_memory(
    model: NodeGraph | nn.Module,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
    optimizer: OptimizerKind = "AdamW",
) -> MemoryPlan:
    """Plan the memory of a forward pass or of a training step: lifetimes, and the peak with its node.

    The model runs on tensors without data, so this costs no memory itself, and works for a model that would not fit.
    It counts what tensors hold, on all devices together and, in ``devices``, on each, but not what kernels use inside
    for a moment.

    Args:
        model: A document, or a model compiled from one.
        args: Positional inputs, of which only shapes and element types matter; from the shapes of the Input nodes if
            neither these nor `kwargs` are given.
        kwargs: Those by name.
        training: Whether to run a whole training step: forward, backward, and the optimizer's update with its state.
        optimizer: For a training step, the optimizer whose state is counted, by its name in ``torch.optim`` or as a class;
            None counts neither state nor update.

    Raises:
        ArgumentError: If there is no such optimizer, or it does not take the model's parameters.
        CompileError: If the document cannot be compiled, `model` is no compiled model, there is nothing to make inputs
            from, or the model looks at its data, which tensors without data do not have.
    """
    expect(model, (NodeGraph, nn.Module), "model", "a NodeGraph or a model compiled from one")
    expect(training, bool, "training", "True or False")
    graph = model if isinstance(model, NodeGraph) else None
    if isinstance(model, NodeGraph):
        with preserved_random_state():
            model = made(model, purpose="look").model
    loader.require(model, "it has no nodes whose memory to plan")
    if graph is None and args is None and not kwargs:
        raise CompileError("Inputs are needed to run the model: pass args=(...), or the graph instead of the model.")
    args, kwargs = call_inputs(graph or NodeGraph(), model, args, kwargs)
    try:
        moved = made_optimizer(model, optimizer) if training else None
        return measure_memory(model, args, kwargs, training=training, optimizer=moved)
    except PnneError:
        raise
    except Exception as error:
        node = blame(error)
        place = f" at {node!r}" if node is not None else ""
        message = f"The memory cannot be computed without data{place}: {error}"
        raise CompileError(message, [Diagnostic(code="needs-data", message=message, node=node)]) from error


def made_optimizer(model: nn.Module, kind: OptimizerKind) -> torch.optim.Optimizer | None:
    """Return an optimizer of the trained parameters of a model, whose state is empty; None if there is nothing to move.

    Raises:
        ArgumentError: If there is none of this kind, it needs a closure, or it does not take the parameters.
    """
    if kind is None:
        return None
    listed = {name: getattr(torch.optim, name) for name in torch.optim.__all__}
    known = {name: each for name, each in listed.items() if isinstance(each, type) and name not in _NOT_PLANNED}
    made: Any = known.get(kind) if isinstance(kind, str) else kind
    if not isinstance(made, type) or not issubclass(made, torch.optim.Optimizer) or made.__name__ in _NOT_PLANNED:
        raise ArgumentError(
            f"optimizer must be the name of one in torch.optim that needs no closure, such as 'AdamW', its class, or None, "
            f"which counts no state, not {shown(kind)}.{near(kind, known) if isinstance(kind, str) else ''}"
        )
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer] = made
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        return make(trained) if trained else None
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{made.__name__} does not take the model's parameters: {error}") from error


def measure_memory(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    training: bool,
    optimizer: torch.optim.Optimizer | None = None,
    data: bool = False,
) -> MemoryPlan:
    """Run a compiled model on fake tensors, and return the memory that it would use.

    With `data`, a copy runs with its data, for a model that looks at them; that does take the memory. An `optimizer` makes
    its step too, on fake tensors only.
    """
    if optimizer is not None:
        with imitation_with_optimizer(model, (args, dict(kwargs)), optimizer) as (twin, given, moved):
            twin.train(training)
            assert moved is not None, "it is a copy of the optimizer"
            _with_state(moved)
            return _measured(twin, given, lambda: twin(*given[0], **given[1]), training=training, optimizer=moved)
    with (_copies if data else imitation)(model, (args, dict(kwargs))) as (twin, given):
        twin.train(training)
        return _measured(twin, given, lambda: twin(*given[0], **given[1]), training=training)


def measure_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    inputs: Callable[[], Any],
    run: Callable[[nn.Module, Any], Any],
) -> MemoryPlan:
    """Return the memory that a step of a training would use: forward, backward, update. It is none of the first steps.

    Args:
        model: Any module; it stays as it is, and so does the optimizer.
        optimizer: What moves its parameters; None counts no update.
        inputs: Makes the inputs, on the devices where they are to be; called where tensors are fake.
        run: Given a copy of the model and the inputs, computes what the backward pass starts from.

    Raises:
        Exception: Whatever a model raises that looks at its data, which fake tensors do not have.
    """
    with imitation_with_optimizer(model, (), optimizer) as (twin, _, moved):
        twin.train()
        given = inputs()
        if moved is not None:
            _with_state(moved)
        return _measured(twin, given, lambda: run(twin, given), training=True, optimizer=moved)


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Return the bytes that an optimizer keeps for each parameter of a model after its first step, by name."""
    with imitation_with_optimizer(model, (), optimizer) as (twin, _, moved):
        assert moved is not None, "it is a copy of the optimizer"
        _with_state(moved)
        return {
            name: sum(tensor.nbytes for tensor in tensor_leaves(moved.state.get(parameter)))
            for name, parameter in twin.named_parameters()
        }


def _with_state(optimizer: torch.optim.Optimizer) -> None:
    """Let an optimizer make its state, as in the first step."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.empty_like(parameter) if parameter.requires_grad else None
    _update(optimizer)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def _update(optimizer: torch.optim.Optimizer) -> None:
    with _Counters(), torch.no_grad():  # type: ignore[no-untyped-call]  # torch does not say
        # Of the class: a scheduler puts a function of the original in the place of its method.
        type(optimizer).step(optimizer)


@final
class _Counters(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Lets optimizers read the number of their step and what they make of it, on which no size depends."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 7.5  # beyond the first steps of RAdam; 1 less the product of NAdam's momenta is not 0
        return func(*args, **(kwargs or {}))


def _measured(
    model: nn.Module,
    given: Any,
    run: Callable[[], Any],
    *,
    training: bool,
    optimizer: torch.optim.Optimizer | None = None,
) -> MemoryPlan:
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers(), *tensor_leaves(given))}
    state = {id(tensor): tensor for tensor in tensor_leaves(list(optimizer.state.values()) if optimizer else ())}
    fixed: dict[str, int] = {}
    for tensor in (tensors | state).values():
        fixed[str(tensor.device)] = fixed.get(str(tensor.device), 0) + tensor.nbytes
    held = sum(tensor.nbytes for tensor in state.values())
    del tensors, state
    with Observer() as observer, torch.set_grad_enabled(training):
        result = _announced(model, run, observer)
        forward = len(observer.nodes)
        alive = {id(kept) for kept in observer.kept if kept.died is None}
        if training:
            backward(result)
        del result
        if optimizer is not None:
            observer.during = OPTIMIZER
            _update(optimizer)
    return _plan(observer, forward, alive, fixed, held)


@contextmanager
def _copies(model: nn.Module, inputs: Any) -> Iterator[tuple[nn.Module, Any]]:
    with private_random_state():
        yield duplicate(model), copied(inputs)


def _announced(model: nn.Module, run: Callable[[], Any], observer: Observer) -> Any:
    """Run the forward pass; in the backward pass, set the node whose autograd functions run."""
    known: set[Node] = set()  # gone before the backward pass: it would keep what that releases

    def note(step: NodeExecution) -> None:
        for function in added_functions(known, step):
            if step.node and type(function).__name__ != "AccumulateGrad":
                place = f"{step.node} {BACKWARD}"
                function.register_prehook(lambda _, place=place: setattr(observer, "during", place))

    with stepping(model, note):
        return run()


def backward(result: Any) -> None:
    """Run the backward pass of a loss that depends on every result."""
    leaves = [leaf for leaf in tensor_leaves(result) if leaf.requires_grad]
    if leaves:
        torch.autograd.backward(leaves, [torch.ones_like(leaf) for leaf in leaves])


def _plan(observer: Observer, forward: int, alive: set[int], fixed: Mapping[str, int], optimizer: int) -> MemoryPlan:
    steps: list[str] = []
    live: list[int] = []
    step_of: list[int] = []
    for number, (node, bytes) in enumerate(zip(observer.nodes, observer.live(), strict=True)):
        name = node or BACKWARD if number >= forward else node
        if not steps or steps[-1] != name:
            steps.append(name)
            live.append(0)
        live[-1] = max(live[-1], bytes)
        step_of.append(len(steps) - 1)
    lifetimes = tuple(
        Lifetime(
            node=kept.node or BACKWARD,
            bytes=kept.bytes,
            born=step_of[kept.born],
            died=step_of[kept.died] if kept.died is not None else len(steps) - 1,
            saved=id(kept) in alive,
        )
        for kept in observer.kept
        if kept.bytes
    )
    places = dict.fromkeys((*fixed, *sorted(observer.devices())))
    devices = {each: fixed.get(each, 0) + max(observer.live(each), default=0) for each in places}
    workspaces = tuple(sorted({node.removesuffix(BACKWARD).strip() for node in observer.workspaces}))
    return MemoryPlan(tuple(steps), tuple(live), lifetimes, sum(fixed.values()), devices, optimizer, workspaces)


def size(bytes: float) -> str:
    """Return a number of bytes as text, e.g. ``"14.9 MB"``."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if bytes >= scale:
            return f"{bytes / scale:.3g} {unit}"
    return f"{bytes:g} B"
