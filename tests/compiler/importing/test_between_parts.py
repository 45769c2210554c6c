"""Nothing is lost on the way from a net to its drawing and to what the drawing is used for: small cases of each kind."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

import pnne_nb as pn
from pnne_nb.compiler.module.pickled_model import graph_of


def numbers(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


class Layered(nn.Module):
    """A layer; what it is used for is the ``forward`` of each case."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 4)


def net_of(forward: Callable[..., Any]) -> nn.Module:
    made: nn.Module = type(forward.__name__, (Layered,), {"forward": forward})()
    return made


# Weights


class Trained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(9, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 2)
        self.norm.running_mean = numbers(4)

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.head(self.norm(self.embed(ids)))
        return scores


IDS = torch.tensor([1, 5, 8])


def renamed(graph: pn.NodeGraph) -> None:
    graph.rename("embed", "table")
    graph.group(["norm", "head"], "end")


def undone(graph: pn.NodeGraph) -> None:
    graph.rename("head", "last")
    graph.group(["embed", "norm"], "begin")
    graph.undo()
    graph.undo()


def longer(graph: pn.NodeGraph) -> None:
    graph.insert_after("head", "Identity")


@pytest.mark.parametrize("edit", [renamed, undone, longer])
def test_an_edited_import_keeps_its_weights_in_whatever_takes_it(edit: Callable[[pn.NodeGraph], None]) -> None:
    net = Trained().eval()
    graph = pn.from_module(net, args=(IDS,))
    edit(graph)
    expected = net(IDS)
    assert torch.equal(pn.compile(graph).eval()(IDS), expected)
    assert torch.equal(torch.as_tensor(pn.InferenceEngine(graph).predict(IDS)), expected)
    assert torch.allclose(pn.optimize_for_inference(graph).model(IDS), expected, atol=1e-6)


def test_a_file_of_weights_fits_a_graph_whose_nodes_were_renamed_since(tmp_path: Path) -> None:
    net = Trained().eval()
    safetensors.torch.save_file(net.state_dict(), tmp_path / "net.safetensors")
    graph = pn.from_module(Trained().eval(), args=(IDS,))
    renamed(graph)
    model = pn.compile(graph, reuse=tmp_path / "net.safetensors").eval()
    assert torch.equal(model(IDS), net(IDS))


# One document for each model


def drawn(shape: tuple[int | str, ...]) -> pn.NodeGraph:
    return pn.sequential(nn.Linear(4, 3), nn.ReLU(), input=shape)


def shape_in(model: nn.Module) -> object:
    graph = graph_of(model)
    assert graph is not None
    return next(node.properties["shape"] for node in graph.nodes.values() if node.type == "Input")


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), lambda model: model])
def test_models_of_one_source_and_their_copies_have_their_own_shapes(again: Callable[[nn.Module], nn.Module]) -> None:
    shapes: list[tuple[int | str, ...]] = [(5, 4), ("N", 4), ("N", 7, 4)]
    models = [pn.compile(drawn(shape)) for shape in shapes]
    assert len({type(model) for model in models}) == 1
    assert [str(shape_in(again(model))) for model in models] == list(map(str, shapes))


def test_an_import_whose_size_is_freed_exports_a_free_size(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).eval()
    graph = pn.from_module(net, args=(numbers(2, 6, 4),))
    pn.compile(graph)
    (name,) = (node.name for node in graph.nodes.values() if node.type == "Input")
    graph.set(name, shape=("N", "T", 4))
    report = pn.export(pn.compile(graph), tmp_path / "net.pt2")
    assert {size.name: size.how for size in report.sizes.values()} == {"N": "named", "T": "named"}


# Structure of arguments


class Pair(NamedTuple):
    x: Tensor
    bias: Tensor | None = None


def of_pair(self: Layered, pair: Pair) -> Tensor:
    return self.fc(pair.x) if pair.bias is None else self.fc(pair.x) + pair.bias  # type: ignore[no-any-return]  # a layer's


def nested(self: Layered, batch: Mapping[str, Sequence[Tensor]]) -> Tensor:
    total: Tensor = self.fc(batch["parts"][0])
    for part in batch["parts"][1:]:
        total = total + self.fc(part)
    return total


