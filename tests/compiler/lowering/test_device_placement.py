from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import pnne_nb as pn
from pnne_nb.compiler.pipeline.compile import load
from tests.compiler import graphs
from tests.compiler.graphs import wire


def chain() -> pn.NodeGraph:
    graph = pn.NodeGraph("chain")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Linear", "one", in_features=4, out_features=4)
    graph.add("relu", "act")
    graph.add("Linear", "two", in_features=4, out_features=4)
    graph.add("add", "sum")
    graph.add("Linear", "three", in_features=4, out_features=2)
    graph.add("Output", "y")
    return wire(graph, "x one act two sum.input", "act sum.other", "sum three y")


def on_imagined_devices(graph: pn.NodeGraph, monkeypatch: pytest.MonkeyPatch, *inputs: torch.Tensor) -> Any:
    """Run a placed model on tensors without data, where several devices can be had; mixing them raises."""
    with monkeypatch.context() as patch:
        patch.setattr(nn.Module, "to", lambda self, *_: self)
        patch.setattr("pnne_nb.compiler.shapes.scope.available_devices", lambda: ["cpu", "cuda:0", "cuda:1"])
        model = pn.compile(graph, reuse=None)
    devices = load(graph).generated.devices
    mode = FakeTensorMode()
    memo: dict[int, Any] = {}
    for path, tensor in [*model.named_parameters(), *model.named_buffers()]:
        place = [devices[path[: len(p)]] for p in sorted(devices, key=len) if path.startswith(f"{p}.")]
        with mode:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype, device=place[-1] if place else "cpu")
        memo[id(tensor)] = nn.Parameter(empty) if isinstance(tensor, nn.Parameter) else empty
    twin = copy.deepcopy(model, memo).eval()
    with mode, torch.no_grad():
        return twin(*(torch.empty(each.shape, dtype=each.dtype) for each in inputs))


def test_a_device_holds_for_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.set("two", device="cuda:0")
    assert pn.to_source(graph).splitlines()[8:] == [
        "        self.one = nn.Linear(4, 4)",
        '        self.two = nn.Linear(4, 4).to("cuda:0")',
        '        self.three = nn.Linear(4, 2).to("cuda:0")',
        "",
        "    def forward(self, x: torch.Tensor) -> torch.Tensor:",
        "        x = self.one(x)  # (N, 4)",
        "        x = F.relu(x)  # (N, 4)",
        '        x = x.to("cuda:0")  # (N, 4)',
        "        x = self.two(x) + x  # (N, 4)",
        "        return self.three(x)  # (N, 2)",
    ]
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cuda:0")


def test_a_value_is_moved_once_for_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.set("two", device="cuda:1")
    graph.set("three", device="cuda:0")
    graph.add("Linear", "four", in_features=4, out_features=2, device="cuda:1")
    graph.add("add", "total")
    graph.disconnect("three", "y")
    wire(graph, "act four total.other", "three total.input", "total y")
    source = pn.to_source(graph)
    assert source.count('.to("cuda:1")  # ') == 1
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cuda:0")


