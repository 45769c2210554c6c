"""Modules that go by their data: their own code runs, and what it calls can be edited."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.compiler.passes.common_subexpressions import MergeEqualNodes
from pnne_nb.compiler.passes.dead_nodes import RemoveDeadNodes


class Expert(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.width = width
        self.up = nn.Linear(4, width)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.3)
        self.down = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.drop(self.act(self.up(x))))
        return out


class Mixture(nn.Module):
    """Routes each row to an expert; keeps counts, and its parts in a list too."""

    seen: Tensor
    bias: Tensor | None

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(4, count)
        self.experts = nn.ModuleList([Expert() for _ in range(count)])
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("seen", torch.zeros(count))
        self.register_parameter("bias", None)
        self.routers = [self.gate]

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        if self.bias is not None:
            out += self.bias
        chosen = self.routers[0](x).argmax(-1)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero()[:, 0]
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * self.scale)
                self.seen[index] += len(rows)
        return out


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Mixture()), nn.Linear(4, 2))


def paths(graph: pn.NodeGraph, id: str = "", prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every node but Inputs and Outputs, with its type."""
    for name, node in graph.graphs[id].nodes.items():
        if node.type not in ("Input", "Output"):
            yield prefix + name, node.type
        if node.definition is not None:
            yield from paths(graph, node.definition, f"{prefix}{name}.")


def imported(net: nn.Module, x: Tensor) -> pn.NodeGraph:
    graph = pn.from_module(net, x)
    report = pn.verify(graph, net, x)
    assert report, str(report)
    assert pn.NodeGraph.from_json(graph.to_json()) == graph
    return graph


def test_only_the_routing_is_closed() -> None:
    torch.manual_seed(0)
    net, x = model(), torch.randn(6, 4)
    before = copy.deepcopy(net.state_dict())
    graph = imported(net, x)
    assert difference(before, net.state_dict()) == ""
    found = dict(paths(graph))
    assert found["1.1"] == "Module"
    assert found["1.1.gate"] == "Linear"
    assert [found[f"1.1.experts.{index}"] for index in range(3)] == ["Subgraph"] * 3
    assert found["1.1.experts.2.act"] == "GELU"
    report = pn.verify(graph, net, x)
    assert list(report.opaque) == ["1.1"]
    assert "depends on the values of its inputs" in report.opaque["1.1"]
    assert {str(path): kind for path, kind in found.items() if "scale" in path or "seen" in path} == {
        "1.1.scale": "Parameter",
        "1.1.seen": "Buffer",
    }


def test_the_compiled_model_has_the_original_class_and_keys() -> None:
    net, x = model(), torch.randn(6, 4)
    made: Any = pn.compile(imported(net, x), reuse=net)
    assert list(made.state_dict()) == list(net.state_dict())
    box: Any = made.get_submodule("1.1")
    assert type(box) is Mixture
    assert box.routers == [box.gate]
    assert isinstance(box.experts, nn.ModuleList)
    assert not any(mine is theirs for mine in made.parameters() for theirs in net.parameters())
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):  # its own
        other.load_state_dict(net.state_dict())
        assert torch.equal(other.eval()(x), net.eval()(x))
        assert other.get_submodule("1.1").routers[0] is other.get_submodule("1.1.gate")
    made.train()
    assert box.training
    assert box.get_submodule("experts.0.drop").training


def test_what_is_inside_can_be_edited() -> None:
    net, x = model().eval(), torch.randn(6, 4)
    graph = imported(net, x)
    graph.set("1.1.experts.0.up", out_features=16)
    graph.set("1.1.experts.0.down", in_features=16)
    graph.remove("1.1.experts.0.act")
    graph.add("ReLU", name="1.1.experts.0.act")
    graph.connect("1.1.experts.0.up", "1.1.experts.0.act")
    graph.connect("1.1.experts.0.act", "1.1.experts.0.drop")
    first: Any = pn.compile(graph, reuse=net)
    box: Any = first.get_submodule("1.1")
    assert [type(expert.act) for expert in box.experts] == [nn.ReLU] * 3  # all of them show one definition
    assert box.experts[2].up.weight.shape == (16, 4)
    assert torch.equal(box.gate.weight, net.get_parameter("1.1.gate.weight"))
    assert first(x).shape == (6, 2)
    first(x).sum().backward()
    assert box.experts[0].up.weight.grad is not None or box.experts[1].up.weight.grad is not None
    second = pn.compile(graph, reuse=first)
    assert torch.equal(second(x), first(x))


def test_a_member_that_the_code_needs_cannot_get_lost() -> None:
    net, x = model(), torch.randn(6, 4)
    graph = imported(net, x)
    graph.rename("1.1.gate", "router")
    with pytest.raises(
        pn.CompileError, match=r"1\.1: .*code, that of Mixture, may use gate, which is no longer inside"
    ):
        pn.compile(graph, reuse=net)
    graph.rename("1.1.router", "gate")
    graph.remove("1.1.experts.2")  # a list may be shorter
    made: Any = pn.compile(graph, reuse=net)
    assert len(made.get_submodule("1.1.experts")) == 2
    with pytest.raises(pn.CompileError, match=r"node is opaque.*reuse=model"):
        pn.compile(graph, reuse=None)


