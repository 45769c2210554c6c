"""Units that never fire or sit at a bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.inspector.units import UnitCounts, bounds_of, channels_first, count_units, launch_units, saturation


def counted(activation: Tensor, module: nn.Module) -> UnitCounts | None:
    [found] = count_units([launch_units(activation, bounds_of(module), channels_first=channels_first(module))])
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
