"""Idioms that once closed a module without need, or that the proof once missed."""

from __future__ import annotations

import collections
import copy
import enum
import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference

X = torch.linspace(-1, 1, 16).reshape(4, 4)


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)


def closed(graph: pn.NodeGraph) -> list[str]:
    """Return why nodes are closed."""
    nodes = [node for inner in graph.graphs.values() for node in inner.nodes.values()]
    return [node.origin.reason for node in nodes if node.origin is not None and node.origin.reason]


class Selecting(Layered):
    """Selects a layer by a size that its caller mostly fixes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Identity()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[x.shape[0] - 1 :]:
            x = layer(x)
        y: Tensor = self.layers[-x.shape[0]](x)
        return y


class Cutting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Selecting()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x[:2])
        return y.sum(0) + x


def test_a_layer_that_is_selected_by_a_size_is_checked() -> None:
    net = Cutting()
    graph = pn.from_module(net, X)
    assert not closed(graph)
    model = pn.compile(graph, reuse=net)
    for rows in (2, 3, 4):
        assert torch.equal(model(X[:rows]), net(X[:rows]))
    with pytest.raises(pn.ExecutionError, match=r"import again \(dimension 0 of x must be .*test_idioms\.py, line"):
        model(X[:1])


class Listing(Layered):
    """Selects a number by a size, which Python's own lists take unseen."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * [1.0, 2.0, 4.0][min(len(x), 2)]


class CuttingForAList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Listing()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x[:2])
        return y.sum(0) + x


def test_one_example_alone_is_compared_too() -> None:
    net = CuttingForAList()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    assert torch.equal(model(X[:1]), net(X[:1]))


class Refusing(Layered):
    def check(self, x: Tensor) -> None:
        if (x.abs() > 4.5).any():
            message = "some of x are too large"
            raise ValueError(message)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        y: Tensor = self.fc(x)
        return y


def test_a_condition_that_raises_a_message_of_a_variable_is_a_check() -> None:
    net = Refusing()
    graph = pn.from_module(net, X)
    assert not closed(graph)
    with pytest.raises(pn.ExecutionError, match=r"the module itself stops unless \(x.abs\(\) > 4.5\).any\(\) is False"):
        pn.compile(graph, reuse=net)(X * 10)


