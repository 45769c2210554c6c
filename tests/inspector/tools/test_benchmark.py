"""Timings are complete, and leave the model as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pnne_nb.errors import ArgumentError
from pnne_nb.inspector.tools.benchmark import FEWEST, benchmark, sum_of_outputs
from tests.inspector.models import mlp


def test_a_timing_has_a_median_and_a_spread() -> None:
    net = mlp()
    for backward in (False, True):
        timing = benchmark(net, torch.randn(2, 5), backward=backward, seconds=0.01)
        assert timing.median > 0
        assert timing.iqr >= 0
        assert timing.runs >= FEWEST
        assert timing.threads == torch.get_num_threads()
        assert repr(timing).startswith("Timing(forward + backward: median" if backward else "Timing(forward: median")
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_sum_of_outputs_reaches_every_output() -> None:
    output, (state, _) = nn.LSTM(2, 3)(torch.randn(4, 1, 2))
    assert sum_of_outputs({"a": output, "b": [state, torch.ones(1)]}).item() == (output.sum() + state.sum()).item()
    assert sum_of_outputs(3).requires_grad


def test_batches_of_several_sizes_are_compared() -> None:
    net = mlp()
    sweep = benchmark(net, torch.randn(3, 5), seconds=0.01, batch_sizes=(8, 1, 64))
    assert list(sweep.timings) == [1, 8, 64]
    assert [timing.examples for timing in sweep.timings.values()] == [1, 8, 64]
    assert sweep.best in (8, 64)
    assert sweep.timings[64].examples_per_second == 64 / sweep.timings[64].median
    assert sweep.to_svg() == sweep._repr_html_()
    assert "batch of 64" in sweep.to_svg()
    assert f"most with batches of {sweep.best}" in repr(sweep)


def test_batch_sizes_are_whole_numbers() -> None:
    for wrong in ((), (0,), (2.5,)):
        with pytest.raises(ArgumentError, match="batch_sizes must be whole numbers of examples"):
            benchmark(mlp(), torch.randn(3, 5), batch_sizes=wrong)  # type: ignore[arg-type]  # wrong on purpose