def test_what_has_no_effect_in_a_box_is_said() -> None:
    graph = imported(model(), torch.randn(6, 4))
    graph.add("ReLU", name="1.1.extra")
    assert graph.diagnostics() == []  # held, as any other member
    graph.connect("1.1.gate", "1.1.extra")
    graph.set("1.1.experts.0", checkpoint=True)
    graph.add("Input", name="1.1.image")
    found = {(diagnostic.node, diagnostic.code) for diagnostic in graph.diagnostics()}
    assert found == {("1.1.extra", "box-edge"), ("1.1.experts.0", "box-property"), ("1.1.image", "box-never-runs")}
    with pytest.raises(pn.GraphError, match=r"runs code of its own .* cannot be ungrouped"):
        graph.ungroup("1.1")


def test_errors_inside_name_the_node() -> None:
    net, x = model(), torch.randn(6, 4)
    graph = imported(net, x)
    graph.set("1.1.experts.0.up", out_features=16)
    made = pn.compile(graph, reuse=net)
    with pytest.raises(pn.ExecutionError, match=r"Node '1\.1\.experts\.\d\.down' failed"):
        made(x)


def test_a_layer_that_the_code_of_a_box_calls_is_named() -> None:
    net, x = model(), torch.randn(6, 4)
    graph = imported(net, x)
    graph.set("1.1.gate", in_features=5)
    made = pn.compile(graph, reuse=net)
    with pytest.raises(
        pn.ExecutionError, match=r"Node '1\.1\.gate' failed: .*\nIts inputs:\n  input: \[6, \d\] float32"
    ):
        made(x)
    whole, y = Tied(), torch.randn(3, 4)
    made = pn.compile(imported(whole, y), reuse=whole)
    with pytest.raises(pn.ExecutionError, match=r"Node 'module\.\w+' failed: "):
        made(torch.randn(3, 5))


def test_source_says_what_it_takes_and_gives_the_same(tmp_path: Any) -> None:
    net, x = model().eval(), torch.randn(6, 4)
    text = pn.to_source(imported(net, x))
    assert "pnne_nb" not in text
    assert text.count("class Expert(") == 1
    space: dict[str, Any] = {}
    exec(compile(text, str(tmp_path / "net.py"), "exec"), space)  # our own text
    made = space["Sequential"](Mixture())
    made.load_state_dict(net.state_dict())
    assert torch.equal(made.eval()(x), net(x))


def test_passes_leave_what_code_calls_alone() -> None:
    net, x = model().eval(), torch.randn(6, 4)
    graph = imported(net, x)
    compiler = pn.TorchCompiler(passes=[RemoveDeadNodes(), MergeEqualNodes()])
    made = compiler.compile(graph, reuse=net, args=(x,))
    assert torch.equal(made(x), net(x))
    assert list(made.state_dict()) == list(net.state_dict())


# What code does with its parts


class Asking(nn.Module):
    """Asks what a part is."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Expert()

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 1e9 or not isinstance(self.part, Expert):
            return x
        out: Tensor = self.part(x)
        return out


class Reading(nn.Module):
    """Reads an attribute of a part, in a branch that is not taken."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Expert()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x * self.part.width if x.sum() > 1e9 else self.part(x)
        return out


class Reaching(nn.Module):
    """Calls a block, and a layer of it."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x)
        return y if y.sum() > 1e9 else y + self.part[0](y) + len(self.part)


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Scaled()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x) + self.part(x, x)
        return y if y.sum() < 1e9 else x


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        y: Tensor = self.lin(x)
        return y if scale is None else y * scale


@dataclass
class Found:
    value: Tensor


class Packing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Found:
        return Found(self.lin(x))


class Unpacking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Packing()

    def forward(self, x: Tensor) -> Tensor:
        found: Found = self.part(x)
        return found.value if found.value.sum() < 1e9 else x


class Sizing(nn.Module):
    """Gives a part as many rows as the data says, which goes by that."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Few()

    def forward(self, x: Tensor) -> Tensor:
        rows = (x[:, 0] > 0).nonzero()[:, 0]
        return x if x.sum() > 1e9 else x.index_add(0, rows, self.part(x[rows]))