class ByType(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * {torch.float32: 1.0, torch.float64: 2.0}[x.dtype]


def test_a_type_that_is_the_key_of_a_dictionary_is_checked() -> None:
    net = ByType()
    graph = pn.from_module(net, X)
    assert not closed(graph)
    model = pn.compile(graph, reuse=net)
    with pytest.raises(KeyError):
        copy.deepcopy(net).half()(X.half())
    with pytest.raises(pn.ExecutionError, match=r"imported for x\.dtype == torch\.float64; otherwise import again"):
        copy.deepcopy(model).half()(X.half())
    assert torch.equal(model.double()(X.double()), net.double()(X.double()))


class WithHook(Layered):
    """Works only where gradients are recorded."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        y.register_hook(lambda gradient: gradient * 2)  # type: ignore[no-untyped-call]  # torch does not say
        return y


class WithBackwardHook(Layered):
    """Fails in the backward pass where its input has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.fc.register_full_backward_hook(lambda module, given, gradients: (given[0] * 2,))  # type: ignore[index]  # torch's

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y


@pytest.mark.parametrize("make", [WithHook, WithBackwardHook])
def test_what_works_with_gradients_alone_is_imported(make: Callable[[], nn.Module]) -> None:
    net = nn.Sequential(nn.Linear(4, 4), make())
    graph = pn.from_module(net, X)
    assert closed(graph)
    model = pn.compile(graph, reuse=net)
    results = []
    for module in (net, model):
        x = X.clone().requires_grad_()
        module(x).sum().backward()
        results.append(x.grad)
    assert difference(results[0], results[1]) == ""


class Named(dict[str, Tensor]):
    def __getattr__(self, name: str) -> Tensor:
        return self[name]


@pytest.mark.parametrize(
    "kind", [Named, collections.Counter, lambda found: collections.defaultdict(list, found), collections.OrderedDict]
)
def test_a_dictionary_that_is_returned_keeps_its_class(kind: Callable[[Any], Any]) -> None:
    class Returning(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return kind({"y": x * 2})

    net = Returning()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    assert type(model(X)) is type(net(X))
    assert difference(model(X), net(X)) == ""


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


class ByKind(Layered):
    def forward(self, x: Tensor, kind: Kind | torch.device) -> Tensor:
        y: Tensor = self.fc(x)
        return y if kind is Kind.ONE else y * 2


@pytest.mark.parametrize("given", [Kind.ONE, Kind.TWO, torch.device("cpu")])
def test_an_argument_that_no_node_compares_is_left_to_the_module(given: Any) -> None:
    net = ByKind()
    graph = pn.from_module(net, (X, given))
    assert any("no node compares with that of the next call" in reason for reason in closed(graph))
    model = pn.compile(graph, reuse=net)
    for kind in Kind:
        assert torch.equal(model(X, kind), net(X, kind))


class Decaying(Layered):
    """Changes its parameters, in training or always."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.always = always

    def forward(self, x: Tensor) -> Tensor:
        if self.training or self.always:
            self.fc.weight.data.mul_(0.9)
        y: Tensor = self.fc(x)
        return y


@pytest.mark.parametrize("always", [True, False])
def test_parameters_that_a_forward_changes_are_changed_by_the_import_too(always: bool) -> None:
    net = Decaying(always)
    before = net.fc.weight.detach().clone()
    graph = pn.from_module(net, X)
    assert torch.equal(net.fc.weight, before)
    model = pn.compile(graph, reuse=net)
    for module in (net, model):
        module.train()
    for _ in range(3):
        assert torch.equal(model(X), net(X))
    mine, theirs = (dict(module.named_parameters()) for module in (net, model))
    assert torch.equal(mine["fc.weight"], theirs["fc.weight"])


class AskingForItsPast(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        if y.grad_fn is None:
            y = self.fc(y)
        return y


class ComputingInVain(Layered):
    """Refuses other element types in what nobody reads."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        (y + torch.ones(4)) @ self.fc.weight
        return y


def test_what_goes_by_the_recording_of_gradients_is_not_taken_from_the_example() -> None:
    net = AskingForItsPast()
    graph = pn.from_module(net, X)
    assert any(
        "asks for grad_fn of a tensor" in reason and "test_idioms.py, line" in reason for reason in closed(graph)
    )


def test_what_nobody_reads_refuses_what_it_does_not_take() -> None:
    net = ComputingInVain()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    for module in (net, model):
        with pytest.raises((RuntimeError, pn.ExecutionError), match="same dtype"):
            module.bfloat16()(X.bfloat16())


def filled(x: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.where(x > 0, torch.zeros((), dtype=dtype), torch.finfo(dtype).min)


def masked(x: Tensor) -> Tensor:
    return filled(x, x.dtype) / len(x)


class Registered(collections.UserDict[str, Callable[[Tensor], Tensor]]):
    """A table with a method of its own, as libraries keep their kinds of attention."""

    def of(self, name: str) -> Callable[[Tensor], Tensor]:
        found: Callable[[Tensor], Tensor] = self.get(name, torch.relu)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, default)


TABLE = {"masked": masked}
LIST = [masked]
REGISTERED = Registered(TABLE)
PARTIAL = functools.partial(masked)


class CallingFrom(Layered):
    """Calls a function that it finds elsewhere than under its name."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.function, self.own, self.anonymous = masked, {"masked": masked}, lambda x: masked(x)  # noqa: PLW0108

    def forward(self, x: Tensor, usual: Callable[[Tensor], Tensor] = masked) -> Tensor:
        found: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
            "a table": lambda: TABLE["masked"],
            "a list": lambda: LIST[0],
            "a registry": lambda: REGISTERED["masked"],
            "its method": lambda: REGISTERED.of("masked"),
            "a partial": lambda: PARTIAL,
            "an attribute": lambda: self.function,
            "a table of its own": lambda: self.own["masked"],
            "a lambda": lambda: self.anonymous,
            "a default": lambda: usual,
        }
        function = found[self.place]()
        return function(self.fc(x))


@pytest.mark.parametrize(
    "place",
    [
        "a table", "a list", "a registry", "its method", "a partial", "an attribute", "a table of its own", "a lambda",
        "a default",
    ],
)  # fmt: skip
def test_a_function_is_followed_wherever_the_code_finds_it(place: str) -> None:
    net = CallingFrom(place)
    own = dict(vars(net))
    graph = pn.from_module(net, args=(X,))
    assert not closed(graph)
    assert torch.equal(pn.compile(graph)(X), net(X))
    assert vars(net) == own, "the net has what it had"


class Telling(Layered):
    """Tells of values, and computes the same."""

    def forward(self, x: Tensor) -> Tensor:
        if 0 in x[:, [-1, 0]]:
            said = "zero"
            if self.training:
                said += " in training"
            warnings.warn(said, stacklevel=2)
        y: Tensor = self.fc(x)
        return y


class Turning(Layered):
    """Two branches of which each turns something and both together do not."""

    def forward(self, x: Tensor) -> Tensor:
        turned = False
        if x[0, 0] > 0:
            turned = not turned
        if x[0, 1] > 0:
            turned = not turned
        y: Tensor = self.fc(-x if turned else x)
        return y


@pytest.mark.filterwarnings("ignore:zero")
def test_a_branch_on_values_that_changes_no_result_is_left_out() -> None:
    net = Telling()
    graph = pn.from_module(net, args=(X,))
    assert [node.type for node in graph.nodes.values()] == ["Input", "Linear", "Output"]
    assert "depends on the values of its inputs" in closed(pn.from_module(Turning(), args=(X,)))[0]


class Placed(nn.Module):
    places: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 4)
        self.register_buffer("places", torch.arange(16)[None], persistent=False)
        self.register_buffer("scale", torch.linspace(1, 2, 4))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        y: Tensor = (self.tokens(x) + self.tokens(places)) * self.scale
        return y


class ReadingInside(nn.Module):
    """Reads buffers and a weight of layers that it also calls."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = Placed()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.embed(x, self.embed.places[:, : x.shape[1]]))
        y: Tensor = (
            h @ self.embed.tokens.weight.T
            + self.embed.scale.sum()
            + (self.norm.running_mean if self.norm.running_mean is not None else x).sum()
        )
        return y


def test_tensors_of_called_layers_are_read_there_after_every_edit() -> None:
    x, net = torch.arange(15).reshape(3, 5) % 9, ReadingInside()
    graph = pn.from_module(net, args=(x,))
    assert not closed(graph)
    compiled = pn.compile(graph)
    assert [*compiled.state_dict()] == [*net.state_dict()]
    assert torch.equal(compiled(x), copy.deepcopy(net)(x)), "in training mode: what the norm has just measured"
    expected = net.eval()(x)

    def standing() -> list[str]:
        assert torch.equal(pn.compile(graph).eval()(x), expected)
        return sorted(node.of for inner in graph.graphs.values() for node in inner.nodes.values() if node.of)

    assert standing() == ["embed.places", "embed.scale", "embed.tokens.weight", "norm.running_mean"]
    graph.rename("embed.tokens", "words")
    graph.rename("embed", "inputs")
    assert standing() == ["inputs.places", "inputs.scale", "inputs.words.weight", "norm.running_mean"]
    graph.group(["inputs", "norm"], name="body")
    assert standing() == [
        "body.inputs.places",
        "body.inputs.scale",
        "body.inputs.words.weight",
        "body.norm.running_mean",
    ]
    graph.ungroup("body")
    graph.ungroup("inputs")
    assert standing() == ["norm.running_mean", "places", "scale", "words.weight"]
    with pytest.raises(pn.GraphError, match=r"stands for norm\.running_mean: group both or neither"):
        graph.group([node for node in graph.nodes.values() if node.of == "norm.running_mean"])
    graph.group([node for node in graph.nodes.values() if node.type not in ("Input", "Output")], name="all")
    assert standing() == ["norm.running_mean", "places", "scale", "words.weight"]
    for _ in range(6):
        graph.undo()
    assert standing() == ["embed.places", "embed.scale", "embed.tokens.weight", "norm.running_mean"]
    graph.remove("norm", reconnect=True)
    with pytest.raises(pn.CompileError, match=r"of cannot be 'norm\.running_mean': there is no such node"):
        pn.compile(graph)
