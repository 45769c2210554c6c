from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.catalog.quantized import Kind
from pnne_nb.compiler.passes import report
from tests.compiler.graphs import wire


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TIMING_SECONDS", 0.0)
    monkeypatch.setattr(report, "TIMING_ROUNDS", 1)


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    pictures, classes = load_digits(return_X_y=True)
    return torch.tensor(pictures, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(classes)


def drawn() -> pn.NodeGraph:
    return pn.sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding="same"),
        nn.ReLU(), nn.Flatten(), nn.Linear(256, 10), input=("N", 1, 8, 8),
    )  # fmt: skip


@functools.cache
def learned() -> dict[str, Tensor]:
    """Weights of a few epochs."""
    torch.manual_seed(0)
    model = pn.compile(drawn())
    x, y = digits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for start in range(0, 1200, 50):
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(model(x[start : start + 50]), y[start : start + 50]))
        optimizer.step()
    return model.state_dict()


def trained() -> nn.Module:
    model = pn.compile(drawn())
    model.load_state_dict(learned())
    return model


def split() -> dict[str, Any]:
    x, y = digits()
    return {"data": (x[:1200], y[:1200]), "val_data": (x[1200:], y[1200:])}


@pytest.mark.parametrize("kind", ["static", "weight_only", "bfloat16", "float16"])
def test_a_conv_net_is_converted_whole_within_the_budget(kind: Kind) -> None:
    model = trained()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    done = pn.quantize(model, **split(), budget=("val_accuracy", 0.5), kind=kind)
    assert done.ok, str(done)
    assert done.loss <= 0.5
    assert done.converted == ("conv2d1", "conv2d2", "linear1")
    assert done.share > 0.99
    assert done.bytes_after < (0.35 if kind in ("static", "weight_only") else 0.55) * done.bytes_before
    assert "Batch normalisation was fused into the layer before it, once." in done.notes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training


def test_the_document_compiles_to_the_model_and_its_nodes_are_drawn() -> None:
    done = pn.quantize(trained(), **split())
    assert [node.type for node in done.graph.nodes.values()] == [
        "Input", "QuantizedConv2d", "ReLU", "MaxPool2d", "QuantizedConv2d", "ReLU", "Flatten", "QuantizedLinear", "Output",
    ]  # fmt: skip
    x, _ = digits()
    again = pn.compile(pn.NodeGraph.from_json(done.graph.to_json()), reuse=done.model).eval()
    assert torch.equal(again(x[:7]), done.model(x[:7]))


def test_each_node_tells_its_error_its_bytes_and_its_work() -> None:
    done = pn.quantize(trained(), **split())
    conv = done.nodes["conv2d2"]
    assert conv.precision == "int8"
    assert conv.multiply_adds == 8 * 16 * 9 * 16
    assert conv.bytes_before == 4 * (8 * 16 * 9 + 16)
    assert conv.bytes_after == 8 * 16 * 9 + 4 * 16 + 4 * 16
    assert conv.sqnr is not None
    assert 20 < conv.sqnr < 80
    assert conv.worst is not None
    assert conv.worst > 0
    assert len(conv.index) == 4
    assert conv.damage is not None
    assert 0 < conv.damage < 0.1
    frame = done.to_frame()
    assert list(frame["damage"]) == sorted(frame["damage"], reverse=True)
    assert "conv2d2" in done._repr_html_()


def test_the_error_of_a_node_is_that_of_its_rounding() -> None:
    # Against a second implementation: rounding of weights alone, by hand.
    model = trained()
    done = pn.quantize(model, **split(), kind="weight_only", keep=("conv2d1", "conv2d2"))
    weight = model.get_submodule("linear1").get_parameter("weight").detach()
    scale = weight.abs().amax(1, keepdim=True) / 127
    rounded = (weight / scale).round() * scale
    seen: list[Tensor] = []
    handle = model.eval().get_submodule("linear1").register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        model(digits()[0][1200:1328])
    handle.remove()
    with torch.no_grad():
        bias = model.get_submodule("linear1").get_parameter("bias")
        exact, found = seen[0] @ weight.T + bias, seen[0] @ rounded.T + bias
    noise = 10 * torch.log10(exact.square().sum() / (found - exact).square().sum())
    assert done.nodes["linear1"].sqnr == pytest.approx(float(noise), abs=0.05)
    assert done.nodes["linear1"].worst == pytest.approx(float((found - exact).abs().max()), rel=1e-2)


