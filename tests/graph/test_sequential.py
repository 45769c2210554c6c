"""``pn.sequential``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn


def test_layers_run_one_after_another() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    graph = pn.sequential(*layers, input=("N", 3, 8, 8), name="small")
    assert (graph.name, list(graph)) == ("small", ["x", "conv2d1", "relu1", "flatten1", "linear1", "y"])
    model = pn.compile(graph)
    model.load_state_dict(dict(zip(model.state_dict(), layers.state_dict().values(), strict=True)))
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(model(x), layers(x))


def test_the_input_may_have_other_properties() -> None:
    graph = pn.sequential(("Embedding", 100, 8), input={"shape": ("N", "L"), "dtype": "int64", "name": "tokens"})
    assert pn.infer_shapes(graph)["embedding1.output"].shape == ("N", "L", 8)
    assert "shape" not in pn.sequential("ReLU")["x"].properties


@pytest.mark.parametrize("given", [3, "N", b"x", {1}])
def test_what_is_no_shape_is_refused(given: Any) -> None:
    with pytest.raises(
        pn.ArgumentError, match=r'input must be the shape of the input, such as \("N", 3, 32, 32\), not'
    ):
        pn.sequential("ReLU", input=given)


def test_a_list_of_layers_is_spread() -> None:
    with pytest.raises(pn.ArgumentError, match=r"pn.sequential\(\*layers, input=...\)"):
        pn.sequential([nn.ReLU()])
