"""Faults of data are told with their numbers, and healthy data are left alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from torch import Tensor, nn

from pnne_nb.diagnosis.data_rules import data_faults


def kinds(
    train: tuple[Tensor, ...], val: tuple[Tensor, ...] | None = None, model: nn.Module | None = None
) -> list[str]:
    found = data_faults(nn.Linear(4, 2) if model is None else model, train, val, has_target=True)
    assert all(frame.hint and frame.reason.endswith(".") for frame in found)
    return [frame.kind for frame in found]


def healthy(seed: int, count: int = 100) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=draws), torch.randint(0, 3, (count,), generator=draws)


X, Y = healthy(0)
VAL = healthy(1)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_healthy_data_are_left_alone(scale: float) -> None:
    assert kinds((X * scale, Y), (VAL[0] * scale, VAL[1])) == []


def test_real_data_are_left_alone() -> None:
    for load, divisor in ((load_digits, 16.0), (load_iris, 1.0), (load_diabetes, 0.05)):
        x, y = (torch.tensor(part) for part in load(return_X_y=True))
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        x, y, cut = x[order] / divisor, y[order], 3 * len(x) // 4
        assert kinds((x[:cut], y[:cut]), (x[cut:], y[cut:])) == []


def test_raw_columns_are_called_large() -> None:
    x, y = (torch.tensor(part) for part in load_wine(return_X_y=True))  # proline is about 700
    assert kinds((x, y)) == ["large-input"]
    assert kinds((x, y), model=nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 3))) == []


@pytest.mark.parametrize(
    ("train", "val", "kind"),
    [
        ((X, torch.zeros(100, dtype=torch.long)), None, "constant-target"),
        ((X, torch.full((100, 1), 3.5)), None, "constant-target"),
        ((X, (torch.arange(100) == 0).long()), None, "one-class"),
        ((X[:1].expand(100, 4), Y), None, "constant-input"),
        ((X * 1000, Y), None, "large-input"),
        ((X, Y), (VAL[0] * 20, VAL[1]), "validation-scaled-otherwise"),
        ((X, Y), (VAL[0] + 5, VAL[1]), "validation-scaled-otherwise"),
        ((X, Y), (torch.cat([VAL[0][:80], X[:20]]), VAL[1]), "validation-in-training"),
        ((X, Y), (VAL[0], torch.where(torch.arange(100) < 5, 7, VAL[1])), "class-not-trained"),
        ((torch.cat([X, torch.full((100, 1), 3.0)], 1), Y), None, "constant-column"),
    ],
)
def test_each_fault_is_told(train: Any, val: Any, kind: str) -> None:
    assert kinds(train, val) == [kind]


def test_examples_of_few_values_are_equal_by_chance() -> None:
    bits = torch.randint(0, 2, (200, 4), generator=torch.Generator().manual_seed(0)).float()
    assert kinds((bits[:100], Y), (bits[100:], Y)) == []


def test_nobody_elses_numbers_are_drawn() -> None:
    model = nn.Linear(4, 2)
    before = torch.get_rng_state()
    assert kinds((X, Y), VAL, model) == []
    assert torch.equal(before, torch.get_rng_state())


def test_counts_and_single_rare_classes_are_no_missing_classes() -> None:
    counts = torch.poisson(torch.full((200,), 20.0), generator=torch.Generator().manual_seed(0)).long()
    assert kinds((X, counts[:100]), (VAL[0], counts[100:])) == []


def test_the_corners_of_pictures_are_no_columns() -> None:
    pictures = torch.randn(100, 64)
    pictures[:, 0] = 0.0
    assert kinds((pictures, Y)) == []
