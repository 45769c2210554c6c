"""``pn.summary``: lists parameters, shapes, multiply-adds and memory of a module, layer by layer."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, final

import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.example_inputs import EXAMPLES, example_inputs, normal_inputs, sizes_among
from pnne_nb.compiler.analysis.memory_plan import MemoryPlan, measure_step
from pnne_nb.compiler.pipeline.compile import made
from pnne_nb.compiler.shapes.cost import MultiplyAdds
from pnne_nb.errors import ArgumentError, InspectionError, answers_misuse, expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inspector.capture.call_arguments import as_arguments, as_keywords, placed
from pnne_nb.inspector.capture.hooks import tensors_in
from pnne_nb.inspector.capture.preserve import hooked_run, uncompiled
from pnne_nb.inspector.tools.profile import profile
from pnne_nb.process.byte_units import format_bytes
from pnne_nb.process.random_state import preserved_random_state

Shape = tuple[int, ...]


@final
@dataclass(frozen=True)
class LayerSummary:
    """One layer.

    Attributes:
        layer: Path; ``""`` is the model itself.
        type: Name of its class.
        depth: Depth of nesting; 0 is the model itself.
        inputs: Shapes of its inputs in its first call; empty if it was not called.
        outputs: Shapes of its outputs in its first call.
        parameters: Number of elements of its own parameters; of shared ones at the first layer that has them.
        trainable: Number of these elements that require a gradient.
        mult_adds: Multiply-adds of all its calls, inner layers included, as torch counts them: matrix products,
            convolutions and attention.
        memory: Bytes of its own parameters and buffers.
        activation: Bytes of its outputs in all its calls; 0 for a container.
        saved: Bytes that autograd keeps for the backward pass of its own operations, without parameters, buffers and
            tensors that were kept before. Recurrent layers keep far more than their outputs.
        calls: Number of calls.
        forward: Seconds of its forward passes on the CPU, inner layers included, or None if not timed.
        backward: Seconds of its backward passes, likewise.
    """

    layer: str
    type: str
    depth: int
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    parameters: int
    trainable: int
    mult_adds: int
    memory: int
    activation: int
    saved: int
    calls: int
    forward: float | None = None
    backward: float | None = None


@final
@dataclass(frozen=True)
class Summary:
    """A summary of a module, layer by layer; a notebook shows it as a table.

    Attributes:
        rows: One row per layer, the model itself first.
        parameters: Number of elements of all parameters, shared ones once.
        trainable: Number of these elements that require a gradient.
        mult_adds: Multiply-adds of one forward pass.
        parameter_memory: Bytes of parameters and buffers.
        gradient_memory: Bytes of the gradients of the trainable parameters.
        activation_memory: Bytes of all outputs of leaf layers.
        saved_memory: Bytes that autograd keeps for the backward pass, without parameters, buffers and inputs; 0 if nothing
            requires a gradient.
        optimizer_memory: Bytes of the optimizer's state (0 before its first step), or None without an optimizer.
        step_memory: Most bytes in use at once in a training step, parameters, inputs and the optimizer's state included,
            counted in a dry run of one; None for a model that cannot run on tensors without data.
        unknown: What of it is not counted, as the end of a sentence; empty if nothing.
    """

    rows: tuple[LayerSummary, ...]
    parameters: int
    trainable: int
    mult_adds: int
    parameter_memory: int
    gradient_memory: int
    activation_memory: int
    saved_memory: int
    optimizer_memory: int | None = None
    step_memory: int | None = None
    unknown: str = ""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per layer, indexed by path."""
        return pd.DataFrame([asdict(row) for row in self.rows]).set_index("layer")

    def __repr__(self) -> str:
        cells = [self._header(), *(self._cells(row, "  " * row.depth) for row in self.rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, *self._totals()])

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="padding:2px 8px">{html.escape(name)}</th>' for name in self._header())
        # Spaces before a name show how deep the layer is.
        cell = '<td style="padding:2px 8px;white-space:pre">{}</td>'
        cells = ([cell.format(html.escape(text)) for text in self._cells(row, "  " * row.depth)] for row in self.rows)
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        totals = "<br>".join(html.escape(line) for line in self._totals())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{totals}</p>"

    def _header(self) -> tuple[str, ...]:
        timed = self.rows[0].forward is not None
        return (*_HEADER, "Forward", "Backward") if timed else _HEADER

    def _cells(self, row: LayerSummary, indent: str) -> tuple[str, ...]:
        name = row.layer.rpartition(".")[2] if row.layer else "(model)"
        return (
            f"{indent}{name}",
            row.type,
            _shapes(row.inputs),
            _shapes(row.outputs) if row.calls else "not called",
            f"{row.parameters:,}" if row.parameters else "",
            f"{row.mult_adds:,}" if row.mult_adds else "",
            format_bytes(row.memory) if row.memory else "",
            format_bytes(row.activation) if row.activation else "",
            *(f"{1e3 * spent:.3f} ms" for spent in (row.forward, row.backward) if spent is not None),
        )

    def _totals(self) -> list[str]:
        frozen = self.parameters - self.trainable
        step = "what cannot be told without data" if self.step_memory is None else format_bytes(self.step_memory)
        step += "" if self.optimizer_memory is None else " with its optimizer"
        there = (
            f"parameters and buffers {format_bytes(self.parameter_memory)}",
            f"outputs {format_bytes(self.activation_memory)}",
        )
        return [
            f"Parameters: {self.parameters:,}{f' ({frozen:,} frozen)' if frozen else ''}",
            f"Multiply-adds: {self.mult_adds:,}",
            f"Memory: {', '.join(there)}; a training step takes {step}{self.unknown}",
        ]


