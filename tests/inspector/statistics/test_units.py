"""Units that never fire or sit at a bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.statistics.units import Layouts, UnitCounts, bounds_of, count_units, launch_units, saturation


def counted(activation: Tensor, module: nn.Module) -> UnitCounts | None:
    layouts = Layouts()
    layouts.follow(module, [], activation)
    channels_first = layouts.channels_first(activation)
    [found] = count_units([launch_units(activation, bounds_of(module), channels_first=channels_first)])
    return found


def test_dead_and_constant_units_of_images() -> None:
    x = torch.rand(4, 3, 5, 5) + 0.1
    x[:, 1] = 0
    x[:, 2] = 7
    assert counted(x, nn.ReLU()) == UnitCounts(units=3, dead=1, constant=2, saturated=0, saturation=0.0)


def test_dead_channels_of_one_dimensional_convolutions() -> None:
    x = torch.rand(4, 3, 5) + 0.1
    x[:, 1] = 0
    found = counted(x, nn.Conv1d(1, 3, 1))
    assert found is not None
    assert (found.units, found.dead) == (3, 1)


@pytest.mark.parametrize("inplace", [False, True])
def test_activations_after_one_dimensional_convolutions_count_channels(inplace: bool) -> None:
    conv = nn.Conv1d(1, 6, 3)
    with torch.no_grad():
        assert conv.bias is not None
        conv.bias.copy_(torch.tensor([-100.0, 0, 0, 0, 0, 0]))
    block = nn.Sequential(conv, nn.ReLU(inplace), nn.Dropout(0.0), nn.GELU())
    inspector = Inspector(nn.Sequential(block, nn.Flatten(), nn.Linear(60, 2)))
    inspector.watch("0", "activations")
    inspector.watch("0.*", "activations")
    found = {capture.layer: capture.units for capture in inspector.run_inspection(torch.randn(8, 1, 12)).captures}
    for layer in ("0", "0.1", "0.2", "0.3"):
        units = found[layer]
        assert units is not None
        assert (units.units, units.dead) == (6, 1), layer


def test_activations_of_sequences_count_their_last_dimension() -> None:
    inspector = Inspector(nn.Sequential(nn.Linear(4, 6), nn.ReLU()))
    inspector.watch("1", "activations")
    [capture] = inspector.run_inspection(torch.randn(8, 10, 4)).captures
    assert capture.units is not None
    assert capture.units.units == 6


def test_saturated_units_of_sequences() -> None:
    x = torch.zeros(4, 6, 2)
    x[..., 1] = 0.999
    found = counted(x, nn.Tanh())
    assert found == UnitCounts(units=2, dead=1, constant=2, saturated=1, saturation=0.5)


@pytest.mark.parametrize(
    "activation",
    [torch.ones(3), torch.ones(1, 4), torch.empty(0, 4), torch.ones(2, 2, dtype=torch.int64)],
    ids=["vector", "one example", "empty", "integers"],
)
def test_nothing_to_judge(activation: Tensor) -> None:
    assert counted(activation, nn.ReLU()) is None


def test_bounds_by_module() -> None:
    assert bounds_of(nn.Sigmoid()) == (0, 1)
    assert bounds_of(nn.Hardtanh(-2, 2)) == (-2, 2)
    assert bounds_of(nn.ReLU6()) is None
    assert bounds_of(nn.Linear(1, 1)) is None
    assert saturation(np.array([0.0, 0.5, 0.99, 1.0]), (0, 1)) == 0.75
    assert np.isnan(saturation(np.zeros(0), (0, 1)))
