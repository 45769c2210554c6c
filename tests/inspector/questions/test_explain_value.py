from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.inspector.questions.sites import functions
from pnne_nb.inspector.questions.units import layer_output
from tests.inspector.questions.nets import made
from tests.inspector.questions.untouched import untouched

LAYERS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "Linear": lambda: (nn.Linear(6, 4), torch.randn(2, 3, 6)),
    "Linear without bias": lambda: (nn.Linear(6, 4, bias=False), torch.randn(6)),
    "Conv1d": lambda: (nn.Conv1d(4, 6, 3, padding=2, dilation=2, groups=2), torch.randn(2, 4, 9)),
    "Conv2d": lambda: (nn.Conv2d(3, 4, (3, 2), stride=2, padding=1), torch.randn(2, 3, 7, 6)),
    "Conv2d, circular": lambda: (nn.Conv2d(2, 2, 3, padding="same", padding_mode="circular"), torch.randn(1, 2, 5, 5)),
    "Conv2d without a batch": lambda: (nn.Conv2d(3, 4, 3), torch.randn(3, 5, 5)),
    "Conv3d": lambda: (nn.Conv3d(2, 3, 2), torch.randn(1, 2, 3, 4, 4)),
    "ConvTranspose2d": lambda: (nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), torch.randn(2, 3, 4, 4)),
    "AvgPool2d": lambda: (nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), torch.randn(2, 3, 7, 7)),
    "AdaptiveAvgPool2d": lambda: (nn.AdaptiveAvgPool2d((2, 3)), torch.randn(2, 3, 7, 7)),
    "MaxPool1d": lambda: (nn.MaxPool1d(3, stride=2, padding=1), torch.randn(2, 3, 9)),
    "MaxPool2d": lambda: (nn.MaxPool2d((2, 3), dilation=2, ceil_mode=True), torch.randn(2, 3, 8, 9)),
    "AdaptiveMaxPool2d": lambda: (nn.AdaptiveMaxPool2d((3, None)), torch.randn(2, 3, 7, 4)),
    "BatchNorm1d": lambda: (nn.BatchNorm1d(4), torch.randn(3, 4, 5)),
    "BatchNorm2d": lambda: (nn.BatchNorm2d(4), torch.randn(3, 4, 5, 5)),
    "BatchNorm2d of the batch": lambda: (nn.BatchNorm2d(4, track_running_stats=False), torch.randn(3, 4, 5, 5)),
    "InstanceNorm2d": lambda: (nn.InstanceNorm2d(4, affine=True), torch.randn(3, 4, 5, 5)),
    "InstanceNorm1d without a batch": lambda: (nn.InstanceNorm1d(4), torch.randn(4, 5)),
    "LayerNorm": lambda: (nn.LayerNorm((3, 4)), torch.randn(2, 5, 3, 4)),
    "LayerNorm without weights": lambda: (nn.LayerNorm(4, elementwise_affine=False), torch.randn(2, 4)),
    "GroupNorm": lambda: (nn.GroupNorm(2, 4), torch.randn(3, 4, 5, 5)),
    "RMSNorm": lambda: (nn.RMSNorm(4), torch.randn(2, 3, 4)),
    "Softmax": lambda: (nn.Softmax(1), torch.randn(2, 5, 3)),
    "LogSoftmax": lambda: (nn.LogSoftmax(-1), torch.randn(2, 5)),
    "Softmin": lambda: (nn.Softmin(-1), torch.randn(2, 5)),
    "Softmax2d": lambda: (nn.Softmax2d(), torch.randn(2, 5, 3, 3)),
    "Embedding": lambda: (nn.Embedding(7, 4), torch.randint(7, (2, 5))),
    "MultiheadAttention": lambda: (nn.MultiheadAttention(8, 2, batch_first=True), (torch.randn(2, 5, 8),) * 3),
    "MultiheadAttention of sequences": lambda: (
        nn.MultiheadAttention(8, 4, kdim=6, vdim=5), (torch.randn(4, 2, 8), torch.randn(7, 2, 6), torch.randn(7, 2, 5))
    ),
    "MultiheadAttention with a mask": lambda: (
        nn.MultiheadAttention(8, 2, batch_first=True, bias=False),
        {"query": (x := torch.randn(2, 5, 8)), "key": x, "value": x, "attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)},
    ),
    "Upsample": lambda: (nn.Upsample(scale_factor=2, mode="bilinear"), torch.randn(1, 2, 3, 4)),
    "PixelShuffle": lambda: (nn.PixelShuffle(2), torch.randn(1, 8, 3, 3)),
    "ConstantPad2d": lambda: (nn.ConstantPad2d(1, 2.5), torch.randn(1, 2, 3, 3)),
    "ReflectionPad1d": lambda: (nn.ReflectionPad1d(2), torch.randn(2, 3, 5)),
    "Fold": lambda: (nn.Fold((4, 5), (2, 2)), torch.randn(2, 8, 12)),
    "RNN": lambda: (nn.RNN(3, 4, 2, nonlinearity="relu"), torch.randn(5, 2, 3)),
    "GRU both ways": lambda: (nn.GRU(3, 4, 2, bidirectional=True, batch_first=True), torch.randn(2, 5, 3)),
    "LSTM": lambda: (nn.LSTM(3, 4, 2, bias=False, batch_first=True), torch.randn(2, 5, 3)),
    "LSTM from a state": lambda: (
        nn.LSTM(3, 4, 2, bidirectional=True), (torch.randn(5, 3), (torch.randn(4, 4), torch.randn(4, 4)))
    ),
    "RNNCell": lambda: (nn.RNNCell(3, 4), torch.randn(3)),
    "GRUCell": lambda: (nn.GRUCell(3, 4), (torch.randn(2, 3), torch.randn(2, 4))),
    "LSTMCell": lambda: (nn.LSTMCell(3, 4), (torch.randn(2, 3), (torch.randn(2, 4), torch.randn(2, 4)))),
    **{
        kind.__name__: lambda kind=kind: (kind(), 3 * torch.randn(2, 6))  # type: ignore[misc]
        for kind in (
            nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.LogSigmoid, nn.Tanh,
            nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish, nn.Identity, nn.Dropout, nn.Softplus, nn.CELU, nn.Hardshrink,
            nn.Softshrink, nn.Tanhshrink, nn.PReLU, nn.RReLU, nn.AlphaDropout,
        )
    },
    "PReLU of channels": lambda: (nn.PReLU(4), torch.randn(2, 4, 3)),
    "ReLU in place": lambda: (nn.ReLU(inplace=True), torch.randn(2, 4)),
    "SyncBatchNorm": lambda: (nn.SyncBatchNorm(4), torch.randn(3, 4, 5, 5)),
    "UpsamplingBilinear2d": lambda: (nn.UpsamplingBilinear2d(scale_factor=2), torch.randn(1, 2, 3, 4)),
    "UpsamplingNearest2d": lambda: (nn.UpsamplingNearest2d(scale_factor=2), torch.randn(1, 2, 3, 4)),
    "Bilinear": lambda: (nn.Bilinear(3, 4, 2), (torch.randn(5, 3), torch.randn(5, 4))),
    "GLU": lambda: (nn.GLU(1), torch.randn(2, 6, 3)),
    "CosineSimilarity": lambda: (nn.CosineSimilarity(1), (torch.randn(3, 5, 2), torch.randn(3, 5, 2))),
    "LPPool1d": lambda: (nn.LPPool1d(3, 2, stride=1), torch.randn(2, 3, 7).abs()),
    "LPPool2d": lambda: (nn.LPPool2d(2, (3, 2), ceil_mode=True), torch.randn(2, 3, 7, 7)),
    "LocalResponseNorm": lambda: (nn.LocalResponseNorm(4, alpha=0.3), torch.randn(2, 7, 3, 3)),
    "EmbeddingBag of means": lambda: (nn.EmbeddingBag(7, 4, padding_idx=2), torch.randint(7, (5, 6))),
    "EmbeddingBag of maxima": lambda: (nn.EmbeddingBag(7, 4, mode="max"), (torch.randint(7, (9,)), torch.tensor([0, 4, 6]))),
    "EmbeddingBag of weights": lambda: (
        nn.EmbeddingBag(7, 4, mode="sum"), {"input": torch.randint(7, (5, 6)), "per_sample_weights": torch.randn(5, 6)}
    ),
    "PairwiseDistance": lambda: (nn.PairwiseDistance(3, keepdim=True), (torch.randn(5, 4), torch.randn(4))),
    "GELU by tanh": lambda: (nn.GELU("tanh"), torch.randn(2, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_the_formula_gives_what_the_layer_returned(name: str) -> None:
    torch.manual_seed(1)
    layer, data = LAYERS[name]()
    for tensor in (*layer.parameters(), *(t for n, t in layer.named_buffers() if "running" in n)):
        torch.nn.init.uniform_(tensor, 0.2, 1.5)
    net = copy.deepcopy(layer).eval()
    args, named = (data, {}) if isinstance(data, tuple) else ((), data) if isinstance(data, dict) else ((data,), {})
    output = net(*args, **named)
    output = output[0] if isinstance(output, tuple) else output
    drawn = np.random.default_rng(0)
    for _ in range(min(100, output.numel())):
        index = tuple(int(drawn.integers(size)) for size in output.shape)
        found = pn.explain_value(layer, data, "", index)
        assert found.value == pytest.approx(float(output[index].detach()), rel=1e-5, abs=1e-5)
        assert found.error <= 1e-6
        if found.terms:
            assert sum(product for _, product in found.terms) == pytest.approx(found.result)


def test_a_convolution_shows_its_operands() -> None:
    case = made("CNN")
    with untouched(case.net):
        found = pn.explain_value(case.net, case.data, "0", (0, 3, 4, 5))
    weight, bias = case.net[0].weight.detach().double(), case.net[0].bias.detach().double()  # type: ignore[index]
    window = case.data[0, 0, 4:7, 5:8].double()
    torch.testing.assert_close(found.operands["input"], window.flatten())
    torch.testing.assert_close(found.operands["weight"], weight[3, 0].flatten())
    assert found.result == pytest.approx(float((weight[3, 0] * window).sum() + bias[3]))
    lines = repr(found).splitlines()
    assert lines[0] == f"0[0, 3, 4, 5] (Conv2d) = Σ input · weight + bias = {found.result:.7g}"
    assert "4 more terms" in repr(found)
    assert lines[-1].startswith(f"  the layer returned {found.value:.7g} (relative difference ")


def test_a_layer_inside_and_a_later_call() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Any:
            return self.layer(self.layer(x))

    net, x = Twice(), torch.randn(1, 2)
    assert pn.explain_value(net, x, "layer", (0, 1), call=1).value == pytest.approx(float(net(x)[0, 1].detach()))
    with pytest.raises(pn.InspectionError, match="The layer 'layer' is called 2 times, so that there is no call 2"):
        pn.explain_value(net, x, "layer", (0, 1), call=2)


class Functions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.mix = nn.Parameter(torch.randn(8, 3))

    def forward(self, x: Tensor) -> Any:
        y = F.leaky_relu(self.a(x), 0.2)
        z = torch.softmax(self.b(y) + x, -1)
        w = torch.cat([z * y, F.gelu(x).exp()], 1) @ self.mix
        return w.clamp(max=2) - z.mean(-1, keepdim=True)


def test_functions_of_a_compiled_graph_are_explained_by_the_names_of_their_nodes() -> None:
    torch.manual_seed(0)
    own, x = Functions(), torch.randn(3, 4)
    graph = pn.from_module(own, args=(x,))
    net = pn.compile(graph)
    said = {}
    for node, function in functions(net).items():
        output = layer_output(net, x, node)
        with untouched(net):
            for index in np.ndindex(*output.shape):
                found = pn.explain_value(net, x, node, tuple(map(int, index)))
                assert found.value == float(output[index])
                assert found.error <= 1e-6
        said[function.type] = found
    assert said["softmax" if "softmax" in said else "torch_softmax"].formula == "exp(input) / Σ exp(row)"
    assert said["leaky_relu"].formula == "input if input > 0 else slope · input"
    assert [round(p, 6) for _, p in said["add"].terms]
    assert len(said["matmul"].terms) == 8
    assert len(said["mean"].terms) == 4
    assert "exp" in said["exp"].formula
    with untouched(net), pytest.raises(pn.InspectionError, match="no element"):
        pn.explain_value(net, x, "add", (0, 9))
    with pytest.raises(pn.LayerNotFoundError, match="Did you mean 'add'"):
        pn.explain_value(net, x, "ad", (0, 0))


def test_a_hook_that_changes_the_output_is_found() -> None:
    net = nn.Sequential(nn.Linear(3, 2))
    net[0].register_forward_hook(lambda _module, _args, output: output + 1)
    with pytest.raises(pn.InspectionError, match=r"The formula of the layer '0' .* a hook or a changed forward"):
        pn.explain_value(net, torch.randn(1, 3), "0", (0, 1))


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Any:
        return x


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "a block": (
        lambda: pn.explain_value(made("GPT").net, made("GPT").data, "blocks.0.mlp", (0, 0, 0)),
        "is made of others: ask one of 'blocks.0.mlp.0', 'blocks.0.mlp.1', 'blocks.0.mlp.2'",
    ),
    "no formula": (
        lambda: pn.explain_value(nn.FractionalMaxPool2d(2, 2), torch.randn(1, 2, 5, 5), "", (0, 0, 0, 0)),
        r"There is no formula for the layer '' \(FractionalMaxPool2d\)",
    ),
    "not called": (
        lambda: pn.explain_value(Unused(), torch.randn(1, 2), "layer", (0, 0)), "The layer 'layer' is not called for this"
    ),
    "an example that does not fit": (
        lambda: pn.explain_value(made("MLP").net, (torch.randn(3, 5), 2), "0", (0, 1)), "cannot be called with"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_work_is_explained(name: str) -> None:
    call, message = BAD[name]
    with pytest.raises((pn.ArgumentError, pn.InspectionError, pn.LayerNotFoundError), match=message):
        call()
