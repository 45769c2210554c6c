"""Where two models or two examples differ, and how alike their layers are, against plain numpy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pnne_nb as pn
from tests.inspector.questions.nets import made
from tests.inspector.questions.untouched import untouched


def cka(x: np.ndarray, y: np.ndarray) -> float:
    """Linear CKA by its definition with features."""
    x, y = x - x.mean(0), y - y.mean(0)
    return float(np.linalg.norm(x.T @ y) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)))


def test_two_models_are_compared_layer_by_layer() -> None:
    net, x = made("MLP").net.eval(), torch.randn(12, 5)
    other = copy.deepcopy(net)
    nn.init.normal_(other[2].weight)  # type: ignore[index]
    with untouched(net), untouched(other):
        found = pn.compare_layers(net, x, other)
    assert found.first == "2"
    assert found.differences["0"] == found.differences["1"] == 0
    one, two = net(x).detach().double(), other(x).detach().double()
    assert found.differences["2"] == pytest.approx(float((one - two).norm() / one.norm()), rel=1e-6)
    outputs = [[part[: place + 1](x).detach().double().numpy() for place in range(3)] for part in (net, other)]  # type: ignore[index]
    for row, layer in enumerate(found.layers[0][:3]):
        for column, second in enumerate(found.layers[1][:3]):
            wanted = cka(outputs[0][int(layer)], outputs[1][int(second)])
            assert found.similarity[row, column] == pytest.approx(wanted, abs=1e-10)
    assert "the first that differs is '2'" in repr(found)
    assert "<img" in found._repr_html_()


def test_another_example_and_a_checkpoint(tmp_path: Path) -> None:
    case = made("residual")
    found = pn.compare_layers(case.net, case.data[:1], other_data=case.data[1:])
    assert found.first == "stem"
    assert np.isnan(found.similarity).all()
    other = copy.deepcopy(case.net)
    nn.init.zeros_(other.conv2.weight)  # type: ignore[arg-type,union-attr]
    torch.save(other.state_dict(), tmp_path / "weights.pt")
    with untouched(case.net):
        found = pn.compare_layers(case.net, case.data, tmp_path / "weights.pt")
    assert found.first == "conv2"
    assert pn.compare_layers(case.net, case.data, copy.deepcopy(case.net)).first is None


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "nothing": (lambda: pn.compare_layers(nn.ReLU(), torch.ones(2, 3)), "nothing to compare with: give another model"),
    "other numbers of examples": (
        lambda: pn.compare_layers(nn.ReLU(), torch.ones(2, 3), other_data=torch.ones(3, 3)),
        "There are 2 examples and 3 other ones: give as many",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_work_is_explained(name: str) -> None:
    call, message = BAD[name]
    with pytest.raises((pn.ArgumentError, pn.InspectionError), match=message):
        call()
