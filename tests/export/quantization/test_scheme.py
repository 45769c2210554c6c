from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from pnne_nb.export.quantization.scheme import InputRange, convert, unfit

LAYERS: list[tuple[Any, tuple[int, ...]]] = [
    (lambda: nn.Linear(6, 4), (3, 6)),
    (lambda: nn.Linear(6, 4, bias=False), (2, 3, 6)),
    (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9)),
    (lambda: nn.Conv2d(4, 6, (3, 5), padding="same", dilation=(1, 2)), (2, 4, 9, 9)),
    (lambda: nn.Conv2d(4, 4, 3, padding="valid", groups=4, bias=False), (2, 4, 9, 9)),
]


@pytest.mark.parametrize(("make", "shape"), LAYERS)
def test_weights_in_int8_are_within_half_a_step_of_their_channel(make: Any, shape: tuple[int, ...]) -> None:
    layer = make()
    done = convert(layer, "weight_only", InputRange())
    scale = done.tensors["weight_scale"].reshape(-1, *[1] * (layer.weight.dim() - 1))
    assert done.tensors["weight"].dtype == torch.int8
    rounded = done.tensors["weight"].float() * scale
    assert ((rounded - layer.weight).abs() <= scale / 2 + 1e-7).all()
    assert done.tensors["weight"].abs().flatten(1).amax(1).eq(127).all()
    x = torch.randn(shape)
    twin = make()
    twin.load_state_dict({**layer.state_dict(), "weight": rounded})
    torch.testing.assert_close(done.module()(x), twin(x))


@pytest.mark.parametrize(("make", "shape"), LAYERS)
def test_static_inputs_are_those_of_their_range(make: Any, shape: tuple[int, ...]) -> None:
    layer, x = make(), torch.randn(shape)
    range = InputRange(0.02, 128)
    rounded = ((x / 0.02).round() + 128).clamp(0, 255).sub(128).mul(0.02)
    weight = convert(layer, "weight_only", range).module()
    torch.testing.assert_close(convert(layer, "static", range).module()(x), weight(rounded), atol=1e-5, rtol=1e-5)


def test_a_channel_of_zeros_stays_zero() -> None:
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight[1] = 0
    found = convert(layer, "weight_only", InputRange()).module()(torch.randn(5, 3))
    assert torch.equal(found[:, 1], layer.bias[1].expand(5))


def spectral() -> nn.Module:
    return parametrizations.spectral_norm(nn.Linear(2, 2))


def changed(layer: nn.Module, value: float) -> nn.Module:
    with torch.no_grad():
        layer.get_parameter("weight")[0, 0] = value
    return layer


CIRCULAR = "its padding mode is 'circular', and int8 convolutions pad with zeros"


class Own(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


@pytest.mark.parametrize(
    ("layer", "kind", "why"),
    [
        (nn.Linear(2, 2), "static", ""),
        (nn.Embedding(3, 2), "weight_only", ""),
        (nn.Embedding(3, 2), "static", 'its input is indices, which have no range: use kind="weight_only"'),
        (nn.Embedding(3, 2, max_norm=1.0), "weight_only", r"it changes its weights in the forward pass (max_norm)"),
        (nn.GRU(2, 2), "weight_only", "there is no weight-only kernel for recurrent layers (GRU)"),
        (nn.Conv2d(2, 2, 3), "dynamic", 'there is no dynamic int8 convolution: use kind="static"'),
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), "static", CIRCULAR),
        (nn.Conv2d(2, 2, 2, padding="same"), "static", "its padding is not the same at both sides"),
        (nn.Conv3d(2, 2, 2), "static", "there is no static form of Conv3d"),
        (nn.Linear(2, 2).double(), "static", "its weights are float64, not float32"),
        (changed(nn.Linear(2, 2), float("nan")), "static", "its weights are not finite"),
        (changed(nn.Linear(2, 2), 1e6), "float16", "its weights are too large for float16: use bfloat16"),
        (changed(nn.Linear(2, 2), 1e6), "bfloat16", ""),
        (spectral(), "static", "its weights are computed by a parametrization: remove that first"),
        (Own(2, 2), "static", "there is no static form of Own"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_says_why(layer: nn.Module, kind: Any, why: str) -> None:
    assert unfit(layer, kind) == why