_HEADER = ("Layer", "Type", "Input", "Output", "Parameters", "Mult-adds", "Memory", "Activation")
_NUMBERS = frozenset(range(4, len(_HEADER) + 2))


@answers_misuse(
    "pn.summary(net, x)",
    EXAMPLES,
    input_shape="input_size=(2, 3)",
    depth=".to_frame() on the result, and choose rows there",
)
def summary(
    net: nn.Module | NodeGraph,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    input_size: Sequence[int] | Sequence[Sequence[int]] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    times: bool = False,
) -> Summary:
    """Run `net` forward once and summarise its layers.

    Autograd records the pass, so that the memory for a backward pass can be counted. The model runs in its current mode,
    under the ambient autocast. Mode, buffers, gradients and random state are restored afterwards and hooks are removed,
    also after an error.

    Args:
        net: Any module; a compiled one is run uncompiled. A graph is compiled.
        args: Its positional arguments as a tuple, or its only argument: an example of its input. Without them, a graph
            runs on inputs with the shapes of its Input nodes.
        kwargs: Its keyword arguments.
        input_size: Instead of `args`, the shape of the only input, or a sequence of shapes: normal float32 numbers.
        optimizer: An optimizer whose state is counted too.
        times: Whether to measure the time of each layer, forward and backward, as `profile` does.

    Returns:
        The layers in the model's order, the model itself first. Sizes are in bytes, times in seconds. Multiply-adds are
        half of the FLOPs that `torch.utils.flop_counter` counts.

    Raises:
        ArgumentError: If an argument has the wrong type, or both `args` and `input_size` are given.
        InspectionError: If ``forward`` does not take the arguments, a lazy layer has no parameters yet, or (with
            `times`) another profile runs in this process.
        CompileError: If a graph is unfinished, or no inputs can be made for it.
    """
    if input_size is not None:
        args = normal_inputs(input_size, args)
    if isinstance(net, NodeGraph):
        graph = net
        with preserved_random_state():
            net = made(graph, purpose="look").model
        if isinstance(args, tuple) and not args and not kwargs:
            args = example_inputs(graph, net)
    expect(optimizer, torch.optim.Optimizer | None, "optimizer", "an optimizer, or None")
    model = uncompiled(net)
    positional, named = following((as_arguments(args), as_keywords(kwargs)), model)
    there = [*model.parameters(), *model.buffers(), *(tensor for _, tensor in tensors_in((positional, named)))]
    seen = _Seen(there)
    with (
        hooked_run(model, grad=True) as hooks,
        torch.autograd.graph.saved_tensors_hooks(seen.save, lambda tensor: tensor),
        seen.counter,
    ):
        hooks.on_calls(model, seen.enter, seen.leave)
        with placed(model, positional, named):
            try:
                model(*positional, **named)
            except (TypeError, InspectionError) as error:
                sizes = sizes_among(positional)
                if sizes is None:
                    raise
                way = f"pn.summary(net, input_size={sizes!r})"
                raise ArgumentError(f"args are inputs, not sizes. Write {way}.") from error
    rows = _rows(model, seen)
    if times:
        rows = _timed(rows, profile(model, args, kwargs).layers)
    step = _step_memory(model, positional, named, optimizer)
    return Summary(
        rows=rows,
        parameters=sum(row.parameters for row in rows),
        trainable=sum(row.trainable for row in rows),
        mult_adds=seen.counter.count,
        parameter_memory=sum(row.memory for row in rows),
        gradient_memory=sum(_size(parameter) for parameter in model.parameters() if parameter.requires_grad),
        activation_memory=sum(row.activation for row in rows),
        saved_memory=sum(row.saved for row in rows),
        optimizer_memory=None
        if optimizer is None
        else sum(_size(tensor) for state in optimizer.state.values() for _, tensor in tensors_in(state)),
        step_memory=None if step is None else step.peak,
        unknown="" if step is None else step.unknown,
    )


