"""``pn.profile``: where the time goes, by operator and by layer, on ``torch.profiler``."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import pandas as pd
import torch
from torch import nn
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as torch_profile

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.compiled import uncompiled
from pnne_nb.inspector.hooks import HookOwner, in_backward
from pnne_nb.inspector.preserve import preserved
from pnne_nb.inspector.summary import as_arguments
from pnne_nb.inspector.timing import sum_of_outputs
from pnne_nb.inspector.whereabouts import placed

# Two profilers at once crash the process.
_one_at_a_time = threading.Lock()

_MARK = "layer: "


@final
@dataclass(frozen=True)
class Profile:
    """Where the time of one call went.

    Attributes:
        layers: Indexed by path, in the model's order: ``type``, ``calls``, ``total_ms`` (layers inside included)
            and ``share`` (of the forward pass) on the CPU.
        operators: Indexed by name, costliest first: ``calls``, ``self_ms``, ``total_ms``, ``device_ms``,
            ``memory`` (bytes allocated, net).
        forward: Seconds of the forward pass.
        backward: Seconds of the backward pass, or None if there was none.
    """

    layers: pd.DataFrame
    operators: pd.DataFrame
    forward: float
    backward: float | None

    def __repr__(self) -> str:
        backward = "" if self.backward is None else f", backward {1000 * self.backward:.3f} ms"
        return (
            f"Profile({len(self.layers)} layers, {len(self.operators)} operators,"
            f" forward {1000 * self.forward:.3f} ms{backward})"
        )

    def _repr_html_(self) -> str:
        layers = self.layers.to_html(float_format="{:.3f}".format)
        operators = self.operators.head(20).to_html(float_format="{:.3f}".format)
        return f"<h4>By layer</h4>{layers}<h4>By operator</h4>{operators}"


def profile(
    model: nn.Module,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    backward: bool = True,
    warmup: int = 2,
    trace: str | Path | None = None,
) -> Profile:
    """Profile one call of `model`, after a warm-up; `model` stays as it was.

    Args:
        model: Any module; a compiled one is run uncompiled, so that its layers can be told apart.
        args: Its positional arguments as a tuple, or its only argument.
        kwargs: Its keyword arguments.
        backward: Also run the backward pass of the sum of all floating outputs.
        warmup: Calls before the measured one.
        trace: File for a Chrome trace (``chrome://tracing``, Perfetto), or None.

    Raises:
        InspectionError: If another profile runs in this process.
    """
    if not _one_at_a_time.acquire(blocking=False):
        raise InspectionError("Another profile is running in this process: wait until it is done.")
    try:
        return _profile(uncompiled(model), as_arguments(args), kwargs or {}, backward, warmup, trace)
    finally:
        _one_at_a_time.release()


def _profile(
    model: nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    backward: bool,
    warmup: int,
    trace: str | Path | None,
) -> Profile:
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)

    def run() -> None:
        with record_function("forward pass"):
            output = model(*args, **kwargs)
        if backward:
            with record_function("backward pass"):
                torch.autograd.backward(sum_of_outputs(output))

    with preserved(model), torch.set_grad_enabled(backward), torch.compiler.set_stance("force_eager"):
        with placed(model):
            for _ in range(warmup):
                run()
        with HookOwner() as hooks, torch_profile(activities=activities, profile_memory=True) as profiler:
            marks: list[record_function] = []
            for name, module in model.named_modules():
                hooks.on_inputs(module, partial(_enter, marks, name))
                hooks.on_output(module, partial(_leave, marks))
            run()
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
    events = {event.key: event for event in profiler.key_averages()}
    passes = [events.get(f"{name} pass") for name in ("forward", "backward")]
    forward, back = (None if event is None else event.cpu_time_total / 1e6 for event in passes)
    total = forward or 0.0
    layers = [
        {
            "layer": name,
            "type": type(module).__name__,
            "calls": events[_MARK + name].count,
            "total_ms": events[_MARK + name].cpu_time_total / 1e3,
            "share": events[_MARK + name].cpu_time_total / 1e6 / total if total else float("nan"),
        }
        for name, module in model.named_modules()
        if _MARK + name in events
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
    by_operator = pd.DataFrame(operators).set_index("operator").sort_values("self_ms", ascending=False)
    return Profile(pd.DataFrame(layers).set_index("layer"), by_operator, total, back)


def _enter(marks: list[record_function], name: str, _args: tuple[object, ...], _kwargs: dict[str, object]) -> None:
    if not in_backward():
        mark = record_function(_MARK + name)
        mark.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        marks.append(mark)


def _leave(marks: list[record_function], _output: object) -> None:
    if not in_backward():
        marks.pop().__exit__(None, None, None)
