"""Links between layers are those of the data, whatever functions do on the way, and the model stays as it was."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.inspector.tools.dataflow import INPUT, JOIN, OUTPUT, follow
from tests.inspector.models import Encoder, Twice, hooks_on, mlp


def test_a_chain() -> None:
    flow = follow(mlp(), torch.randn(4, 5))
    assert flow.traced
    assert flow.links == {
        (INPUT, "0"): (4, 5), ("0", "1"): (4, 7), ("1", "2"): (4, 7), ("2", OUTPUT): (4, 3),
    }  # fmt: skip
    first = flow.layers["0"]
    assert (first.inputs, first.outputs, first.parameters, first.calls) == (((4, 5),), ((4, 7),), 42, 1)
    assert flow.layers[""].parameters == 66
    assert flow.layers[""].seconds is not None


def test_residual_connections_join_in_their_block() -> None:
    links = follow(Encoder(), torch.randn(2, 4, 8)).links
    join = f"{JOIN}blocks.0"
    assert {ends for ends in links if join in ends} == {
        (INPUT, join), ("blocks.0.ffn.2", join), (join, "blocks.1.norm"), (join, f"{JOIN}blocks.1"),
    }  # fmt: skip
    assert not any("unused" in ends for ends in links)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(6, 2)

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"out": self.c(torch.cat([self.a(x), self.b(y)[:]], 1).relu_()), "same": x}


def test_names_of_arguments_and_results() -> None:
    flow = follow(Two(), {"x": torch.randn(4, 3), "y": torch.randn(4, 3)})
    assert set(flow.links) == {
        (f"{INPUT}x", "a"), (f"{INPUT}y", "b"), ("a", "c"), ("b", "c"), ("c", f"{OUTPUT}out"),
        (f"{INPUT}x", f"{OUTPUT}same"),
    }  # fmt: skip


def test_without_an_input_only_what_is_certain() -> None:
    flow = follow(nn.Sequential(mlp(), nn.ReLU()))
    assert not flow.traced
    assert set(flow.links) == {("0", "1"), ("0.0", "0.1"), ("0.1", "0.2")}
    assert follow(Encoder()).layers["blocks.0"].children == ("blocks.0.norm", "blocks.0.ffn")


def test_a_shared_layer_is_one() -> None:
    flow = follow(Twice(), torch.randn(2, 5))
    assert set(flow.links) == {(INPUT, "layer"), ("layer", OUTPUT)}
    assert flow.layers["layer"].calls == 2


def test_the_model_and_its_input_are_left_alone() -> None:
    norm = nn.BatchNorm1d(5)
    net = nn.Sequential(norm, nn.ReLU(inplace=True), nn.Dropout())
    x, state = torch.randn(4, 5), torch.get_rng_state()
    assert norm.running_mean is not None
    mean = norm.running_mean.clone()
    follow(net, x)
    assert torch.equal(norm.running_mean, mean)
    assert torch.equal(torch.get_rng_state(), state)
    assert hooks_on(net) == 0
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_hooks_go_also_if_the_model_raises() -> None:
    net = mlp()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        follow(net, torch.randn(2, 9))
    assert hooks_on(net) == 0
