"""Modules that make trouble: a clear error or an honest opaque node, and the module as it was."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference
from tests.compiler.importing import nets


class Watching(nn.Module):
    """Looks from another thread at what an import might replace for a moment."""

    look: Callable[[], None] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if Watching.look is not None:
            thread = threading.Thread(target=Watching.look)
            thread.start()
            thread.join()
        out: Tensor = self.linear(x) + torch.arange(x.size(1))
        return out


def test_other_threads_see_torch_as_it_is() -> None:
    net, x = Watching(), torch.randn(2, 4)
    expected = nn.functional.linear(x, net.linear.weight, net.linear.bias)
    before = (torch.arange, torch.zeros, nn.Module.__call__, nn.Module.__getattr__, len)
    seen: list[bool] = []

    def look() -> None:
        same = (torch.arange, torch.zeros, nn.Module.__call__, nn.Module.__getattr__, len) == before
        seen.append(same and torch.equal(net.linear(x), expected) and type(torch.arange(3)) is Tensor)

    Watching.look = look
    try:
        graph = pn.from_module(net, (x,))
    finally:
        Watching.look = None
    assert seen
    assert all(seen)
    assert pn.verify(graph, net, x).opaque == {}


def test_imports_in_several_threads_do_not_mix() -> None:
    nets_ = [nets.GPT() for _ in range(4)]
    tokens = torch.randint(7, (2, 5))
    graphs: dict[int, pn.NodeGraph] = {}

    def work(index: int) -> None:
        graphs[index] = pn.from_module(nets_[index], (tokens,))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(nets_))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, net in enumerate(nets_):
        assert graphs[index] == graphs[0]
        assert pn.verify(graphs[index], net, tokens).opaque == {}


class Clashing(nn.Module):
    """Names that the document, the generated class or Python have a use for."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Linear(4, 4)
        self.output = nn.Linear(4, 4)
        self.math = nn.Linear(4, 4)
        self.operator = nn.LayerNorm(4)
        self.add = nn.Parameter(torch.ones(4))
        self.super = nn.Identity()

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        out: Tensor = self.operator(self.math(self.output(self.x(x)))) + self.add
        result: Tensor = self.super(out + x)
        return result


class Tangled(nn.Module):
    """One tensor under many names, one module in many places."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Linear(4, 4)
        self.first = shared
        self.rest = nn.ModuleList([shared, nn.Linear(4, 4), shared])
        self.rest[1].weight = shared.weight
        self.norm = nn.LayerNorm(4)
        self.norm.weight = shared.bias
        self.scale = shared.bias

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.rest:
            x = layer(x)
        out: Tensor = self.norm(self.first(x)) * self.scale
        return out


@pytest.mark.filterwarnings("ignore:scale. The document does not contain the values of this parameter")
@pytest.mark.parametrize("make", [Clashing, Tangled])
def test_odd_names_and_odd_sharing_come_back_equal(make: Callable[[], nn.Module]) -> None:
    net, x = make(), torch.randn(3, 4)
    graph = pn.NodeGraph.from_json(pn.from_module(net, (x,)).to_json())
    report = pn.verify(graph, net, x)
    assert report, str(report)
    assert report.opaque == {}
    model = pn.compile(graph, reuse=None)
    model.load_state_dict(net.state_dict())
    assert len(list(model.parameters())) == len(list(net.parameters()))
    assert torch.equal(model(x), net(x))


def test_a_tie_whose_other_end_is_gone_is_told() -> None:
    net = nets.GPT()
    graph = pn.from_module(net, (torch.randint(7, (2, 5)),))
    graph.add("Embedding", name="other", num_embeddings=11, embedding_dim=8)
    graph.connect("tokens", "other")
    for edge in graph.edges:
        if edge.source == "wte.output":
            graph.disconnect(*edge)
            graph.connect("other", edge.target)
    graph.remove("transformer.wte")
    with pytest.raises(
        pn.CompileError, match=r"is the same tensor as transformer\.wte\.weight, which is no longer there"
    ):
        pn.compile(graph, reuse=net)


class Quantised(nn.Module):
    """A weight in eight bits, as quantisation leaves it."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randint(-8, 8, (4, 4), dtype=torch.int8), requires_grad=False)
        self.register_buffer("scale", torch.tensor(0.1))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale)


def test_weights_in_eight_bits_are_kept_as_they_are() -> None:
    net, x = Quantised(), torch.randn(2, 4)
    graph = pn.from_module(net, (x,))
    assert graph["weight"].properties["dtype"] == "int8"
    assert pn.verify(graph, net, x)