def _step_memory(
    model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object], optimizer: torch.optim.Optimizer | None
) -> MemoryPlan | None:
    def inputs() -> Any:
        return tree_map_only(Tensor, torch.empty_like, (args, dict(kwargs)))

    try:
        return measure_step(model, optimizer, inputs, lambda twin, given: twin(*given[0], **given[1]))
    except Exception:  # noqa: BLE001  a model may do anything with its input; that it needs numbers is no fault
        return None


@final
class _Seen:
    """Records the calls of each layer."""

    def __init__(self, there: Iterable[Tensor]) -> None:
        self.counter = MultiplyAdds(pieces=math.inf, operations=math.inf)
        self.inputs: dict[str, tuple[Shape, ...]] = {}
        self.outputs: dict[str, tuple[Shape, ...]] = {}
        self.calls, self.mult_adds, self.output_bytes, self.saved = (Counter[str]() for _ in range(4))
        self._before: list[int] = []
        self._path = [""]  # paths of the layers that are being called, the model first
        self._known = {tensor.untyped_storage()._cdata for tensor in there if _has_storage(tensor)}
        self._alive: list[Tensor] = []  # kept, so that no other tensor gets the same address

    def save(self, tensor: Tensor) -> Tensor:
        """Count the memory of a tensor that autograd keeps; views of one memory count once."""
        size = _size(tensor)
        if _has_storage(tensor):
            storage = tensor.untyped_storage()
            size = 0 if storage._cdata in self._known else storage.nbytes()
            self._known.add(storage._cdata)
            self._alive.append(tensor.detach())
        self.saved[self._path[-1]] += size
        return tensor

    def enter(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.inputs.setdefault(name, _shapes_in((*args, *kwargs.values())))
        self._before.append(self.counter.count)
        self._path.append(name)

    def leave(self, name: str, output: object) -> None:
        self._path.pop()
        self.outputs.setdefault(name, _shapes_in(output))
        self.calls[name] += 1
        self.mult_adds[name] += self.counter.count - self._before.pop()
        self.output_bytes[name] += sum(_size(tensor) for _, tensor in tensors_in(output))


def _rows(model: nn.Module, seen: _Seen) -> tuple[LayerSummary, ...]:
    known: set[int] = set()
    rows = []
    for name, module in model.named_modules():
        own = [tensor for tensor in module.parameters(recurse=False) if id(tensor) not in known]
        buffers = [tensor for tensor in module.buffers(recurse=False) if id(tensor) not in known]
        known |= {id(tensor) for tensor in (*own, *buffers)}
        rows.append(
            LayerSummary(
                layer=name,
                type=type(module).__name__,
                depth=name.count(".") + 1 if name else 0,
                inputs=seen.inputs.get(name, ()),
                outputs=seen.outputs.get(name, ()),
                parameters=sum(tensor.numel() for tensor in own),
                trainable=sum(tensor.numel() for tensor in own if tensor.requires_grad),
                mult_adds=seen.mult_adds[name],
                memory=sum(_size(tensor) for tensor in (*own, *buffers)),
                activation=0 if any(module.children()) else seen.output_bytes[name],
                saved=seen.saved[name],
                calls=seen.calls[name],
            )
        )
    return tuple(rows)


def _timed(rows: tuple[LayerSummary, ...], layers: pd.DataFrame) -> tuple[LayerSummary, ...]:
    times = layers[["forward_ms", "backward_ms"]].reindex([row.layer for row in rows], fill_value=0.0)
    seconds = times.to_numpy() / 1e3
    return tuple(
        replace(row, forward=float(ahead), backward=float(behind))
        for row, (ahead, behind) in zip(rows, seconds, strict=True)
    )


def _shapes_in(value: object) -> tuple[Shape, ...]:
    return tuple(tuple(tensor.shape) for _, tensor in tensors_in(value))


def _has_storage(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and type(tensor) in (Tensor, nn.Parameter)


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _shapes(shapes: tuple[Shape, ...]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
