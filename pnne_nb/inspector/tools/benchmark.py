"""``pn.benchmark``: measures the time of a module's call and its spread, for one or several batch sizes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final, overload

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.benchmark import Timer

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.inspector.capture.call_arguments import as_arguments, as_keywords, placed
from pnne_nb.inspector.capture.hooks import tensors_in
from pnne_nb.inspector.capture.preserve import is_compiled, preserved
from pnne_nb.telemetry.bar_chart import Bar, bar_chart

FEWEST = 5
"""Least number of measurements."""


@final
@dataclass(frozen=True)
class Timing:
    """The time of one call.

    Attributes:
        median: Median in seconds.
        iqr: Seconds between the first and the third quartile.
        runs: Number of measured calls.
        examples: Number of examples in the batch: the first dimension of the first tensor; 1 if there is none.
        backward: Whether the backward pass is included.
        threads: CPU threads that torch used.
    """

    median: float
    iqr: float
    runs: int
    backward: bool
    threads: int
    examples: int = 1

    @property
    def throughput(self) -> float:
        """Calls per second."""
        return 1 / self.median

    @property
    def examples_per_second(self) -> float:
        """Examples per second."""
        return self.examples / self.median

    def __repr__(self) -> str:
        what = "forward + backward" if self.backward else "forward"
        return (
            f"Timing({what}: median {1000 * self.median:.3f} ms, IQR {1000 * self.iqr:.3f} ms,"
            f" {self.throughput:,.0f} calls/s, {self.examples_per_second:,.0f} examples/s, {self.runs} runs,"
            f" {self.threads} threads)"
        )


@final
@dataclass(frozen=True)
class BatchSweep:
    """The time of a call for several batch sizes.

    Attributes:
        timings: Timings by batch size, from the smallest.
    """

    timings: Mapping[int, Timing]

    @property
    def best(self) -> int:
        """The batch size with the most examples per second."""
        return max(self.timings, key=lambda size: self.timings[size].examples_per_second)

    def to_svg(self) -> str:
        """Return a bar chart of the examples per second by batch size, with the spread between the quartiles."""
        bars = []
        for size, timing in self.timings.items():
            slow, fast = timing.median + timing.iqr / 2, max(timing.median - timing.iqr / 2, timing.median / 2)
            value = timing.examples_per_second
            bars.append(Bar(f"batch of {size}", value, size / slow, size / fast, f"{value:,.0f}", size == self.best))
        return bar_chart("Examples in a second", bars)

    def __repr__(self) -> str:
        lines = [f"{size}: {timing.examples_per_second:,.0f} examples/s" for size, timing in self.timings.items()]
        return f"BatchSweep({', '.join(lines)}; most with batches of {self.best})"

    def _repr_html_(self) -> str:
        return self.to_svg()


@overload
def benchmark(
    model: nn.Module,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    backward: bool = False,
    seconds: float = 1.0,
) -> Timing: ...


@overload
def benchmark(
    model: nn.Module,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    backward: bool = False,
    seconds: float = 1.0,
    batch_sizes: Sequence[int],
) -> BatchSweep: ...


def benchmark(
    model: nn.Module,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    backward: bool = False,
    seconds: float = 1.0,
    batch_sizes: Sequence[int] | None = None,
) -> Timing | BatchSweep:
    """Time calls of `model`, after a warm-up and synchronised with the device; `model` is not changed.

    ``torch.utils.benchmark.Timer`` measures with the current number of torch's threads. Compare medians of one machine
    only. A spread of a tenth of the median or more shows that something else was running.

    Args:
        model: Any module, compiled or not, in the mode that it is in.
        args: Its positional arguments as a tuple, or its only argument.
        kwargs: Its keyword arguments.
        backward: Include the backward pass of the sum of all floating outputs; otherwise without gradients.
        seconds: Least time to measure, for each batch size.
        batch_sizes: Batch sizes to compare; the examples in `args` are repeated or cut to each size.

    Returns:
        Median and spread of a call in seconds, from at least 5 measurements. With `batch_sizes`, the timings of each size,
        with ``best`` and a bar chart.

    Raises:
        ArgumentError: If `model` is not a module, or an argument has the wrong type.
        InspectionError: If ``forward`` does not take the arguments, or a lazy layer has no parameters yet.
    """
    expect(model, nn.Module, "model", "an nn.Module", "pn.compile(graph) makes one of a graph.")
    expect(seconds, int | float, "seconds", "a number of seconds")
    if not 0 <= seconds < float("inf"):
        raise ArgumentError(f"seconds must be at least 0, not {seconds!r}.")
    positional, named = following((as_arguments(args), as_keywords(kwargs)), model)
    if batch_sizes is None:
        return _timed(model, positional, named, backward=backward, seconds=seconds)
    expect(batch_sizes, (list, tuple, range), "batch_sizes", "a list of numbers of examples")
    if not batch_sizes or any(type(size) is not int or size < 1 for size in batch_sizes):
        raise ArgumentError(f"batch_sizes must be whole numbers of examples, at least 1, not {shown(batch_sizes)}.")
    timings = {}
    for size in sorted(set(batch_sizes)):
        given, by_name = (_resized(part, _examples(positional, named), size) for part in (positional, named))
        timings[size] = _timed(model, given, by_name, backward=backward, seconds=seconds)
    return BatchSweep(timings)


def _examples(positional: tuple[Any, ...], named: Mapping[str, Any]) -> int:
    """Return the batch size: the first dimension of the first tensor, or 1."""
    sizes = [tensor.shape[0] for _, tensor in tensors_in((positional, dict(named))) if tensor.dim()]
    return sizes[0] if sizes else 1


def _resized(part: Any, examples: int, size: int) -> Any:
    """Return arguments whose tensors with `examples` entries are repeated or cut to `size` entries."""

    def resized(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.dim() == 0 or leaf.shape[0] != examples:
            return leaf
        return leaf[torch.arange(size, device=leaf.device) % examples]

    return pytree.tree_map(resized, part)


def _timed(
    model: nn.Module, positional: tuple[Any, ...], named: Mapping[str, Any], *, backward: bool, seconds: float
) -> Timing:
    def call() -> None:
        with torch.set_grad_enabled(backward):
            output = model(*positional, **named)
            if backward:
                torch.autograd.backward(sum_of_outputs(output))

    threads = torch.get_num_threads()
    with preserved(model):
        # Hooks would cause a recompilation of a compiled module.
        with nullcontext() if is_compiled(model) else placed(model, positional, named):
            call()
        timer = Timer("call()", globals={"call": call}, num_threads=threads)
        measured = timer.blocked_autorange(min_run_time=seconds)
        times = [*measured.times]
        runs = measured.number_per_run * len(times)
        while len(times) < FEWEST:
            times += timer.timeit(1).times
            runs += 1
    low, middle, high = statistics.quantiles(times, n=4)
    return Timing(middle, high - low, runs, backward, threads, _examples(positional, named))


def sum_of_outputs(output: object) -> Tensor:
    """Return a scalar that depends on every floating output that has a gradient; 0 if none has."""
    parts = [tensor.sum() for _, tensor in tensors_in(output) if tensor.requires_grad and tensor.is_floating_point()]
    return torch.stack(parts).sum() if parts else torch.zeros((), requires_grad=True)