class Few(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.lin(x)
        return y if x.shape[0] > 3 else y * 2


class Methods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Coder()

    def forward(self, x: Tensor) -> Tensor:
        code = self.part.encode(x)
        return self.part.decode(code) if code.sum() < 1e9 else x


class Coder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 4), nn.Tanh())

    def encode(self, x: Tensor) -> Tensor:
        out: Tensor = self.enter(x)
        return out

    def decode(self, x: Tensor) -> Tensor:
        out: Tensor = self.leave(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


@pytest.mark.parametrize(
    ("make", "reason", "inside"),
    [
        (Asking, r"uses more than its results \(Expert\)", {"up", "act", "drop", "down"}),
        (Reading, r"uses more than its results \(width\)", {"up", "act", "drop", "down"}),
        (Reaching, None, {"0", "1"}),
        (Several, r"calls it in different ways", {"lin"}),
        (Unpacking, r"object of a data class", {"lin"}),
        (Sizing, r"depends on sizes", {"lin"}),
        (Methods, r"uses more than its results \(decode\)", {"enter", "leave", "leave.0", "leave.1"}),
    ],
)
def test_parts_that_code_looks_into_keep_their_code(
    make: Callable[[], nn.Module], reason: str | None, inside: set[str]
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), make(), nn.ReLU())
    graph = imported(net, torch.randn(5, 4))
    assert graph["1.part"].type == "Module"
    prefix = "1.part."
    assert {path.removeprefix(prefix) for path, _ in paths(graph) if path.startswith(prefix)} == inside
    origin = graph["1.part"].origin
    assert origin is not None
    assert origin.proof == ("opaque" if reason else "equal")
    assert re.search(reason or "", origin.reason)
    net.eval()
    model = pn.compile(graph, reuse=net)
    other = torch.randn(3, 4) * 1e10
    assert torch.equal(model(other), net(other))  # where the example did not lead


class Tied(nn.Module):
    """A greedy decoder whose output layer has the weights of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.cell = nn.GRUCell(4, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, state: Tensor) -> Tensor:
        word = torch.zeros(len(state), dtype=torch.long)
        words: list[Tensor] = []
        while len(words) < 4 and not (len(words) > 1 and bool((word == 0).all())):
            state = self.cell(self.embed(word), state)
            word = self.out(state).argmax(-1)
            words.append(word)
        return torch.stack(words, 1) + state.sum()


def test_a_whole_net_that_goes_by_its_data_is_a_box() -> None:
    torch.manual_seed(0)
    net, x = Tied(), torch.randn(3, 4)
    graph = imported(net, x)
    assert [node.type for node in graph.nodes.values()] == ["Input", "Module", "Output"]
    assert dict(paths(graph)) == {
        "module": "Module", "module.embed": "Embedding", "module.cell": "GRUCell", "module.out": "Linear",
    }  # fmt: skip
    made: Any = pn.compile(graph, reuse=net)
    assert made.out.weight is made.embed.weight
    again: Any = pn.compile(graph, reuse=made)
    assert again.out.weight is again.embed.weight
    assert torch.equal(again(x), net(x))


class OneForTwo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.other = self.one

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.other(self.one(x))
        return y if y.sum() < 1e9 else x


class Remembering(nn.Module):
    """Keeps a function that calls a part of it: in a copy, that of the original."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.call: Callable[[Tensor], Tensor] = lambda x: self.one(x * 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.call(x)
        return y if y.sum() < 1e9 else x


@pytest.mark.parametrize("make", [OneForTwo, Remembering])
def test_what_a_drawing_would_miss_stays_closed(make: Callable[[], nn.Module]) -> None:
    net = nn.Sequential(nn.Linear(4, 4), make())
    graph = imported(net, torch.randn(3, 4))
    assert graph["1"].type == "Module"
    assert graph["1"].definition is None


def test_a_part_that_is_called_self_has_a_node() -> None:
    net, x = nn.Sequential(Mixture(2), Mixture(2)), torch.randn(5, 4)
    net[0].add_module("self", nn.Linear(4, 4))
    graph = imported(net, x)
    model = pn.compile(graph, reuse=net)
    assert list(model.state_dict()) == list(net.state_dict())
    assert graph["0.self2"].type == "Linear"


def test_a_box_that_is_called_twice_is_shared() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.box = Reaching()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.box(self.box(x))
            return out

    net, x = Twice(), torch.randn(3, 4)
    graph = imported(net, x)
    boxes = [node for node in graph.nodes.values() if node.type == "Module"]
    assert [node.shares for node in boxes] == [None, "box"]
    assert list(pn.compile(graph, reuse=net).state_dict()) == list(net.state_dict())


def test_experts_of_the_example_vouch_for_those_that_it_does_not_call() -> None:
    torch.manual_seed(0)
    net = Mixture(6)
    graph = imported(net, torch.randn(1, 4))
    experts = graph.graphs[str(graph["module.experts"].definition)].nodes.values()
    assert [node.type for node in experts] == ["Subgraph"] * 6
    assert len({node.definition for node in experts}) == 1
    called = [node.origin is None or node.origin.called for node in experts]
    assert called.count(True) == 1


class ByMode(nn.Module):
    """Goes another way in training, by its data: what is drawn cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.outer = nn.Linear(4, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.inner(x)
        if not mask.is_meta and mask.all():
            x = x * 2
        found: Tensor = self.outer(x)
        return found


def test_a_layer_that_is_given_something_else_stays_open_in_the_module_that_is_closed() -> None:
    graph = pn.from_module(ByMode(), (torch.randn(2, 4), torch.ones(2, dtype=torch.bool)))
    [closed] = [row for row in graph.import_report.rows if row.state == "closed"]
    assert closed.type.endswith("ByMode")