class Fussy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("not today")


def test_a_module_that_refuses_every_call_is_told_in_its_words() -> None:
    with pytest.raises(pn.CompileError, match=r"Fussy cannot be called with \(\[2\] float32\): not today"):
        pn.from_module(Fussy(), torch.zeros(2))


class Hidden(nn.Module):
    """A mode that only the other one's branch would show: what is wrong in one mode must not pass."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.training else x.relu()


def test_both_modes_are_drawn() -> None:
    net, x = Hidden(), torch.randn(3, 4)
    graph = pn.from_module(net, x)
    assert pn.verify(graph, net, x).opaque == {}
    assert "if self.training else" in pn.to_source(graph)


def test_without_gradients_stays_without() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                y = self.encoder(x).relu() * 2
            out: Tensor = self.head(y)
            return out

    net, x = Frozen(), torch.randn(3, 4)
    report = pn.verify(pn.from_module(net, x), net, x)
    assert report, str(report)
    assert report.opaque == {}


def test_values_of_buffers_survive_the_file() -> None:
    class Tables(nn.Module):
        positions: Tensor
        mask: Tensor
        phase: Tensor
        brain: Tensor
        flags: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("positions", torch.arange(5).expand(1, -1))
            self.register_buffer("mask", torch.ones(200, 200).tril(), persistent=False)
            self.register_buffer("phase", torch.polar(torch.ones(3), torch.arange(3.0)), persistent=False)
            self.register_buffer("odd", torch.tensor([float("inf"), float("-inf"), 0.1]))
            self.register_buffer("brain", torch.tensor([1.5, 2.25], dtype=torch.bfloat16))
            self.register_buffer("flags", torch.tensor([[True, False]]))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.positions + self.mask[:1, :5] + self.phase.real.sum() + self.brain.sum() + self.flags.sum()

    net = Tables()
    graph = pn.NodeGraph.from_json(pn.from_module(net, torch.randn(2, 5)).to_json())
    model = pn.compile(graph)
    for name, buffer in net.named_buffers():
        assert torch.equal(model.get_buffer(name), buffer), name
        assert model.get_buffer(name).dtype == buffer.dtype


def test_sparse_matrices_come_in_and_are_kept() -> None:
    class Neighbours(nn.Module):
        own: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("own", torch.eye(3).to_sparse())
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor, near: Tensor) -> Tensor:
            x = self.linear(x)
            return near @ x + self.own @ x

    net, near = Neighbours(), torch.ones(3, 3).tril().to_sparse()
    x = torch.randn(3, 4)
    graph = pn.NodeGraph.from_json(pn.from_module(net, (x, near)).to_json())
    model = pn.compile(graph, reuse=net)
    assert model.get_buffer("own").layout == torch.sparse_coo
    assert torch.equal(model(x, near), net(x, near))
    assert "matmul" in graph


def test_a_module_without_inputs_is_told_so() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.values = nn.Parameter(torch.ones(3))

        def forward(self) -> Tensor:
            return self.values * 2

    with pytest.raises(
        pn.CompileError, match=r"Table cannot be imported: .* so nothing can be fed to it \(test_hostile\.py, line \d+"
    ):
        pn.from_module(Table())


@pytest.mark.parametrize("persistent", [True, False])
def test_a_large_buffer_is_said_to_be_absent(persistent: bool) -> None:
    class Large(nn.Module):
        table: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(200, 100), persistent=persistent)

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.table

    net, x = Large(), torch.randn(2, 200)
    graph = pn.from_module(net, x)
    assert torch.equal(pn.compile(graph, reuse=net)(x), net(x))
    message = "table: The document does not contain the values of this buffer"
    if persistent:
        with pytest.warns(UserWarning, match=message):
            pn.compile(graph, reuse=None)
    else:
        with pytest.raises(pn.CompileError, match=message):
            pn.compile(graph, reuse=None)
    assert "# shape only: the values are those of the imported module" in pn.to_source(graph)


class Chained(nn.Module):
    """Layers one after the other, some of whose tensors are the same."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


def one_parameter() -> nn.Module:
    layers = [nn.Linear(4, 4, bias=False) for _ in range(200)]
    for layer in layers[1:]:
        layer.weight = layers[0].weight
    return Chained(list(layers))


def one_layer() -> nn.Module:
    return Chained([nn.Linear(4, 4)] * 100)


