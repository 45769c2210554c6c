"""Timings are complete, and leave the model as it was."""

from __future__ import annotations

import torch
from torch import nn

from pnne_nb.inspector.timing import FEWEST, benchmark, sum_of_outputs
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
