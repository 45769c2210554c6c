"""How far the places move that interpolation reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pnne_nb.export.proof.eager_run import MovedCoordinates

IMAGE = torch.linspace(-1, 1, 2 * 3 * 11 * 13).reshape(2, 3, 11, 13).sin()
GRID = torch.linspace(-0.9, 0.9, 2 * 5 * 7 * 2).reshape(2, 5, 7, 2)

SMOOTH: dict[str, Callable[[], Tensor]] = {
    "bilinear": lambda: F.interpolate(IMAGE, size=(7, 7), mode="bilinear"),
    "by place": lambda: F.interpolate(IMAGE, (7, 7), None, "bicubic", True),
    "by name": lambda: F.interpolate(input=IMAGE, scale_factor=1.5, mode="bilinear"),
    "grid": lambda: F.grid_sample(IMAGE, GRID, align_corners=False),
    "grid by name": lambda: F.grid_sample(input=IMAGE, grid=GRID, align_corners=True),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_values_move_by_what_a_rounded_coordinate_explains(name: str) -> None:
    plain = SMOOTH[name]()
    with MovedCoordinates(torch.Generator().manual_seed(0)):
        moved = SMOOTH[name]()
    distance = float((moved - plain).abs().max())
    assert 0 < distance < 1e-4


def test_what_takes_pixels_as_they_are_stays() -> None:
    with MovedCoordinates(torch.Generator()):
        moved = F.interpolate(IMAGE, size=(7, 7))
        summed = IMAGE + 1
    assert torch.equal(moved, F.interpolate(IMAGE, size=(7, 7)))
    assert torch.equal(summed, IMAGE + 1)
