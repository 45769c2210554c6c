"""Parameters, shapes, multiply-adds and memory against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.compiler.shapes.cost import PIECES
from pnne_nb.inspector.tools.summary import summary
from tests.inspector.models import Encoder, Twice, hooks_on


def lenet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Sequential(nn.Linear(4 * 36, 10))
    )


def test_counts_equal_those_by_hand() -> None:
    found = summary(lenet(), torch.randn(2, 1, 8, 8))
    frame: Any = found.to_frame()
    assert frame.loc["0", "parameters"] == 4 * 9 + 4
    assert frame.loc["0", "mult_adds"] == 2 * 36 * 4 * 9
    assert frame.loc["4.0", "mult_adds"] == frame.loc["4", "mult_adds"] == 2 * 144 * 10
    assert frame.loc["1", "memory"] == 4 * (4 + 4 + 4 + 4) + 8
    assert frame.loc["0", "activation"] == 4 * 2 * 4 * 36
    assert frame.loc["4", "outputs"] == ((2, 10),)
    assert found.parameters == found.trainable == sum(p.numel() for p in lenet().parameters())
    assert found.mult_adds == frame.loc["", "mult_adds"]
    assert found.gradient_memory == 4 * found.trainable
    assert found.activation_memory == frame["activation"].sum()


def test_the_text_is_stable() -> None:
    expected = """\
Layer    Type     Input   Output      Parameters  Mult-adds  Memory  Activation
-------------------------------------------------------------------------------
(model)  Linear   [1, 3]  [1, 2]               8          6    32 B         8 B
-------------------------------------------------------------------------------
Parameters: 8
Multiply-adds: 6
Memory: parameters and buffers 32 B, outputs 8 B; a training step takes 92 B"""
    text = repr(summary(nn.Linear(3, 2), torch.randn(1, 3)))
    assert [line.split() for line in text.splitlines() if "---" not in line] == [
        line.split() for line in expected.splitlines() if "---" not in line
    ]
    assert ">Linear</td>" in summary(nn.Linear(3, 2), torch.randn(1, 3))._repr_html_()


class Attention(nn.Module):
    def forward(self, q: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, q, q)


@pytest.mark.parametrize("trained", [False, True])
def test_attention_on_the_cpu_is_counted(trained: bool) -> None:
    # Two products of [16, 16] by [16, 16] for each of 4 examples and 4 heads.
    found = summary(Attention(), torch.randn(4, 4, 16, 16, requires_grad=trained))
    assert found.mult_adds == 2 * 16**3 * 16


@pytest.mark.parametrize(
    "net", [nn.LSTM(8, 16), nn.GRU(8, 16, 2), nn.RNN(8, 16), lenet()], ids=lambda net: type(net).__name__
)
def test_what_autograd_keeps_is_what_it_saves(net: nn.Module) -> None:
    x = torch.randn(2, 1, 8, 8) if isinstance(net, nn.Sequential) else torch.randn(5, 3, 8)
    known = {tensor.untyped_storage()._cdata for tensor in (x, *net.parameters(), *net.buffers())}
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage()._cdata not in known:
            saved.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = net(x)
    expected = sum(tensor.untyped_storage().nbytes() for tensor in saved.values())
    del output
    found = summary(net, x)
    assert found.saved_memory == expected == sum(row.saved for row in found.rows)
    if isinstance(net, nn.LSTM):
        assert found.saved_memory > 5 * found.activation_memory


def test_frozen_uncalled_and_shared_layers() -> None:
    net = Encoder()
    net.head.requires_grad_(False)
    found = summary(net, torch.randn(2, 3, 8))
    frame: Any = found.to_frame()
    assert frame.loc["unused", "calls"] == 0
    assert "not called" in repr(found)
    assert "(18 frozen)" in repr(found)
    assert found.parameters - found.trainable == 18
    twice = summary(Twice(), torch.randn(2, 5))
    twice_frame: Any = twice.to_frame()
    assert twice.parameters == 30
    assert twice_frame.loc["layer", "calls"] == 2
    assert twice_frame.loc["layer", "mult_adds"] == 2 * 2 * 25


def test_recurrent_layers_and_several_arguments() -> None:
    t, n = 5, 2
    found = summary(nn.LSTM(3, 4), torch.randn(t, n, 3))
    assert found.mult_adds == t * n * (3 * 16 + 4 * 16)
    assert found.rows[0].outputs == ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    bilinear = summary(nn.Bilinear(2, 3, 4), (torch.randn(5, 2),), {"input2": torch.randn(5, 3)})
    assert bilinear.rows[0].inputs == ((5, 2), (5, 3))


def test_memory_of_the_optimizer() -> None:
    net, x = nn.Linear(4, 2), torch.randn(3, 4)
    optimizer = torch.optim.Adam(net.parameters())
    assert summary(net, x).optimizer_memory is None
    assert summary(net, x, optimizer=optimizer).optimizer_memory == 0
    net(x).sum().backward()
    optimizer.step()
    # Two moments of ten elements, and a step count for each of the two parameters.
    found = summary(net, x, optimizer=optimizer)
    assert found.optimizer_memory == 4 * (2 * 10 + 2)
    assert "a training step takes 304 B with its optimizer" in repr(found)


def test_times_are_those_of_a_profile_layer_by_layer() -> None:
    net = Encoder()
    timed = summary(net, torch.randn(2, 3, 8), times=True)
    rows = {row.layer: row for row in timed.rows}
    assert rows[""].forward is not None
    assert rows["blocks.0.ffn"].backward is not None
    assert rows[""].forward > (rows["blocks.0.ffn"].forward or 0) > 0
    assert rows["blocks.0.ffn"].backward > 0
    assert rows["unused"].forward == rows["unused"].backward == 0
    assert repr(timed).splitlines()[0].split()[-2:] == ["Forward", "Backward"]
    assert ">Backward</th>" in timed._repr_html_()
    assert "Forward" not in repr(summary(net, torch.randn(2, 3, 8)))
    assert hooks_on(net) == 0


def test_what_bounds_the_trial_of_a_node_does_not_bound_a_model() -> None:
    class Rows(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack(x.unbind(0)).sum()

    assert summary(Rows(), torch.ones(PIECES + 1, 1)).rows[0].outputs == ((),)
