"""``pn.profile``: measures where the time goes, by operator and by layer, with ``torch.profiler``."""

from __future__ import annotations

import html
import os
import statistics
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import pandas as pd
import torch
from torch import nn
from torch._C._autograd import _disable_profiler_legacy, _enable_profiler_legacy
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import profile as torch_profile
from torch.profiler import record_function

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.example_inputs import EXAMPLES
from pnne_nb.errors import ArgumentError, InspectionError, answers_misuse, expect
from pnne_nb.inspector.capture.call_arguments import as_arguments, as_keywords, placed
from pnne_nb.inspector.capture.hooks import HookOwner, in_backward, tensors_in
from pnne_nb.inspector.capture.preserve import preserved, uncompiled
from pnne_nb.inspector.tools.benchmark import sum_of_outputs
from pnne_nb.process.fork import fork_safe

# Two profilers at once crash the process.
_one_at_a_time = fork_safe(threading.Lock())

_MARK = "layer: "
_NODE = "autograd::engine::evaluate_function"
_AHEAD, _BEHIND = "#2f86c9", "#d07000"


@final
@dataclass(frozen=True)
class Profile:
    """The time of a call by layer and by operator: the median of several calls.

    Attributes:
        layers: Table indexed by path, in the model's order: ``type``, ``calls``, ``forward_ms``, ``backward_ms`` and their
            sum ``total_ms``, inner layers included, and ``share`` of the whole model. An operation of the backward pass
            belongs to the layer that created it; accumulating the gradients of parameters belongs to none. Times are
            those of the accelerator's kernels if the model uses one, else those of the CPU.
        operators: Table indexed by name, costliest first: ``calls``, ``self_ms``, ``total_ms``, ``device_ms``,
            ``memory`` (bytes allocated, net).
        forward: Seconds of the forward pass, the accelerator's work included.
        backward: Seconds of the backward pass, or None if there was none.
        device: Device of the layers' times: ``"cpu"``, ``"cuda"``, ``"xpu"``.
    """

    layers: pd.DataFrame
    operators: pd.DataFrame
    forward: float
    backward: float | None
    device: str = "cpu"

    def __repr__(self) -> str:
        backward = "" if self.backward is None else f", backward {1000 * self.backward:.3f} ms"
        table = self.layers.rename(index={"": "(model)"}).assign(
            share=[f"{share:.1%}" for share in self.layers["share"]]
        )
        return (
            f"Profile({len(self.layers)} layers, {len(self.operators)} operators,"
            f" forward {1000 * self.forward:.3f} ms{backward}{'' if self.device == 'cpu' else f', on {self.device}'})\n"
            f"{table.rename_axis(None).to_string(float_format='{:.3f}'.format)}"
        )

    def _repr_html_(self) -> str:
        layers = _bars(self.layers)
        operators = self.operators.head(20).to_html(float_format="{:.3f}".format)
        return f"<h4>By layer</h4>{layers}<h4>By operator</h4>{operators}"


@answers_misuse("pn.profile(model, x)", EXAMPLES, input_size="args=torch.randn(2, 3)")
def profile(
    model: nn.Module,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    backward: bool = True,
    warmup: int = 2,
    repeats: int = 5,
    trace: str | Path | None = None,
) -> Profile:
    """Profile calls of `model` with ``torch.profiler``, after a warm-up; `model` is not changed.

    Profiling itself takes time, so that small layers look slower than they are. `benchmark` gives the true total time.

    Args:
        model: Any module; a compiled one is run uncompiled, so that its layers can be told apart.
        args: Its positional arguments as a tuple, or its only argument.
        kwargs: Its keyword arguments.
        backward: Also run the backward pass of the sum of all floating outputs.
        warmup: Calls before the measured ones.
        repeats: Measured calls; each figure is its median over them.
        trace: File for a Chrome trace of the last call (``chrome://tracing``, Perfetto), or None.

    Returns:
        Time by layer and by operator; a notebook shows it as tables with bars.

    Raises:
        InspectionError: If another profile runs in this process, the trace cannot be written, or `model` does not take
            the arguments.
        ArgumentError: If an argument is of the wrong kind.
    """
    for name, number, least in (("warmup", warmup, 0), ("repeats", repeats, 1)):
        expect(number, int, name, "a number of calls")
        if number < least:
            raise ArgumentError(f"{name} must be a number of calls, at least {least}, not {number}.")
    if trace is not None:
        # Checked first: the profiler would measure, and then only log that it could not write.
        try:
            Path(trace).open("ab").close()
        except OSError as error:
            raise InspectionError(
                f"The trace {str(trace)!r} cannot be written: {error.strerror}. Give the path of a file in a directory"
                " that exists."
            ) from error
    model = uncompiled(model)
    positional, named = following((as_arguments(args), as_keywords(kwargs)), model)
    used = {tensor.device.type for _, tensor in tensors_in((positional, named))}
    used |= {parameter.device.type for parameter in model.parameters()}
    accelerator = next(iter(used - {"cpu", "meta"}), None)

    def run() -> None:
        with record_function("forward pass"):
            output = model(*positional, **named)
            if accelerator is not None:
                torch.accelerator.synchronize()
        if backward:
            with record_function("backward pass"):
                torch.autograd.backward(sum_of_outputs(output))
                if accelerator is not None:
                    torch.accelerator.synchronize()

    if not _one_at_a_time.acquire(blocking=False):
        raise InspectionError("Another profile is running in this process: wait until it is done.")
    try:
        with preserved(model), torch.set_grad_enabled(backward), torch.compiler.set_stance("force_eager"):
            with placed(model, positional, named):
                for _ in range(warmup):
                    run()
            # The last call alone is traced.
            traces = [None] * (repeats - 1) + [trace]
            return _median([_measure(model, run, accelerator, each) for each in traces])
    finally:
        _one_at_a_time.release()