def shared_statistics() -> nn.Module:
    first, second = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    second.running_mean, second.weight = first.running_mean, first.weight
    return Chained([first, nn.Linear(4, 4), second])


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.randn(4, 4))
        self.other = self.one
        self.layer = nn.Linear(4, 4)
        self.layer.weight = self.one
        self.transposed = nn.Linear(4, 4, bias=False)
        self.transposed.weight = nn.Parameter(self.one.t())  # the same memory, another parameter

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x @ self.one) + x @ self.other.t() + self.transposed(x)
        return out


class Overlapping(nn.Module):
    """A buffer that is a part of another: what changes one changes both."""

    whole: Tensor
    part: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.zeros(2, 4))
        self.register_buffer("part", self.whole[0])

    def forward(self, x: Tensor) -> Tensor:
        self.whole.add_(1)
        return x + self.part


def watched() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def threefold(_module: nn.Module, inputs: Any, _outputs: Any) -> Any:
        return (inputs[0] * 3,)

    net[1].register_full_backward_hook(threefold)
    return net


def scaled() -> nn.Module:
    """A hook of a tensor is no matter of the drawing: the tensor keeps it."""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    weight: Any = net[0].weight
    weight.register_hook(lambda gradient: gradient * 2)
    return net


def scripted() -> nn.Module:
    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        return nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.ReLU())


def compiled() -> nn.Module:
    layer: Any = torch.compile(nn.Linear(4, 4), backend="eager")
    return nn.Sequential(layer, nn.ReLU())


@pytest.mark.parametrize(
    ("make", "closed"),
    [
        (one_parameter, ""),
        (one_layer, ""),
        (shared_statistics, ""),
        (TwoNames, ""),
        (Overlapping, "module"),
        (watched, "1"),
        (scaled, ""),
        (scripted, "0"),
        (compiled, "0"),
    ],
)
def test_odd_modules_come_back_equal(make: Callable[[], nn.Module], closed: str) -> None:
    net, x = make(), torch.randn(3, 4)
    state, places = copy.deepcopy(net.state_dict()), [id(tensor) for tensor in net.parameters()]
    report = pn.verify(graph := pn.from_module(net, x), net, x)
    assert report, str(report)
    assert list(report.opaque) == ([closed] if closed else [])
    assert difference(state, net.state_dict()) == ""
    assert [id(tensor) for tensor in net.parameters()] == places
    model = pn.compile(pn.NodeGraph.from_json(graph.to_json()), reuse=net)
    assert len(list(model.parameters())) == len(places)
    other = torch.randn(5, 4)
    if make is not Overlapping:  # whose calls count
        assert torch.equal(model.eval()(other), net.eval()(other))


class Endless(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self(x)
        return out


def test_what_never_ends_is_refused() -> None:
    with pytest.raises(pn.CompileError, match=r"Endless cannot be called with .*recursion"):
        pn.from_module(Endless(), torch.randn(2))


def test_inputs_follow_a_model_of_shapes() -> None:
    graph = pn.from_module(nn.Sequential(nn.Linear(4, 4)).to("meta"), torch.randn(2, 4))
    assert [node.type for node in graph.nodes.values()] == ["Input", "Linear", "Output"]


class Cache:
    """What a model remembers for its next call."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = [keys]
        self.device = keys.device


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Cache]:
        y = self.linear(x)
        return y, Cache(y)


def test_objects_among_the_results_are_compared_by_what_they_hold() -> None:
    net, x = Remembering(), torch.randn(2, 4)
    graph = pn.from_module(net, x)
    report = pn.verify(graph, net, x)
    assert report, str(report)
    assert not report.opaque
    assert "keys: item 0: differs" in difference(Cache(x), Cache(x + 1))


class Filler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, cache: Cache) -> Tensor:
        x = self.linear(x)
        cache.keys.append(x if self.training else x * 2)
        out: Tensor = self.dropout(torch.stack([torch.cat(cache.keys), torch.cat(cache.keys[::-1])]).sum(0)[:2])
        return out


class Filling(nn.Module):
    """Passes an object on to its layers, which each put something into it, and returns it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Filler(), Filler()])

    def forward(self, x: Tensor) -> tuple[Tensor, Cache]:
        cache = Cache(x)
        for layer in self.layers:
            x = layer(x, cache)
        return x, cache


def test_an_object_that_one_layer_fills_and_another_reads_is_not_taken_for_new() -> None:
    net, x = Filling(), torch.randn(2, 4)
    report = pn.verify(pn.from_module(net, x), net, x)
    assert report, str(report)
    assert not report.opaque
