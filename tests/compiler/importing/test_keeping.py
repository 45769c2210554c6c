"""What an import keeps of how a module was written: recomputing, own functions, hooks, and the module itself."""

from __future__ import annotations

import copy
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn.utils import prune
from torch.utils._pytree import tree_structure

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference
from tests.compiler.importing.zoo import MODELS, habits, states


def saved(module: nn.Module, *args: Tensor) -> int:
    """Return how many elements a call keeps for its backward pass, parameters left out."""
    kept: dict[int, int] = {}
    parameters = {parameter.data_ptr() for parameter in module.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in parameters:
            kept[tensor.data_ptr()] = tensor.numel()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        module.train()(*args)
    return sum(kept.values())


def test_what_is_computed_again_is_still_computed_again() -> None:
    net, x = states.CheckpointedBlocks(), torch.rand(64, 4)
    graph = pn.from_module(net, x)
    again = [graph[f"blocks.{name}"].properties.get("checkpoint") for name in ("0", "1")]
    assert again == [True, True]
    for name in ("0", "1"):
        graph.set(f"blocks.{name}", checkpoint=False)
    kept = saved(pn.compile(graph, reuse=net), x)
    assert saved(pn.compile(pn.from_module(net, x), reuse=net), x) < kept / 2


def test_a_block_that_checkpoints_itself_is_checkpointed_where_it_is_called() -> None:
    entry = MODELS["guided unet"]
    graph = pn.from_module(entry.make(), entry.args)
    assert graph["middle.0"].properties["checkpoint"] is True
    assert "checkpoint" not in graph["middle.1"].properties
    assert "checkpoint" not in graph["middle.0.in_layers"].properties


class Recurrent(nn.Module):
    """Dropout between the layers of a recurrent network would draw otherwise the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.RNN(4, 4, num_layers=2, dropout=0.5))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False)[0]
        return out


def test_what_cannot_be_computed_again_alike_is_drawn_without() -> None:
    net, x = Recurrent(), torch.randn(3, 2, 4)
    graph = pn.from_module(net, x)
    assert pn.verify(graph, net, x).opaque == {}
    assert "checkpoint" not in graph["block"].properties


def test_an_autograd_function_is_a_node_of_its_own() -> None:
    net, x = habits.AroundSquaring(), torch.randn(3, 4)
    graph = pn.from_module(net, x)
    assert graph["c.Square"].properties == {"k": 2.0}
    assert pn.catalog["Square"].category == "Called"
    source = pn.to_source(graph)
    assert "from tests.compiler.importing.zoo.habits import Square" in source
    assert "Square.apply(x, 2.0)" in source


def routed(x: Tensor, weights: Tensor) -> Tensor:
    """Go by the data."""
    return x if x.sum() > 0 else x @ weights


class Routed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 2)
        self.weights = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.after(routed(self.before(x), self.weights).relu())
        return out


def test_a_function_that_goes_by_the_data_is_all_that_stays_closed() -> None:
    net, x = Routed(), torch.randn(3, 4)
    graph = pn.NodeGraph.from_json(pn.from_module(net, x).to_json())
    assert graph["routed"].type == f"{__name__}.routed"
    model = pn.compile(graph, reuse=net)
    for sign in (1, -1):
        x = torch.full((3, 4), 9.0 * sign)
        assert torch.equal(model(x), net(x))


def test_what_would_help_is_said_where_the_outermost_forward_goes_by_the_data() -> None:
    graph = pn.from_module(habits.Deciding(), torch.randn(3, 4))
    origin: Any = graph["module"].origin
    assert "only known when it runs" in origin["reason"]
    assert "moved into a submodule or function of its own, only that part would stay opaque" in origin["reason"]


class Capturing(nn.Module):
    """Keeps activations as inspectors do, by a hook that speaks of this object."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.m = nn.Linear(4, 4), nn.Linear(4, 4)
        self.kept: dict[str, Tensor] = {}
        self.l.register_forward_hook(lambda _module, _args, result: self.kept.__setitem__("l", result))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.m(self.l(x).relu())
        return out


def capturing() -> nn.Module:
    net = Capturing()
    net(torch.randn(3, 4))  # what it keeps was computed, which deepcopy refuses
    return net


def pruned() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    prune.l1_unstructured(net[0], "weight", 0.5)  # type: ignore[no-untyped-call]  # torch does not say
    return net


def normalized() -> nn.Module:
    with pytest.warns(FutureWarning, match="weight_norm"):
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4)), nn.Linear(4, 2))