def test_the_fewest_nodes_stay_in_float_that_the_budget_asks_for() -> None:
    model = trained()
    with torch.no_grad():
        # One row 1e4 times the others, and inputs to it that cancel: 8 bits cannot hold what the others say.
        layer = model.get_submodule("conv2d2")
        layer.get_parameter("weight").mul_(torch.logspace(-4, 0, 8).reshape(1, 8, 1, 1))
    done = pn.quantize(model, **split(), budget=("val_accuracy", 100.0))
    assert done.left_in_float == ()
    strict = pn.quantize(trained(), **split(), budget=("val_loss", 0.0))
    assert strict.loss <= 0.0
    assert len(strict.left_in_float) < 4
    for path in strict.left_in_float:
        assert strict.nodes[path].reason == "val_loss would lose more than 0 % with it"
    assert strict.evaluations <= 24


def test_a_node_that_ruins_the_metric_is_found() -> None:
    graph = pn.sequential(nn.Linear(4, 4), nn.Linear(4, 2), input=("N", 4))
    model = pn.compile(graph)
    x = torch.randn(512, 4)
    with torch.no_grad():
        first, second = (model.get_submodule(name) for name in ("linear1", "linear2"))
        # The first feature is a million times as large and not used by the class, so 8-bit inputs lose the others.
        x[:, 0] *= 1e6
        first.get_parameter("weight").copy_(torch.eye(4))
        first.get_parameter("bias").zero_()
        second.get_parameter("weight").copy_(torch.tensor([[0.0, 1, 1, 1], [0, -1, -1, -1]]))
        second.get_parameter("bias").zero_()
    y = (x[:, 1:].sum(1) < 0).long()
    done = pn.quantize(model, (x, y), ("val_accuracy", 0.5))
    assert done.before == 1.0
    assert done.left_in_float == ("linear1", "linear2")
    assert not done.ok
    assert done.model.state_dict().keys() == model.state_dict().keys()
    assert "No node was converted" in str(done)


def test_without_targets_nothing_is_left_in_float() -> None:
    done = pn.quantize(trained(), digits()[0][:200])
    assert done.metric == ""
    assert len(done.converted) == 3
    assert "104 examples calibrate" in str(done) or "others judge" in str(done)


def test_layers_without_a_form_are_skipped_with_the_reason() -> None:
    graph = pn.NodeGraph("text")
    graph.add("Input", "tokens", shape=("N", "T"), dtype="int64")
    graph.add("Embedding", "table", num_embeddings=20, embedding_dim=8)
    graph.add("LSTM", "rnn", input_size=8, hidden_size=8, batch_first=True)
    graph.add("Linear", "head", in_features=8, out_features=3)
    graph.add("Output", "y")
    wire(graph, "tokens table rnn.input", "rnn.output head y")
    tokens = torch.randint(0, 20, (64, 5))
    static = pn.quantize(graph, tokens)
    assert static.converted == ("head",)
    assert static.nodes["rnn"].reason == "there is no static kernel for recurrent layers (LSTM)"
    assert static.nodes["table"].reason == 'its input is indices, which have no range: use kind="weight_only"'
    only = pn.quantize(graph, tokens, kind="weight_only")
    assert only.converted == ("table", "head")


def test_convolutions_without_int8_form_and_shared_weights_are_told() -> None:
    graph = pn.NodeGraph("odd")
    graph.add("Input", "x", shape=("N", 2, 8, 8))
    graph.add("Conv2d", "mirror", in_channels=2, out_channels=2, kernel_size=3, padding=1, padding_mode="reflect")
    graph.add("Conv2d", "lopsided", in_channels=2, out_channels=2, kernel_size=2, padding="same")
    graph.add("Conv2d", "own", in_channels=2, out_channels=2, kernel_size=1)
    graph.add("Conv2d", "twice", shares="own")
    graph.add("Conv2d", "last", in_channels=2, out_channels=2, kernel_size=1)
    graph.add("Output", "y")
    wire(graph, "x mirror lopsided own twice last y")
    done = pn.quantize(graph, torch.randn(64, 2, 8, 8))
    assert done.converted == ("last",)
    assert done.nodes["mirror"].reason == "its padding mode is 'reflect', and int8 convolutions pad with zeros"
    assert done.nodes["lopsided"].reason == "its padding is not the same at both sides"
    assert done.nodes["twice"].reason == "it computes with the weights of 'own', which are needed as they are"
    assert done.nodes["own"].reason == "other nodes compute with its weights, so they are needed as they are"
    dynamic = pn.quantize(graph, torch.randn(64, 2, 8, 8), kind="dynamic")
    assert dynamic.nodes["last"].reason == 'there is no dynamic int8 convolution: use kind="static"'


