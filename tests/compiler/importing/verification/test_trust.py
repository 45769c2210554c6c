"""What a drawn model once did silently otherwise than the module: it is right now, or stays the module's own code."""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.verify import compare
from pnne_nb.compiler.importing.verification.batch_resize import tried
from pnne_nb.compiler.importing.verification.proof import converted

X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Layered(nn.Module):
    """Has one layer, for modules that do something else around it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)


class Remembering(Layered):
    mem: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mem", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.mem = 0.5 * self.mem + torch.tanh(self.fc(x))
        return self.mem * 1


class Forgetting(Remembering):
    """As an import once was."""

    def forward(self, x: Tensor) -> Tensor:
        new = 0.5 * self.mem + torch.tanh(self.fc(x))
        self.mem.copy_(new.detach())
        return new * 1


class Averaging(Layered):
    """Remembers what came in, and is called once where nothing is recorded."""

    mem: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mem", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.mem = 0.5 * self.mem + x.mean(0)
        self.mem = 0.5 * self.mem + x.mean(0)
        y: Tensor = self.fc(x + self.mem)
        return y


class AveragingForAll(Averaging):
    """As an import once was: what is copied where nothing is recorded keeps the gradients of before."""

    def forward(self, x: Tensor) -> Tensor:
        new = 0.5 * self.mem + x.detach().mean(0)
        self.mem = 0.5 * new + x.mean(0)
        y: Tensor = self.fc(x + self.mem)
        return y


class Asking(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * 2 if x.requires_grad else y


class Recording(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * 2 if torch.is_grad_enabled() else y


class DrawingUnseen(Layered):
    """Draws a number that nobody sees but later calls."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            torch.rand(())
        y: Tensor = self.fc(x)
        return y


class DrawingUnseenAlways(Layered):
    """As an import once was."""

    def forward(self, x: Tensor) -> Tensor:
        torch.rand(())
        y: Tensor = self.fc(x)
        return y