def named(self: Layered, batch: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([self.fc(batch[name]) for name in sorted(batch)])


def last(self: Layered, parts: Sequence[Tensor]) -> Tensor:
    result: Tensor = self.fc(parts[-1]) * len(parts)
    return result


STRUCTURES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "a default that is given later": (of_pair, Pair(numbers(2, 4)), Pair(numbers(2, 4), numbers(4))),
    "a list in a dict": (nested, {"parts": [numbers(2, 4)]}, {"parts": [numbers(2, 4), numbers(2, 4)]}),
    "sorted names": (named, {"b": numbers(2, 4), "a": numbers(3, 4)}, {"c": numbers(2, 4), "a": numbers(3, 4)}),
    "the last of several": (last, [numbers(2, 4), numbers(2, 4)], [numbers(2, 4)] * 3),
}


@pytest.mark.parametrize(("body", "example", "other"), STRUCTURES.values(), ids=STRUCTURES)
def test_an_argument_of_another_structure_is_right_or_refused(
    body: Callable[..., Any], example: Any, other: Any
) -> None:
    net = net_of(body)
    model = pn.compile(pn.from_module(net, args=(example,)), reuse=net)
    assert torch.equal(model(example), net(example))
    try:
        found = model(other)
    except pn.PnneError as error:
        assert "import again" in str(error)
    else:
        assert torch.equal(found, net(other))


# Autocast and element types


def in_place(self: Layered, x: Tensor) -> Tensor:
    y: Tensor = self.fc(x)
    y -= x
    y *= x
    return y


def chosen(self: Layered, x: Tensor) -> Tensor:
    y = self.fc(x)
    return torch.where(y > 0, y, x.to(y.dtype)) @ x.T.to(y.dtype)


def normed(self: Layered, x: Tensor) -> Tensor:
    y = functional.layer_norm(self.fc(x), (4,))
    return y.softmax(-1).add_(x)


def only_half(self: Layered, x: Tensor) -> Tensor:
    y: Tensor = self.fc(x)
    return y.float().exp().to(y.dtype) if y.dtype in (torch.float16, torch.bfloat16) else y.exp()


def is_double(self: Layered, x: Tensor) -> Tensor:
    y: Tensor = self.fc(x)
    if y.dtype is torch.float64:
        y = y * 2
    return y


def lowest(self: Layered, x: Tensor) -> Tensor:
    y: Tensor = self.fc(x)
    return y.masked_fill(y < 0, torch.finfo(y.dtype).min).softmax(-1)


BODIES = [in_place, chosen, normed, only_half, is_double, lowest]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_drawing_computes_in_each_element_type_what_the_net_computes(body: Callable[..., Tensor]) -> None:
    net, x = net_of(body), numbers(2, 4)
    model = pn.compile(pn.from_module(net, args=(x,)), reuse=net)
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = net(x), model(x)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        expected, found = (copy.deepcopy(each).to(dtype)(x.to(dtype)) for each in (net, model))
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected), dtype


# Names of functions


def norm(x: Tensor, **scales: float) -> Tensor:
    if x.sum() > 1e9:
        return x
    for scale in scales.values():
        x = x * scale
    return x


def relu(x: Tensor, slope: float = 0.5) -> Tensor:
    return x if x.sum() > 1e9 else torch.where(x > 0, x, x * slope)


def flatten(x: Tensor, start: int = 0) -> Tensor:
    return x if x.sum() > 1e9 else torch.flatten(x, start)


def own_norm(self: Layered, x: Tensor) -> Tensor:
    total: Tensor = norm(self.fc(x), a=2.0) + torch.norm(x) + norm(x, b=3.0, c=0.5)
    return total


def own_relu(self: Layered, x: Tensor) -> Tensor:
    return relu(functional.relu(self.fc(x)) - 1, slope=0.1) + relu(x)


def own_flatten(self: Layered, x: Tensor) -> Tensor:
    return flatten(self.fc(x), 1).flatten() + flatten(x)


@pytest.mark.parametrize("body", [own_norm, own_relu, own_flatten], ids=lambda body: body.__name__)
def test_functions_that_are_called_as_those_of_torch_stay_apart(body: Callable[..., Tensor]) -> None:
    net, x = net_of(body), numbers(2, 4)
    graph = pn.from_module(net, args=(x,))
    assert "none is closed" in str(graph.import_report)
    assert torch.equal(pn.compile(graph)(x), net(x))
