"""The data sets that come with scikit-learn: their shapes, types and ranges."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import pnne_nb as pn

SHAPES = {
    "digits": (1797, 1, 8, 8), "iris": (150, 4), "wine": (178, 13), "breast_cancer": (569, 30), "diabetes": (442, 10),
    "moons": (400, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_inputs_and_targets(name: str) -> None:
    inputs, targets = getattr(pn.datasets, name)()
    assert inputs.shape == SHAPES[name]
    assert inputs.dtype == torch.float32
    if name == "diabetes":
        assert (targets.shape, targets.dtype) == ((442, 1), torch.float32)
        assert (float(targets.min()), float(targets.max())) == (25, 346)
    else:
        assert (targets.shape, targets.dtype) == (inputs.shape[:1], torch.int64)
    assert f"pn.datasets.{name}(): " in repr(pn.datasets)


def test_digits_are_between_0_and_1_and_trained_on() -> None:
    inputs, targets = pn.datasets.digits()
    assert (float(inputs.min()), float(inputs.max())) == (0, 1)
    engine = pn.TrainingEngine(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), (inputs, targets), epochs=2, device="cpu"
    )
    engine.start().wait()
    assert engine.history["loss"][-1] < engine.history["loss"][0]


def test_moons_follow_their_seed() -> None:
    assert torch.equal(pn.datasets.moons(50, seed=1)[0], pn.datasets.moons(50, seed=1)[0])
    assert not torch.equal(pn.datasets.moons(50, seed=1)[0], pn.datasets.moons(50, seed=2)[0])


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(pn.TrainingError, match=r"come with scikit-learn: pip install 'pnne_nb\[lab\]'"):
        pn.datasets.iris()