def peak_allocated(run: Callable[[], object]) -> int | None:
    """Return the peak bytes that torch allocates on the CPU during one call; None while another profiler runs.

    The legacy profiler starts at once and in any thread. The current one takes seconds, and its first use must be in the
    main thread.
    """
    if not _one_at_a_time.acquire(blocking=False):
        return None
    memory_alone = (False, True, False, False, False)
    try:
        _enable_profiler_legacy(ProfilerConfig(ProfilerState.CPU, *memory_alone, _ExperimentalConfig()))
        try:
            run()
        finally:
            records = _disable_profiler_legacy()
    finally:
        _one_at_a_time.release()
    total = most = 0
    for record in (each for thread in records for each in thread):
        if str(record.kind()) == "memory_alloc":
            total += record.cpu_memory_usage()
            most = max(most, total)
    return most


@contextmanager
def _without_lines_of_kineto() -> Iterator[None]:
    """Keep the profiler's C++ library from printing two lines per call; it reads the log level once, at its start."""
    if "KINETO_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["KINETO_LOG_LEVEL"] = "6"  # above every level that it has
    try:
        yield
    finally:
        os.environ.pop("KINETO_LOG_LEVEL", None)


def _measure(model: nn.Module, run: Callable[[], None], accelerator: str | None, trace: str | Path | None) -> Profile:
    with (
        _without_lines_of_kineto(),
        HookOwner() as hooks,
        torch_profile(profile_memory=True, acc_events=True) as profiler,
    ):
        marks: list[record_function] = []
        hooks.on_calls(model, partial(_enter, marks), partial(_leave, marks))
        run()
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
    # The CPU's event that started a kernel includes its time; the kernel's own event would count it twice.
    events = {event.key: event for event in profiler.key_averages() if _on_cpu(event)}
    on_device = any(event.device_time_total > 0 for event in events.values())
    passes = [events.get(f"{name} pass") for name in ("forward", "backward")]
    forward, back = (None if event is None else event.cpu_time_total / 1e6 for event in passes)
    behind = _backward_by_layer(profiler.events() or [], on_device=on_device)
    layers = [
        {
            "layer": name,
            "type": type(module).__name__,
            "calls": mark.count,
            "forward_ms": _spent(mark, on_device=on_device) / 1e3,
            "backward_ms": behind.get(name, 0.0) / 1e3,
        }
        for name, module in model.named_modules()
        if (mark := events.get(_MARK + name)) is not None
    ]
    operators = [
        {
            "operator": key,
            "calls": event.count,
            "self_ms": event.self_cpu_time_total / 1e3,
            "total_ms": event.cpu_time_total / 1e3,
            "device_ms": event.self_device_time_total / 1e3,
            "memory": event.self_cpu_memory_usage,
        }
        for key, event in events.items()
        if not key.startswith(_MARK) and not key.endswith(" pass")
    ]
    return Profile(
        pd.DataFrame(layers).set_index("layer"),
        pd.DataFrame(operators).set_index("operator"),
        forward or 0.0,
        back,
        (accelerator or "cpu") if on_device else "cpu",
    )