class Plain(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y


class Shifted(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x) + torch.tensor([1.0, 2.0, 3.0]) / 3
        return y


class ShiftedByOwn(Layered):
    """Keeps a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.tensor([0.1, 0.2, 0.3])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x) + self.shift
        return y


class ShiftedByBuffer(Layered):
    """As an import once was."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]) / 3, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x) + self.shift
        return y


def differing(one: nn.Module, other: nn.Module) -> set[str]:
    other.load_state_dict(one.state_dict())
    return {f"{check.what} {check.mode}" for check in compare(one, other, (X,), {}) if not check.equal}


def gradient_of_three_calls(net: nn.Module) -> Tensor:
    net = copy.deepcopy(net)
    loss = sum(net(X * scale).square().sum() for scale in (1, 2, 3))
    assert isinstance(loss, Tensor)
    loss.backward()  # type: ignore[no-untyped-call]  # torch does not say
    found = net.get_parameter("fc.weight").grad
    assert found is not None
    return found


def test_gradients_flow_through_an_assigned_buffer_from_call_to_call() -> None:
    net = Remembering()
    graph = pn.from_module(net, X)
    model = pn.compile(graph, reuse=net)
    assert torch.equal(gradient_of_three_calls(model), gradient_of_three_calls(net))
    assert not torch.allclose(gradient_of_three_calls(Forgetting()), gradient_of_three_calls(net))


def test_the_proof_tells_what_several_calls_and_inputs_with_gradients_tell() -> None:
    assert "gradients train" in differing(Remembering(), Forgetting())
    assert differing(Averaging(), AveragingForAll()) == {"gradients eval"}
    assert differing(Asking(), Plain()) >= {"outputs eval", "gradients eval"}
    assert "outputs eval" in differing(Recording(), Plain())
    assert differing(DrawingUnseen(), DrawingUnseenAlways()) >= {"outputs train", "outputs eval"}
    assert differing(Remembering(), Remembering()) == set()


class WritingOut(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        torch.add(x, x, out=y)
        made: Tensor = self.fc(x) + y.sum()
        return made


class Writing(Layered):
    """As an import once was."""

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.fc(x) + torch.empty_like(x).copy_(x + x).sum()
        return made


def test_a_result_written_with_out_is_refused_where_torch_refuses_it() -> None:
    net = WritingOut()
    graph = pn.from_module(net, X)
    report = pn.verify(graph, net, X)
    assert report, str(report)
    assert report.opaque == {}
    model = pn.compile(graph, reuse=net)
    with pytest.raises(
        pn.ExecutionError, match=r"the module itself stops unless .*requires_grad is False \(test_trust"
    ):
        model(X.clone().requires_grad_())
    with torch.no_grad():
        assert torch.equal(model(X.clone().requires_grad_()), net(X))


class Drawing(Layered):
    """Calls a dropout in both modes, and reads its result in evaluation alone."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.drop(x)
        if self.training:
            y = self.fc(x)
        return y


class DrawingLess(Drawing):
    """As an import once was."""

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.fc(x) if self.training else self.drop(x)
        return found


def test_random_numbers_that_nobody_reads_are_drawn_too() -> None:
    net = Drawing()
    graph = pn.from_module(net, X)
    assert pn.verify(graph, net, X).opaque == {}
    after = []
    for each in (net, pn.compile(graph, reuse=net)):
        torch.manual_seed(0)
        each.train()(X)
        after.append(torch.rand(3))
    assert torch.equal(*after)


def test_the_proof_tells_that_later_calls_get_other_random_numbers() -> None:
    net = Drawing()
    other = DrawingLess()
    other.load_state_dict(net.state_dict())
    failed = [check for check in compare(net, other, (X,), {}) if not check.equal]
    assert [(check.what, check.mode) for check in failed] == [("outputs", "train")]
    assert "random numbers of later calls" in failed[0].detail


def test_the_proof_tells_that_inputs_with_gradients_are_refused() -> None:
    net = WritingOut()
    other = Writing()
    other.load_state_dict(net.state_dict())
    failed = [check for check in compare(net, other, (X,), {}) if not check.equal]
    assert [(check.what, check.mode) for check in failed][:1] == [("outputs", "eval")]
    assert "only one module accepts these inputs with gradients: add(): functions with out=" in failed[0].detail


@pytest.mark.parametrize("make", [Asking, Recording])
def test_what_goes_by_the_recording_of_gradients_stays_its_own_code(make: Callable[[], nn.Module]) -> None:
    net = make()
    graph = pn.from_module(net, X)
    model = pn.compile(graph, reuse=net)
    wanted = X.clone().requires_grad_()
    with torch.no_grad():
        assert torch.equal(model(X), net(X))
    assert torch.equal(model(wanted), net(wanted))
    assert torch.equal(model(X), net(X))


def test_an_autograd_function_below_torch_keeps_its_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return 2 * gradients[0]

    def doubling(x: Tensor) -> Any:
        return home.Own.apply(x)  # in code that is not traced

    home: Any = types.ModuleType("torch.own_functions")
    home.Own = Doubling
    monkeypatch.setitem(sys.modules, "torch.own_functions", home)
    names = {"home": home, "__name__": "torch.own_functions"}
    home.doubling = types.FunctionType(doubling.__code__, names, "doubling", None, doubling.__closure__)

    class Net(Layered):
        def forward(self, x: Tensor) -> Any:
            return home.doubling(self.fc(x))

    net = Net()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    for each in (net, copy.deepcopy(model)):
        each.zero_grad()
        each(X).sum().backward()
        bias = each.get_parameter("fc.bias").grad
        assert bias is not None
        assert bias.tolist() == [4.0, 4.0, 4.0]


def scripted() -> nn.Module:
    return nn.Sequential(torch.jit.script(nn.BatchNorm1d(3)), nn.Linear(3, 3))


def replaced() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 3))
    plain = net[0].forward
    net[0].forward = lambda x: plain(x) * 2
    return net


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [scripted, replaced])
@pytest.mark.parametrize("trained", [False, True])
def test_gradients_and_buffers_of_the_module_are_left_alone(make: Callable[[], nn.Module], trained: bool) -> None:
    net = make()
    for parameter in net.parameters() if trained else ():
        parameter.grad = torch.ones_like(parameter)
    before = copy.deepcopy(net.state_dict())
    pn.from_module(net, X)
    for parameter in net.parameters():
        assert (parameter.grad is not None) == trained
        assert parameter.grad is None or bool((parameter.grad == 1).all())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("make", [Shifted, ShiftedByOwn])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_constants_keep_their_element_type(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    net = make()
    graph = pn.from_module(net, X)
    assert pn.verify(graph, net, (X,)).opaque == {}
    model = copy.deepcopy(pn.compile(graph, reuse=net)).to(dtype)
    expected, found = copy.deepcopy(net).to(dtype)(X.to(dtype)), model(X.to(dtype))
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def test_constants_go_by_the_default_element_type() -> None:
    net = Shifted()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert model(X).dtype == net(X).dtype == torch.float64
    finally:
        torch.set_default_dtype(before)


def test_the_proof_tells_a_buffer_that_is_converted() -> None:
    net, other = Shifted(), ShiftedByBuffer()
    other.load_state_dict(net.state_dict())
    graph = pn.from_module(net, X)
    told = {
        c.dtype: tried(graph, c.net.eval(), c.model.eval(), c.inputs) for c in converted(net, other, ((X,), {}), {})
    }
    assert told[torch.bfloat16] is False


class Careful(Layered):
    def forward(self, x: Tensor) -> Tensor:
        if x.abs().max() > 4.5:  # as an assert does, which pytest rewrites
            raise AssertionError("too large")
        if torch.isnan(x).any():
            raise ValueError("no number")
        y: Tensor = self.fc(x)
        return y


def test_what_the_module_refuses_by_its_data_the_import_refuses_too() -> None:
    net = Careful()
    graph = pn.from_module(net, X)
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model(X), net(X))
    with pytest.raises(pn.PnneError, match=r"the module itself stops unless x\.abs\(\)\.max\(\) > 4\.5 is False"):
        model(X * 9)
    with pytest.raises(pn.PnneError, match=r"isnan.* is False \(test_trust\.py, line \d+\)"):
        model(X * float("nan"))


class OwnNorm(nn.LayerNorm):
    """A class of a person's own, whose parameters start as that of torch."""


class Placed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = OwnNorm(3)
        self.place = nn.Parameter(torch.randn(400, 3) * 0.02)
        self.offset = nn.Parameter(torch.rand(3))
        self.scale = nn.Parameter(torch.full((3,), 1e-4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x) * self.scale + self.place.sum(0) + self.offset
        return y


def test_parameters_start_as_in_the_original_or_it_is_said() -> None:
    graph = pn.from_module(Placed(), X)
    said = (
        r"place: The document does not contain the values of this parameter.* drawn from a normal.* holds for offset\."
    )
    with pytest.warns(UserWarning, match=said) as warned:
        model = pn.compile(graph, reuse=None)
    assert len(warned) == 1
    assert model.get_parameter("norm.weight").tolist() == [1.0, 1.0, 1.0]
    assert torch.equal(model.get_parameter("scale"), torch.full((3,), 1e-4))
    assert 0.015 < model.get_parameter("place").std().item() < 0.025
    source = pn.to_source(graph)
    drawn = "# drawn again: distributed like the values of the imported module\n"
    assert "self.scale = nn.Parameter(torch.full((3,), 0.0001))\n" in source
    assert f"{drawn}        self.place = nn.Parameter(torch.randn(400, 3) * 0.0" in source
    assert f"{drawn}        self.offset = nn.Parameter(torch.normal(" in source


class Stacked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.ModuleList(Placed() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


def test_equal_blocks_stay_one_definition_however_widely_their_parameters_lie() -> None:
    graph = pn.from_module(Stacked(), X)
    assert {name for name in graph.graphs if name.startswith("Placed")} == {"Placed"}


class Static(nn.Module):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 2


class OfTheClass(nn.Module):
    factor = 3

    @classmethod
    def forward(cls, x: Tensor) -> Tensor:
        return x * cls.factor


def test_static_and_class_methods_are_drawn() -> None:
    net = nn.Sequential(nn.Linear(3, 3), Static(), OfTheClass())
    graph = pn.from_module(net, X)
    report = pn.verify(graph, net, (X,))
    assert report
    assert report.opaque == {}


class Masked(Layered):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, self.fc(x), torch.finfo(x.dtype).min)


def test_limits_of_an_element_type_are_drawn_for_each() -> None:
    net = nn.Sequential(nn.Linear(3, 3), Masked())
    graph = pn.from_module(net, X)
    assert pn.verify(graph, net, (X,)).opaque == {}
    model = pn.compile(graph, reuse=net)
    for half in (torch.bfloat16, torch.float16, torch.float64):
        assert torch.equal(copy.deepcopy(model).to(half)(X.to(half)), copy.deepcopy(net).to(half)(X.to(half)))


class Sampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.std = [0.2, 0.3, 0.4]

    def forward(self, x: Tensor) -> Tensor:
        std = torch.as_tensor(self.std, dtype=x.dtype, device=x.device)
        return torch.distributions.Normal(self.fc(x), 1.0).rsample() / std * x.new_tensor(self.std)


def test_constants_of_an_inputs_element_type_and_device_follow_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # torch.compile switches it off
    net = Sampled()
    graph = pn.from_module(net, X)
    assert pn.verify(graph, net, (X,)).opaque == {}
    model = pn.compile(graph, reuse=net)
    model.load_state_dict({key: torch.full_like(value, torch.nan) for key, value in net.state_dict().items()})
    with pytest.raises(pn.PnneError, match=r"the module itself stops unless"):
        model(X)  # as the module itself refuses the mean
    assert pn.compile(graph, reuse=net).double()(X.double()).dtype == torch.float64


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_a_forward_that_takes_no_module_may_stay_opaque(kind: type) -> None:
    def forward(*args: Tensor) -> Tensor:
        return args[-1] * 2 if args[-1].sum() > 0 else args[-1]

    net = type("Doubles", (nn.Module,), {"forward": kind(forward)})()
    graph = pn.from_module(net, (X,))
    assert [node.type for node in graph.nodes.values()] == ["Input", "Module", "Output"]
    ones = torch.ones(2, 3)
    assert torch.equal(pn.compile(graph, reuse=net)(ones), ones * 2)


class Seeding(nn.Module):
    """Drops the same elements in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(0)
        made: Tensor = nn.functional.dropout(self.layer(x), 0.5, self.training)
        return made


def test_a_forward_that_seeds_keeps_its_own_code_and_no_random_numbers() -> None:
    net, x = Seeding(), torch.randn(3, 4)
    before = torch.get_rng_state()
    graph = pn.from_module(net, x)
    assert torch.equal(torch.get_rng_state(), before)
    assert "it seeds random numbers" in graph.import_report.rows[0].reason
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model(x), model(x))


def test_what_a_forward_sets_for_the_process_is_put_back() -> None:
    class Setting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
            return x + 1

    pn.from_module(Setting(), torch.randn(3, 4))
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()
