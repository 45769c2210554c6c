"""Whole nets that stay as they are: the model is of their class, and holds what they hold under the same names."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import pnne_nb as pn


class Routed(nn.Module):
    """Goes by its data; freezes a layer in training, asks for itself, and saves more than tensors."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("seen", torch.zeros(1))
        self.gate = nn.Linear(4, 2)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3)) for _ in range(2)])
        self.norm = nn.BatchNorm1d(4)
        self.steps = 0
        self.second = self.route

    def route(self, x: Tensor) -> Tensor:
        chosen: Tensor = self.gate(x).argmax(-1)
        return chosen

    def train(self, mode: bool = True) -> Routed:
        super().train(mode)
        self.norm.eval()
        return self

    def get_extra_state(self) -> int:
        return self.steps

    def set_extra_state(self, state: int) -> None:
        self.steps = state

    def forward(self, x: Tensor, depth: int = 1) -> Tensor:
        out = torch.zeros_like(x)
        self.seen += len(x)
        chosen = self.second(x)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero()[:, 0]
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * self.scale)
        return self.forward(out, depth - 1) if depth else self.norm(out)


class Shared(Routed):
    """Nothing of it can be drawn: a drawing would have what it holds twice two times."""

    def __init__(self) -> None:
        super().__init__()
        self.again = self.gate


@pytest.fixture(params=[Routed, Shared])
def net(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = request.param()
    return made


def inputs() -> Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(1))


def imported(net: nn.Module) -> pn.NodeGraph:
    graph = pn.from_module(net, inputs())
    report = pn.verify(graph, net, inputs())
    assert report, str(report)
    assert list(report.opaque) == ["module"]
    return pn.NodeGraph.from_json(graph.to_json())


def around(graph: pn.NodeGraph, name: str) -> None:
    """Put an activation behind the module."""
    graph.add("ReLU", name=name)
    graph.disconnect("module.output", "output.input")
    graph.connect("module.output", f"{name}.input")
    graph.connect(f"{name}.output", "output.input")


def test_all_names_are_those_of_the_original(net: nn.Module) -> None:
    made: Any = pn.compile(imported(net), reuse=net)
    assert list(made.state_dict()) == list(net.state_dict())
    for names in ("named_parameters", "named_buffers", "named_modules"):
        assert [name for name, _ in getattr(made, names)()] == [name for name, _ in getattr(net, names)()]
    assert not any(mine is theirs for mine in made.parameters() for theirs in net.parameters())
    with torch.no_grad():
        made.scale *= 2
    net.load_state_dict(made.state_dict())
    made.load_state_dict(net.state_dict())
    assert torch.equal(made.eval()(inputs()), net.eval()(inputs()))


def test_it_is_of_the_original_class_too(net: nn.Module) -> None:
    made: Any = pn.compile(imported(net), reuse=net)
    assert isinstance(made, Routed)
    assert made.steps == 0
    assert torch.equal(made.route(inputs()), net.route(inputs()))  # type: ignore[operator]  # it is a Routed
    assert vars(made)["second"].__self__ is made
    made.train()
    assert made.training
    assert not made.norm.training
    assert made.get_submodule("experts.0.1").training


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copies_stand_for_themselves(copied: Callable[[nn.Module], nn.Module], net: nn.Module) -> None:
    made: Any = pn.compile(imported(net), reuse=net)
    other: Any = copied(made)
    assert type(other) is type(made)
    assert list(other.state_dict()) == list(net.state_dict())
    assert torch.equal(other.eval()(inputs()), net.eval()(inputs()))
    with torch.no_grad():
        other.gate.weight.zero_()
    assert not torch.equal(other.gate.weight, made.gate.weight)
    other.double()
    assert other(inputs().double()).dtype == torch.float64
    assert made.scale.dtype == torch.float32