def parametrized() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("make", "closed", "reason"),
    [
        (capturing, ["l"], "it has hooks"),
        (pruned, ["0"], "it has hooks, which a graph cannot represent (L1Unstructured)"),
        (normalized, ["0"], "(WeightNorm)"),
        (parametrized, [], ""),
    ],
)
def test_the_module_is_as_it_was(make: Callable[[], nn.Module], closed: list[str], reason: str) -> None:
    net, x = make(), torch.randn(3, 4)
    before = {name: dict(vars(module)) for name, module in net.named_modules()}
    state = copy.deepcopy(net.state_dict())
    kept = dict(getattr(net, "kept", {}))
    random = torch.get_rng_state()
    report = pn.verify(pn.from_module(net, x), net, x)
    assert report, str(report)
    assert list(report.opaque) == closed
    assert reason in "".join(report.opaque.values())
    assert torch.equal(torch.get_rng_state(), random)
    assert difference(state, net.state_dict()) == ""
    assert all(net.kept[name] is kept[name] for name in kept)  # type: ignore[index]  # where it has it
    for name, module in net.named_modules():
        assert vars(module).keys() == before[name].keys()
        for attribute, value in vars(module).items():
            assert value is before[name][attribute]


@pytest.mark.filterwarnings("ignore:.*deprecated")  # torch.ao says so of itself
def test_a_quantised_layer_stays_closed() -> None:
    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    net = torch.ao.quantization.quantize_dynamic(plain)  # type: ignore[no-untyped-call]  # torch does not say
    x = torch.randn(3, 4)
    report = pn.verify(pn.from_module(net, x), net, x)
    assert report, str(report)
    assert all("0" in path or path == "module" for path in report.opaque)
    assert report.opaque


def test_what_has_no_shapes_yet_is_refused() -> None:
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    with pytest.raises(pn.CompileError, match="the parameters of 0, a LazyLinear, have no shape before the first call"):
        pn.from_module(net, torch.randn(3, 4))
    net(torch.randn(3, 4))
    assert pn.from_module(net, torch.randn(3, 4))["0"].type == "Linear"


class Counting(nn.Module):
    """Only its second call tells that it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(x)
        return x * 2


def test_state_in_plain_attributes_is_not_drawn() -> None:
    net, x = nn.Sequential(Counting(), nn.ReLU()), torch.randn(2)
    report = pn.verify(pn.from_module(net, x), net, x)
    assert "its forward assigns to calls, seen, which its next call reads" in report.opaque["0"]


class Stepping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = x[:, 0]
        for step in range(1, x.shape[1]):
            out = out.tanh() + x[:, step]
        return out


def test_what_was_taken_from_the_example_is_told() -> None:
    graph = pn.NodeGraph.from_json(pn.from_module(Stepping(), torch.randn(2, 3)).to_json())
    origin: Any = graph["x"].origin
    assert list(origin["assumes"]) == ["x.shape[1] is 3"]


class Turns(nn.Module):
    """What only training and only evaluation do, in turns."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x).relu() if self.training else self.a(x).tanh()
        x = self.b(x)
        x = x.sigmoid() if self.training else x.cos() * 2
        out: Tensor = self.c(x)
        return out


def test_modes_that_take_turns_come_back_equal() -> None:
    net, x = Turns(), torch.randn(2, 4)
    assert pn.verify(pn.from_module(net, x), net, x).opaque == {}


