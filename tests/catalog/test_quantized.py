from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pnne_nb as pn
from pnne_nb.catalog import specs
from pnne_nb.catalog.quantized import LAYERS, QuantizedConv2d, QuantizedEmbedding, QuantizedLinear, quantized_layer
from tests.compiler.graphs import wire


def drawn() -> pn.NodeGraph:
    graph = pn.NodeGraph("low")
    graph.add("Input", "x", shape=("N", 3, 6, 6))
    settings: dict[str, Any] = {"kind": "static", "scale": 0.05, "zero_point": 128}
    graph.add("QuantizedConv2d", "conv", in_channels=3, out_channels=4, kernel_size=(3, 3), padding=(1, 1), **settings)
    graph.add("flatten", "flat", start_dim=1)
    graph.add("QuantizedLinear", "fc", in_features=144, out_features=5, kind="dynamic")
    graph.add("Output", "y")
    return wire(graph, "x conv flat fc y")


def filled(model: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    for name, tensor in model.named_buffers():
        if name.endswith(".weight"):
            tensor.copy_(torch.randint(-127, 128, tensor.shape, generator=generator))
        elif name.endswith("scale"):
            tensor.fill_(0.01)
    return model


def test_a_document_names_a_layer_that_the_palette_does_not_list() -> None:
    assert quantized_layer("QuantizedConv2d") is not None
    assert quantized_layer("QuantizedNothing") is None
    assert quantized_layer("Conv2d") is None
    assert not [spec for spec in specs() if spec.type.startswith("Quantized")]
    graph = pn.NodeGraph.from_json(drawn().to_json())
    assert pn.infer_shapes(graph)["fc.output"].shape == ("N", 5)


def test_weights_travel_by_name_and_the_file_opens_again() -> None:
    model = filled(pn.compile(drawn()))
    assert list(model.state_dict()) == [
        "conv.weight",
        "conv.weight_scale",
        "conv.bias",
        "fc.weight",
        "fc.weight_scale",
        "fc.bias",
    ]
    again = pn.compile(pn.NodeGraph.from_json(drawn().to_json()), reuse=model)
    x = torch.randn(2, 3, 6, 6)
    assert torch.equal(again(x), model(x))


def test_the_shown_source_stands_alone_and_computes_the_same() -> None:
    graph = drawn()
    model = filled(pn.compile(graph))
    source = pn.to_source(graph)
    assert "pnne_nb" not in source
    space: dict[str, Any] = {"__name__": "shown"}
    exec(source, space)
    twin = space["Low"]()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 6, 6)
    assert torch.equal(twin(x), model(x))


def test_static_inputs_are_rounded_to_8_bits_of_their_range() -> None:
    layer = QuantizedLinear(3, 2, kind="static", scale=0.5, zero_point=10)
    layer.get_buffer("weight").copy_(torch.tensor([[1, 0, 0], [0, 2, 0]]))
    # 0.6 is nearer to 0.5 than to 1; below -5 and above 122.5 there are no numbers.
    assert layer(torch.tensor([[0.6, -100.0, 0.0]])).tolist() == [[0.5, -10.0]]
    assert layer(torch.tensor([[1000.0, 0.0, 0.0]])).tolist() == [[122.5, 0.0]]


def test_the_range_of_dynamic_inputs_is_that_of_the_batch() -> None:
    layer = QuantizedLinear(1, 1, bias=False, kind="dynamic")
    layer.get_buffer("weight").fill_(1)
    x = torch.linspace(-3, 1000, 50).reshape(-1, 1)
    assert (layer(x) - x).abs().max() <= 1003 / 255 / 2 + 1e-3


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_16_bit_layers_compute_in_their_precision_and_return_that_of_the_input(
    kind: Literal["bfloat16", "float16"],
) -> None:
    dtype = getattr(torch, kind)
    layer = QuantizedConv2d(2, 3, (3, 3), padding=(1, 1), groups=1, kind=kind)
    weight, bias = layer.get_buffer("weight"), layer.get_buffer("bias")
    weight.copy_(torch.randn(3, 2, 3, 3))
    bias.copy_(torch.randn(3))
    x = torch.randn(1, 2, 5, 5)
    found = layer(x)
    assert found.dtype == torch.float32
    assert torch.equal(found, F.conv2d(x.to(dtype), weight, bias.to(dtype), padding=1).float())


def test_a_table_has_one_scale_a_row() -> None:
    layer = QuantizedEmbedding(4, 3)
    layer.get_buffer("weight").copy_(torch.arange(12).reshape(4, 3))
    layer.get_buffer("weight_scale").copy_(torch.tensor([1.0, 2.0, 3.0, 0.5]))
    assert layer(torch.tensor([[1, 3]])).tolist() == [[[6.0, 8.0, 10.0], [4.5, 5.0, 5.5]]]


def test_every_layer_says_what_its_arguments_are() -> None:
    for layer in LAYERS:
        spec = quantized_layer(layer.__name__)
        assert spec is not None
        assert spec.property_named("kind") is not None
        assert spec.doc