def test_a_reused_activation_is_no_obstacle() -> None:
    relu = nn.ReLU()
    net = nn.Sequential(nn.Linear(4, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 2)).eval()
    x = torch.randn(64, 4)
    done = pn.quantize(net, x)
    assert len(done.converted) == 3
    torch.testing.assert_close(done.model(x), net(x), atol=0.05, rtol=0.1)


def test_nested_graphs_are_converted_inside() -> None:
    graph = drawn()
    graph.group(["conv2d2", "relu2"], name="block")
    done = pn.quantize(graph, **split(), budget=("val_accuracy", 100))
    assert "block.conv2d2" in done.converted
    assert done.graph["block.conv2d2"].type == "QuantizedConv2d"


def test_an_engine_brings_its_own_data() -> None:
    x, y = digits()
    engine = pn.TrainingEngine(trained(), (x[:1200], y[:1200]), (x[1200:], y[1200:]), epochs=1)
    done = pn.quantize(engine)
    assert done.metric == "val_accuracy"
    assert done.examples == 597


def test_without_data_there_is_no_guess() -> None:
    with pytest.raises(pn.ArgumentError, match="There is no data to calibrate with"):
        pn.quantize(trained())


def test_data_that_does_not_fit_is_told_at_the_input() -> None:
    with pytest.raises(
        pn.ExportError, match=r"The data has the shape \(16, 3, 8, 8\), and the input is \(N, 1, 8, 8\)"
    ) as caught:
        pn.quantize(trained(), torch.randn(100, 3, 8, 8))
    assert [found.node for found in caught.value.diagnostics] == ["x"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (torch.randn(64, 5), r"cannot be called with \(\[16, 5\] float32\): 0.layer: mat1 and mat2 shapes cannot"),
        (
            torch.ones(64, 6, dtype=torch.int64),
            r"cannot be called with \(\[16, 6\] int64\): 0.layer: mat1 and mat2 must",
        ),
    ],
)
def test_data_that_a_module_does_not_take_is_told_at_its_layer(data: Tensor, message: str) -> None:
    with pytest.raises(pn.ExportError, match=f"The model does not take the data: Sequential {message}") as caught:
        pn.quantize(nn.Sequential(Doubled(), nn.Linear(6, 2)), data)
    assert [found.node for found in caught.value.diagnostics] == ["0.layer"]


@pytest.mark.parametrize(("example", "what"), [(2, "input"), (3, "output")])  # one calibrates, the other judges
def test_values_that_are_not_finite_are_told_at_the_node(example: int, what: str) -> None:
    x = torch.randn(64, 4)
    x[example, 2] = float("nan")
    with pytest.raises(pn.ExportError, match=f"linear1: its {what} has values that are not finite") as caught:
        pn.quantize(pn.sequential(nn.Linear(4, 2), input=("N", 4)), x)
    assert [found.node for found in caught.value.diagnostics] == ["linear1"]


def test_a_training_graph_is_refused_with_its_nodes() -> None:
    graph = pn.sequential(nn.Linear(4, 2), input=("N", 4))
    graph.add("CrossEntropyLoss", "loss")
    graph.add("AdamW", "optimizer")
    with pytest.raises(pn.ExportError, match="optimizer: the graph describes a training") as caught:
        pn.quantize(graph, torch.randn(64, 4))
    assert "optimizer" in [found.node for found in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "int4"}, "kind cannot be 'int4'"),
        ({"budget": 0.5}, "budget must be a metric and what it may lose in percent"),
        ({"budget": ("val_accuracy", -1)}, "budget must be a metric"),
        ({"keep": ("conv9",)}, "keep names conv9, which would not be converted: conv2d1, conv2d2, linear1 would be"),
        ({"reuse": nn.Linear(1, 1)}, "graph must be a NodeGraph where reuse= is given"),
    ],
)
def test_wrong_arguments_are_told(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(pn.PnneError, match=message):
        pn.quantize(trained(), split()["data"], **arguments)


def test_a_metric_needs_targets_and_a_division_examples() -> None:
    with pytest.raises(pn.ArgumentError, match="The data has no targets, so val_accuracy cannot be measured"):
        pn.quantize(trained(), digits()[0], ("val_accuracy", 1))
    with pytest.raises(pn.ArgumentError, match="data has 5 examples, too few to calibrate on some and judge by others"):
        pn.quantize(trained(), digits()[0][:5])


def test_the_compiled_model_is_compared_with_the_measured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*_: object) -> tuple[pn.NodeGraph, nn.Module]:
        return drawn(), pn.compile(drawn()).eval()

    monkeypatch.setattr("pnne_nb.inference.quantize.rewrite", other)
    with pytest.raises(
        pn.ExportError, match=r"The compiled model is another one than was measured \(.*\): please report this"
    ):
        pn.quantize(trained(), **split())