class KeywordOnly(nn.Module):
    def forward(self, x: Tensor, unused: Tensor | None = None, *, scale: float, **more: float) -> Tensor:
        return x * scale + more["shift"] if x.sum() > 0 else x


class CallsByKeyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = KeywordOnly()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x, scale=0.5, shift=1.0)
        return out


def test_a_closed_module_is_called_by_keyword_as_it_was() -> None:
    net, x = CallsByKeyword(), torch.rand(2)
    graph = pn.NodeGraph.from_json(pn.from_module(net, x).to_json())
    assert graph["inner"].properties["inputs"] == ("x", "*", "scale", "shift")
    report = pn.verify(graph, net, x)
    assert report, str(report)
    assert list(report.opaque) == ["inner"]


class Shared(nn.Module):
    """One tensor under many names."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.names = nn.ParameterList([self.linear.bias] * count)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return out


def test_many_names_of_one_parameter_are_all_kept() -> None:
    net, x = Shared(500), torch.randn(2, 3)
    graph = pn.from_module(net, x)
    assert pn.verify(graph, net, x)
    model = pn.compile(graph, reuse=net)
    assert len(list(model.parameters())) == 2


class Named(NamedTuple):
    logits: Tensor
    hidden: Tensor


class Results(nn.Module):
    """Returns an ordered dictionary, by itself or within others."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> OrderedDict[str, Any]:
        x = self.layer(x)
        found: OrderedDict[str, Any] = OrderedDict()
        found["last layer"] = x
        found["named"] = Named(x * 2, x)
        found["more"] = {"inside": [OrderedDict(a=x.relu(), b=(x,))]}
        return found


class AroundResults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Results()

    def forward(self, x: Tensor) -> tuple[Tensor, OrderedDict[str, Any]]:
        found = self.inner(x)
        return found["last layer"].sum() + found["named"].logits.sum(), found


@pytest.mark.parametrize("make", [Results, AroundResults])
def test_results_are_of_the_types_that_the_original_gives(make: type[nn.Module]) -> None:
    net, x = make(), torch.randn(2, 3)
    graph = pn.NodeGraph.from_json(pn.from_module(net, x).to_json())
    assert pn.verify(graph, net, x).opaque == {}
    model = pn.compile(graph, reuse=net)
    assert tree_structure(model(x)) == tree_structure(net(x))
    assert difference(net(x), model(x)) == ""
    assert 'collections.OrderedDict({"a": ' in pn.to_source(graph)


class Density(nn.Module):
    """Draws from a distribution and judges the sample, as a policy or a flow does."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(3, 3)
        self.log_std = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        d = Independent(Normal(self.mean(x), self.log_std.exp()), 1)
        if not isinstance(d.base_dist, Normal):
            raise TypeError
        sample = d.rsample()
        divergence: Tensor = kl_divergence(d.base_dist, Normal(torch.zeros(3), torch.ones(3)))
        log_prob: Tensor = d.log_prob(sample)  # type: ignore[no-untyped-call]  # torch does not say
        return sample, log_prob, divergence


def test_distributions_are_drawn() -> None:
    net, x = Density(), torch.randn(2, 3)
    graph = pn.from_module(net, x)
    report = pn.verify(graph, net, x)
    assert report, str(report)
    assert report.opaque == {}
    model, others = pn.compile(graph, reuse=net), torch.randn(1, 3)
    with torch.random.fork_rng():
        results = [(torch.manual_seed(0), each(others))[1] for each in (net, model)]
    assert difference(results[0], results[1]) == ""
    # What torch's own code asks of a tensor on its way to the sample is not the sample.
    assert re.search(r"dtype=\w+\.dtype", pn.to_source(graph))
    assert not re.search(r"sample = \w+\.(dtype|device|shape)", pn.to_source(graph))
    assert type(Normal(torch.zeros(1), torch.ones(1))) is Normal, "other code has torch's own class"