def test_back_to_where_the_arguments_are(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.set("two", device="cuda:0")
    # The sum's first input is where the arguments are, so the other one comes there.
    graph.disconnect("two", "sum")
    graph.disconnect("act", "sum")
    wire(graph, "act sum.input", "two sum.other")
    assert "= act.device" in pn.to_source(graph)
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cpu")


def test_parameters_of_the_graph_itself_come_along(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.set("two", device="cuda:0")
    graph.add("Parameter", "scale", shape=(4,))
    graph.add("mul", "scaled")
    graph.disconnect("sum", "three")
    wire(graph, "sum scaled.input", "scale scaled.other", "scaled three")
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cuda:0")


def test_sizes_stay_and_nested_graphs_move_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.add("size", "width", dim=-1)
    graph.add("mul", "scaled")
    graph.disconnect("sum", "three")
    wire(graph, "x width scaled.other", "sum scaled.input", "scaled three")
    graph.group(["two", "sum"], "block")
    graph.set("block", device="cuda:0")
    model_source = pn.to_source(graph)
    assert 'self.block = Block().to("cuda:0")' in model_source
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cuda:0")


def test_devices_inside_a_nested_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.group(["two", "sum"], "block")
    graph.set("block.two", device="cuda:0")
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cuda:0")
    graph.set("one", device="cuda:1")
    with pytest.raises(
        pn.CompileError, match=r"block: It would run on cuda:1, and nodes inside it have devices of their own"
    ):
        pn.compile(graph)


def test_only_tensors_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.recurrent()
    graph.add("LSTM", "second", input_size=7, hidden_size=7, batch_first=True, device="meta")
    graph.add("tuple", "state")
    graph.disconnect("lstm", "last")
    wire(graph, "lstm.h_n state.items_0", "lstm.c_n state.items_1", "state second.hx", "lstm.output second.input",
         "second.output last")  # fmt: skip
    with pytest.raises(
        pn.CompileError, match=r"second: The result of state is on the device of the inputs and is needed on meta"
    ):
        pn.compile(graph)


def test_a_placed_model_keeps_its_places_when_weights_are_reused() -> None:
    graph = chain()
    first = pn.compile(graph)
    graph.set("two", device="meta")
    model = pn.compile(graph, reuse=first)
    assert model.get_parameter("one.weight").device.type == "cpu"
    assert model.get_parameter("two.weight").device.type == "meta"
    assert model(torch.zeros(2, 4)).device.type == "meta"


def test_a_shared_layer_calls_what_it_takes_back_to_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the arguments are has to be asked of a tensor that is there, not of the one that is to come."""
    graph = chain()
    graph.set("two", device="cuda:0")
    graph.disconnect("sum", "three")
    graph.remove("three")
    graph.add("Linear", "again", shares="one")
    wire(graph, "sum again y")
    assert "= x.device" in pn.to_source(graph) or "= act.device" in pn.to_source(graph)
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cpu")


def test_a_tensor_is_where_the_code_itself_has_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stateful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.cell = nn.LSTMCell(4, 4)
            self.last = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.first(x)
            state = torch.zeros(h.size(0), 4, device=h.device)
            h, _ = self.cell(h, (state, torch.zeros_like(state)))
            return self.last(h)  # type: ignore[no-any-return]  # torch does not say

    graph = pn.from_module(Stateful(), torch.zeros(2, 4))
    graph.set("first", device="cuda:0")
    assert pn.to_source(graph).count(".to(") == 4, "three layers and the input; the state is made in place"
    assert on_imagined_devices(graph, monkeypatch, torch.zeros(2, 4)).device == torch.device("cuda:0")


def test_a_tied_weight_is_on_one_device() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(8, 4)
            self.norm = nn.LayerNorm(4)
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(self.embed(x)))  # type: ignore[no-any-return]  # torch does not say

    net = Tied()
    graph = pn.from_module(net, torch.zeros(2, 3, dtype=torch.long))
    graph.set("norm", device="cuda:0")  # the head follows
    with pytest.raises(
        pn.CompileError,
        match=r"head.weight and embed.weight are one tensor, and would be on cuda:0 and on the device of the inputs\. "
        r"Set the device of head and of embed to the same\.",
    ):
        pn.compile(graph, reuse=net)
    for node in ("embed", "head"):
        graph.set(node, device="cpu")
    graph.set("norm", device="meta")
    assert pn.to_source(graph).count('.to("cpu")') == 4, "two layers, and what goes into them"


def test_shapes_do_not_ask_for_devices_that_are_not_there() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", "x", shape=("N", 4))
    graph.add("to", "moved", device="cuda:1")
    graph.add("zeros_like", "made", device="cuda:1")
    graph.add("Output", "y")
    wire(graph, "x moved made y")
    assert pn.infer_shapes(graph)["made.output"].shape == ("N", 4)


def test_a_device_that_is_not_there_is_named_with_its_node() -> None:
    graph = chain()
    graph.set("two", device="cuda:99")
    with pytest.raises(pn.CompileError, match="two: It is placed on cuda:99, which this machine does not have"):
        pn.compile(graph)
    with pytest.raises(
        pn.BadValueError, match=r"two.device cannot be 'gpu': it must be a device such as 'cpu' or 'cuda:0'"
    ):
        graph.set("two", device="gpu")


def test_a_property_of_a_class_that_is_called_device_is_no_placement() -> None:
    class Labelled(nn.Module):
        def __init__(self, device: str = "left", checkpoint: bool = False) -> None:
            super().__init__()
            self.device = device

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    pn.register_node(category="Custom", replace=True)(Labelled)
    graph = pn.NodeGraph("own")
    graph.add("Input", "x", shape=("N", 2))
    graph.add("Labelled", "label", device="right", checkpoint=True)
    graph.add("Output", "y")
    wire(graph, "x label y")
    assert pn.compile(graph).label.device == "right"