class Doubled(nn.Module):
    """A block that is used twice, with weights of its own in each use."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x))


@pytest.mark.parametrize("kind", ["static", "dynamic", "weight_only"])
def test_equal_blocks_keep_their_own_weights(kind: Kind) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Doubled(), Doubled(), nn.Linear(6, 2)).eval()
    x = torch.rand(64, 6)
    found = pn.quantize(net, (x, torch.randint(0, 2, (64,))), ("val_accuracy", 100), kind=kind)
    assert found.converted == ("0.layer", "1.layer", "2")
    assert (found.nodes["0.layer"].sqnr or 0) > 25
    assert found.nodes["0.layer"].bytes_before == found.nodes["1.layer"].bytes_before == 4 * (36 + 6)
    with torch.no_grad():
        exact = net(x)
        assert (found.model(x) - exact).norm() < 0.1 * exact.norm()


def test_one_of_two_equal_blocks_stays_in_float_alone() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Doubled(), Doubled(), nn.Linear(6, 2)).eval()
    x = torch.rand(64, 6)
    x[:, :3] *= 10
    found = pn.quantize(net, x, keep=("1.layer",))
    assert found.converted == ("0.layer", "2")
    assert found.graph["0.layer"].type == "QuantizedLinear"
    assert found.graph["1.layer"].type == "Linear"
    assert list(found.nodes) == ["0.layer", "1.layer", "2"]
    (first,) = pn.quantize(net, x, keep=("1.layer", "2")).converted
    alone = nn.Sequential(net[0], nn.Identity(), nn.Linear(6, 2)).eval()
    expected = pn.quantize(alone, x).graph["0.layer"].properties["scale"]
    assert found.graph[first].properties["scale"] == expected, "the range of one block alone"


class Tied(nn.Module):
    """Blocks that are called twice each, with the same weights both times."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Doubled() for _ in range(blocks)), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(block(x))
        result: Tensor = self.last(x)
        return result


@pytest.mark.parametrize("blocks", [1, 2])
def test_blocks_that_share_weights_share_them_still(blocks: int) -> None:
    torch.manual_seed(0)
    net, x = Tied(blocks).eval(), torch.rand(64, 6)
    found = pn.quantize(net, x)
    assert "last" in found.converted
    torch.testing.assert_close(found.model(x), net(x), atol=0.02, rtol=0.05)
    if blocks == 1:
        assert found.share == 1.0
        assert {type(part).__name__ for part in found.model.modules() if not list(part.children())} == {
            "QuantizedLinear"
        }
    else:
        assert found.nodes["blocks_0.layer"].reason.startswith("its block is drawn once for several pairs of blocks")


class Listed(nn.Module):
    """Has its layers in a list and a dictionary, and two of them with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.named = nn.ModuleDict({"out": nn.Linear(8, 4)})
        self.layers[2].weight = self.layers[0].weight

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        scores: Tensor = self.named["out"](x)
        return scores


@pytest.mark.parametrize("keep", [(), ("layers_0",), ("layers_2",)])
@pytest.mark.parametrize("kind", ["static", "dynamic", "weight_only"])
def test_layers_stay_in_their_list_and_share_no_weight_with_one_in_float(kind: Kind, keep: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    net, x = Listed().eval(), torch.randn(64, 8)
    report = pn.quantize(net, x, kind=kind, keep=keep)
    assert {name.partition(".weight")[0] for name in report.model.state_dict() if name.endswith("weight")} == {
        "layers.0", "layers.1", "layers.2", "named.out",
    }  # fmt: skip
    torch.testing.assert_close(report.model(x), net(x), rtol=0.0, atol=0.1)
    assert torch.equal(pn.compile(report.graph)(x), report.model(x))