def test_it_trains_as_the_original_does(net: nn.Module) -> None:
    made = pn.compile(imported(net), reuse=net)
    for model in (net, made):
        torch.manual_seed(3)
        optimizer = torch.optim.AdamW(model.train().parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(inputs()).square().sum().backward()
            optimizer.step()
    mine, theirs = made.state_dict(), net.state_dict()
    assert all(torch.equal(mine[name], value) for name, value in theirs.items() if isinstance(value, Tensor))


def test_it_can_be_edited_around(net: nn.Module) -> None:
    graph = imported(net)
    graph.add("Linear", name="head", in_features=4, out_features=4)
    graph.disconnect("module.output", "output.input")
    graph.connect("module", "head", "output")
    made: Any = pn.compile(graph, reuse=net)
    assert set(made.state_dict()) - set(net.state_dict()) == {"head.weight", "head.bias"}
    assert torch.equal(made.eval()(inputs()), made.head(net.eval()(inputs())))
    again: Any = pn.compile(graph, reuse=made)
    assert torch.equal(again(inputs()), made(inputs()))
    graph.group(["module", "head"], name="block")
    inside: Any = pn.compile(graph, reuse=made)
    assert {name.removeprefix("block.").removeprefix("module.") for name in inside.state_dict()} == set(
        made.state_dict()
    )
    assert torch.equal(inside(inputs()), made(inputs()))
    graph.ungroup("block")
    out: Any = pn.compile(graph, reuse=inside)
    assert list(out.state_dict()) == list(made.state_dict())
    assert torch.equal(out(inputs()), made(inputs()))


@pytest.mark.parametrize("name", ["gate", "route"])
def test_names_of_the_module_are_taken(name: str, net: nn.Module) -> None:
    graph = imported(net)
    around(graph, name)
    with pytest.raises(pn.CompileError, match=rf"{name}: The name {name} is taken: the node module is the whole model"):
        pn.compile(graph, reuse=net)
    graph.rename(name, "relu")
    assert torch.equal(pn.compile(graph, reuse=net).eval()(inputs()), net.eval()(inputs()).relu())


def test_nodes_are_found_where_the_original_has_them() -> None:
    torch.manual_seed(0)
    graph = imported(Routed())
    assert graph["experts.0.1"].path == "module.experts.0.1"
    assert "gate" in graph
    graph.set("experts.0.1", p=0.5)
    assert graph["module.experts.0.1"].properties["p"] == 0.5
    graph.add("ReLU", name="gate")  # which is found first
    assert graph["gate"].path == "gate"
    with pytest.raises(pn.GraphError, match="no node 'gates'"):
        graph["gates"]


def test_what_is_inside_can_be_edited() -> None:
    torch.manual_seed(0)
    net = Routed()
    graph = imported(net)
    graph.set("experts.0.1", p=0.9)
    made: Any = pn.compile(graph, reuse=net)
    assert made.get_submodule("experts.0.1").p == 0.9
    graph.remove("gate")
    with pytest.raises(pn.CompileError, match=r"module: Its own code, that of Routed, may use gate, which is no"):
        pn.compile(graph, reuse=made)
    with pytest.raises(pn.CompileError, match=r"module: The node is opaque"):
        pn.compile(imported(net))


def test_errors_and_reports_name_the_node() -> None:
    torch.manual_seed(0)
    net = Routed()
    graph = imported(net)
    graph.set("gate", in_features=5)
    made = pn.compile(graph, reuse=net)
    with pytest.raises(pn.ExecutionError, match=r"Node 'module\.gate' failed"):
        made(inputs())
    graph.set("module", checkpoint=True)
    with pytest.raises(pn.CompileError, match="module: It cannot be checkpointed: it is the whole model"):
        pn.compile(graph, reuse=net)


def test_source_gives_the_same_model(net: nn.Module, tmp_path: Path) -> None:
    text = pn.to_source(imported(net))
    assert "pnne_nb" not in text
    space: dict[str, Any] = {"__name__": "source"}
    exec(compile(text, str(tmp_path / "net.py"), "exec"), space)  # our own text
    made = space[type(net).__name__](copy.deepcopy(net))
    assert list(made.state_dict()) == list(net.state_dict())
    made.load_state_dict(net.state_dict())
    assert torch.equal(made.eval()(inputs()), net.eval()(inputs()))


def test_tensors_that_overlap_stay_so() -> None:
    class Flat(nn.Module):
        low: Tensor
        high: Tensor

        def __init__(self) -> None:
            super().__init__()
            flat = torch.arange(8.0)
            self.register_buffer("low", flat[:6])
            self.register_buffer("high", flat[2:])

        def forward(self, x: Tensor) -> Tensor:
            return x + self.low.sum() if x.sum() < 1e9 else x

    net = Flat()
    made: Any = pn.compile(pn.from_module(net, torch.ones(3)), reuse=net)
    again: Any = pn.compile(pn.from_module(net, torch.ones(3)), reuse=made)
    for model in (made, again):
        model.low[5] = 100.0
        assert model.high[3] == 100.0
    assert net.low[5] == 5.0


class Calling(Routed):
    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = super().__call__(x) * 2
        return out


def _double(_module: nn.Module, _args: Any, result: Tensor) -> Tensor:
    return result * 2


def _shifted(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (args[0] + 1, *args[1:])


def _hooked() -> nn.Module:
    net = Routed()
    net.register_forward_hook(_double)
    net.register_forward_pre_hook(_shifted)
    return net


def _replaced() -> nn.Module:
    net: Any = Routed()
    net.forward = MethodType(lambda self, *args: Routed.forward(self, *args) * 2, net)
    return net  # type: ignore[no-any-return]  # a Routed


@pytest.mark.parametrize("make", [Calling, _hooked, _replaced])
def test_what_happens_when_it_is_called_happens_around_it_alone(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    net = make()
    expected = net.eval()(inputs())
    graph = imported(net)
    made = pn.compile(graph, reuse=net)
    assert list(made.state_dict()) == list(net.state_dict())
    assert torch.equal(made(inputs()), expected)
    around(graph, "relu")
    made = pn.compile(graph, reuse=net)
    assert list(made.state_dict()) == list(net.state_dict())
    for model in (made, copy.deepcopy(made), pn.compile(graph, reuse=made)):
        assert torch.equal(model(inputs()), expected.relu())
    seen: list[Tensor] = []
    handle = made.register_forward_hook(lambda _module, _args, result: seen.append(result))
    made(inputs())
    assert len(seen) == 1
    assert torch.equal(seen[0], expected.relu())
    handle.remove()
    space: dict[str, Any] = {"__name__": "source"}
    exec(compile(pn.to_source(graph), "source.py", "exec"), space)  # our own text
    written = space[type(net).__name__](net)
    written.load_state_dict(net.state_dict())
    assert torch.equal(written.eval()(inputs()), expected.relu())
    made(inputs()).sum().backward()
    net(inputs()).relu().sum().backward()
    for (name, mine), theirs in zip(made.named_parameters(), net.parameters(), strict=True):
        assert (mine.grad is None) == (theirs.grad is None), name
        assert mine.grad is None or torch.equal(mine.grad, theirs.grad), name  # type: ignore[arg-type]  # the test knows its type


def test_hooks_travel_with_a_pickle_and_with_compiled_code() -> None:
    torch.manual_seed(0)
    net = _hooked().eval()
    made = pn.compile(imported(net), reuse=net)
    again = pickle.loads(pickle.dumps(made))
    assert torch.equal(again(inputs()), net(inputs()))
    with torch.no_grad():
        compiled: Any = torch.compile(made, backend="eager")
        assert torch.equal(compiled(inputs()), net(inputs()))


def test_what_cannot_be_extended_is_held() -> None:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.gate(x)
            return out

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = torch.jit.trace(Scripted().eval(), inputs())  # type: ignore[no-untyped-call]  # torch does not say
    graph = imported(net)
    made = pn.compile(graph, reuse=net)
    assert list(made.state_dict()) == [f"module.{name}" for name in net.state_dict()]
    around(graph, "relu")
    assert torch.equal(pn.compile(graph, reuse=net).eval()(inputs()), net.eval()(inputs()).relu())


def test_a_compiled_model_can_be_imported_again() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.lin(x)
            return out if out.sum() < 1e9 else x

    torch.manual_seed(0)
    net = Plain()
    graph = imported(net)
    around(graph, "relu")
    made = pn.compile(graph, reuse=net)
    again = pn.compile(imported(made), reuse=made)
    assert torch.equal(again.eval()(inputs()), made.eval()(inputs()))


def test_checkpoints_and_weight_files_fit_the_original(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Routed()
    graph = imported(net)
    data = torch.utils.data.TensorDataset(inputs(), torch.arange(6) % 4)
    engine = pn.TrainingEngine(pn.compile(graph, reuse=net), data, epochs=1, batch_size=3, device="cpu")
    engine.start().wait(60)
    engine.save_checkpoint(tmp_path / "last.pt")
    trained = engine.model.state_dict()
    assert list(trained) == list(net.state_dict())
    resumed = pn.TrainingEngine.resume_from(tmp_path / "last.pt", pn.compile(graph, reuse=net), data)
    assert torch.equal(resumed.model.get_parameter("scale"), trained["scale"])
    save_file({name: value for name, value in trained.items() if isinstance(value, Tensor)}, tmp_path / "net.st")
    net.load_state_dict({**load_file(tmp_path / "net.st"), "_extra_state": 0})
    assert torch.equal(net.get_parameter("scale"), trained["scale"])


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be a group of one process."""
    excepthook = sys.excepthook
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()
        sys.excepthook = excepthook  # torch's asks the group who it is


def test_it_works_with_wrappers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Routed().eval()
    made: Any = pn.compile(imported(net), reuse=net)
    expected = net(inputs())
    with alone(tmp_path / "group"):
        wrapped = DistributedDataParallel(made)
        assert torch.equal(wrapped(inputs()), expected)
        wrapped(inputs()).sum().backward()
        assert made.scale.grad is not None
        assert [name.removeprefix("module.") for name in wrapped.state_dict()] == list(net.state_dict())
    called = torch.func.functional_call(made, {"scale": torch.zeros(4)}, (inputs(),))
    assert called.shape == expected.shape
    calls: list[int] = []
    made.register_forward_hook(lambda *_: calls.append(1))
    made(inputs())
    assert len(calls) == 1
    with torch.no_grad():
        compiled: Any = torch.compile(made, backend="eager")
        assert torch.equal(compiled(inputs()), expected)