def _median(measured: Sequence[Profile]) -> Profile:
    """Return the median of each figure over the calls that have it."""
    layers = _medians([one.layers for one in measured])
    layers["total_ms"] = layers["forward_ms"] + layers["backward_ms"]
    layers["share"] = layers["total_ms"] / layers["total_ms"].iloc[0]
    operators = _medians([one.operators for one in measured]).sort_values("self_ms", ascending=False)
    backs = [one.backward for one in measured if one.backward is not None]
    return Profile(
        layers,
        operators,
        statistics.median(one.forward for one in measured),
        statistics.median(backs) if backs else None,
        measured[-1].device,
    )


def _medians(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    together: Any = pd.concat(tables).groupby(level=0, sort=False)
    middle = together.median(numeric_only=True).astype({"calls": int})
    if "type" in tables[0]:
        middle.insert(0, "type", together["type"].first())
    return middle  # type: ignore[no-any-return]  # pandas' stubs do not follow groupby


def _on_cpu(event: FunctionEvent) -> bool:
    return bool(event.device_type.name == "CPU")


def _spent(event: FunctionEvent, *, on_device: bool) -> float:
    """Return the microseconds that `event` took."""
    return float(event.device_time_total if on_device else event.cpu_time_total)


def _backward_by_layer(events: Iterable[FunctionEvent], *, on_device: bool) -> dict[str, float]:
    """Return the microseconds of the backward pass by layer, inner layers included.

    An autograd node has the sequence number of the operation that created it. Earlier operations that created no node have
    the same number, so the last operation with a number is the creator.
    """
    makers: dict[int, FunctionEvent] = {}
    marks, nodes = [], []
    for event in sorted(events, key=lambda event: event.time_range.start):
        if not _on_cpu(event):
            continue
        if event.name.startswith(_MARK):
            marks.append(event)
        elif event.name.startswith(_NODE):
            nodes.append(event)
        elif event.scope == 0 and event.sequence_nr >= 0 and not nodes:
            # A recomputation in the backward pass creates its own nodes.
            makers[event.sequence_nr] = event
    spent: dict[int, float] = {}
    for node in nodes:
        spent[node.sequence_nr] = spent.get(node.sequence_nr, 0.0) + _spent(node, on_device=on_device)
    found: dict[str, float] = {}
    for number, maker in makers.items():
        around = {
            mark.name.removeprefix(_MARK)
            for mark in marks
            if mark.time_range.start <= maker.time_range.start <= mark.time_range.end
        }
        for layer in around:
            found[layer] = found.get(layer, 0.0) + spent.get(number, 0.0)
    return found


def _bars(layers: pd.DataFrame) -> str:
    """Return a table with a bar for each layer: the forward pass, and behind it the backward pass."""
    longest = max(float(layers["total_ms"].max()), 1e-9)
    colours = {"forward": _AHEAD, "backward": _BEHIND}
    rows = ""
    for row in layers.itertuples():
        layer: Any = row
        spent = {"forward": layer.forward_ms, "backward": layer.backward_ms}
        bar = "".join(
            f'<span title="{words} {ms:.3f} ms" style="display:inline-block;height:0.8em;'
            f'width:{100 * ms / longest:.2f}%;background:{colours[words]}"></span>'
            for words, ms in spent.items()
        )
        rows += (
            f'<tr><th style="text-align:left">{html.escape(str(layer.Index) or "(model)")}</th>'
            f'<td style="text-align:left">{html.escape(layer.type)}</td><td>{layer.calls}</td>'
            f"<td>{layer.forward_ms:.3f}</td><td>{layer.backward_ms:.3f}</td><td>{layer.share:.1%}</td>"
            f'<td style="text-align:left;min-width:240px;white-space:nowrap">{bar}</td></tr>'
        )
    keys = "".join(
        f'<span style="display:inline-block;width:0.8em;height:0.8em;background:{colour}"></span> {words} &nbsp; '
        for words, colour in colours.items()
    )
    head = "".join(f"<th>{name}</th>" for name in ("", "type", "calls", "forward ms", "backward ms", "share", keys))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _enter(marks: list[record_function], name: str, _args: tuple[object, ...], _kwargs: dict[str, object]) -> None:
    if not in_backward():
        mark = record_function(_MARK + name)
        mark.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        marks.append(mark)


def _leave(marks: list[record_function], _name: str, _output: object) -> None:
    if not in_backward():
        marks.pop().__exit__(None, None, None)
