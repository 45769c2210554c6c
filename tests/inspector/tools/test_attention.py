"""Attention maps are the weights that the layers use."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pnne_nb.inspector.tools.attention import LARGEST, attention_maps
from tests.inspector.models import hooks_on, mlp


@pytest.mark.parametrize("training", [True, False])
def test_multihead_attention_in_a_transformer(training: bool) -> None:
    torch.manual_seed(0)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2).train(training)
    x = torch.randn(3, 5, 8)
    maps = attention_maps(net, x)
    assert list(maps) == ["layers.0.self_attn", "layers.1.self_attn"]
    attend = net.layers[0].self_attn
    _, weights = attend(x, x, x, need_weights=True, average_attn_weights=False)
    assert torch.allclose(maps["layers.0.self_attn"], weights, atol=1e-6)
    assert hooks_on(net) == 0


class Attend(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        if self.kind == "fused":
            return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
        if self.kind == "causal":
            return F.scaled_dot_product_attention(q, k, k, is_causal=True)
        return (q @ k.mT / 2 + torch.where(mask, 0.0, -torch.inf)).softmax(-1) @ k


@pytest.mark.parametrize("kind", ["fused", "causal", "by hand"])
def test_weights_reproduce_the_output(kind: str) -> None:
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    net = Attend(kind)
    weights = attention_maps(net, (q, k, mask))[""]
    assert weights.shape == (2, 3, 5, 5)
    assert torch.allclose(weights @ k, net(q, k, mask), atol=1e-6)
    assert weights.triu(1).count_nonzero() == 0


def test_long_sequences_are_cut() -> None:
    q = torch.randn(1, 1, 600, 2)
    maps = attention_maps(Attend("fused"), (q, q, torch.ones(600, 600, dtype=torch.bool)))
    assert maps[""].shape == (1, 1, LARGEST, LARGEST)


def test_other_layers_have_none() -> None:
    assert attention_maps(mlp(), torch.randn(2, 5)) == {}
