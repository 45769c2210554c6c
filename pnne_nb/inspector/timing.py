"""``pn.benchmark``: how long a module takes, with its spread."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from pnne_nb.errors import ArgumentError, expect
from pnne_nb.inspector.arguments import as_arguments, as_keywords
from pnne_nb.inspector.compiled import is_compiled
from pnne_nb.inspector.hooks import tensors_in
from pnne_nb.inspector.preserve import preserved
from pnne_nb.inspector.whereabouts import placed

FEWEST = 5
"""Measurements that a median and a spread need."""


@final
@dataclass(frozen=True)
class Timing:
    """How long one call takes.

    Attributes:
        median: Seconds.
        iqr: Seconds between the first and the third quartile.
        runs: Number of calls measured.
        backward: Whether the backward pass is included.
        threads: CPU threads that torch used.
    """

    median: float
    iqr: float
    runs: int
    backward: bool
    threads: int

    def __repr__(self) -> str:
        what = "forward + backward" if self.backward else "forward"
        return (
            f"Timing({what}: median {1000 * self.median:.3f} ms, IQR {1000 * self.iqr:.3f} ms,"
            f" {self.runs} runs, {self.threads} threads)"
        )


def benchmark(
    model: nn.Module,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    backward: bool = False,
    seconds: float = 1.0,
) -> Timing:
    """Time calls of `model`, warmed up and synchronised with the device; `model` stays as it was.

    ``torch.utils.benchmark.Timer`` measures, with as many threads as torch uses now. Compare medians, and only of the
    same machine: where the spread is a tenth of the median or more, something else was running.

    Args:
        model: Any module, compiled or not, in the mode that it is in.
        args: Its positional arguments as a tuple, or its only argument.
        kwargs: Its keyword arguments.
        backward: Include the backward pass of the sum of all floating outputs; otherwise without gradients.
        seconds: Least time to measure.

    Returns:
        Median and spread in seconds a call, of at least 5 measurements.

    Raises:
        ArgumentError: If `model` is no module, or another argument of the wrong kind.
        InspectionError: If ``forward`` does not take the arguments, or a lazy layer has no parameters yet.
    """
    expect(model, nn.Module, "model", "an nn.Module", "pn.compile(graph) makes one of a graph.")

    expect(seconds, int | float, "seconds", "a number of seconds")
    if not 0 <= seconds < float("inf"):
        raise ArgumentError(f"seconds must be at least 0, not {seconds!r}.")
    positional, named = as_arguments(args), as_keywords(kwargs)

    def call() -> None:
        with torch.set_grad_enabled(backward):
            output = model(*positional, **named)
            if backward:
                loss = sum_of_outputs(output)
                torch.autograd.backward(loss)

    threads = torch.get_num_threads()
    with preserved(model):
        # Hooks would make a compiled module compile again.
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
    return Timing(middle, high - low, runs, backward, threads)


def sum_of_outputs(output: object) -> Tensor:
    """A scalar that depends on every floating output that has a gradient; 0 if none has."""
    parts = [tensor.sum() for _, tensor in tensors_in(output) if tensor.requires_grad and tensor.is_floating_point()]
    return torch.stack(parts).sum() if parts else torch.zeros((), requires_grad=True)
