from __future__ import annotations

import ast
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import pnne_nb as pn
from pnne_nb.compiler.codegen.writer import generate
from pnne_nb.compiler.ir.program import Call, Constant, Construction, Entry, Layer, Program, Ref, Result, Unit
from pnne_nb.compiler.ir.variables import camel, check_target, parameter_name
from pnne_nb.graph.schema.spec import Returns
from tests.compiler import graphs

LENET = """\
import torch
import torch.nn.functional as F
from torch import nn


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool2 = nn.MaxPool2d(2)
        self.fc = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x)  # (N, 6, 24, 24)
        x = self.relu1(x)  # (N, 6, 24, 24)
        x = self.pool1(x)  # (N, 6, 12, 12)
        x = self.conv2(x)  # (N, 16, 8, 8)
        x = F.relu(x)  # (N, 16, 8, 8)
        x = self.pool2(x)  # (N, 16, 4, 4)
        x = torch.flatten(x, 1)  # (N, 256)
        return self.fc(x)  # (N, 10)
"""

BRANCHES = """\
import torch
from torch import nn


class TwoWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 3)

    def forward(
        self,
        left: torch.Tensor,
        right: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shared = self.shared(left)  # (N, 3)
        again = self.shared(right)  # (N, 3)
        joint = torch.cat([shared, again], dim=1)  # (N, 6)
        product = shared * again  # (N, 3)
        return joint, product
"""

NESTED = """\
import torch
from torch import nn


class Layer1(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 6), nn.ReLU())


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = Layer1()
        self.layer2 = Layer1()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1(x)  # (N, 6)
        return self.layer2(x)  # (N, 6)
"""

RECURRENT_FORWARD = """\
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)  # (N, T, 5)
        x, _ = self.lstm(x)  # (N, T, 7), (1, N, 7), (1, N, 7)
        x = torch.select(x, 1, -1)  # (N, 7)
        return self.head(x)  # (N, 2)
"""

WEIGHTS_INIT = """\
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.arange(3, dtype=torch.float32))
        self.register_buffer("hidden", torch.zeros(3), persistent=False)
"""


def test_source_reads_as_a_person_would_write_it() -> None:
    assert pn.to_source(graphs.lenet()) == LENET


def test_several_inputs_and_outputs() -> None:
    assert pn.to_source(graphs.branches()) == BRANCHES


def test_a_definition_is_one_class() -> None:
    assert pn.to_source(graphs.nested()) == NESTED


def test_results_that_nobody_uses_have_no_name() -> None:
    assert RECURRENT_FORWARD in pn.to_source(graphs.recurrent())


def test_parameters_and_buffers() -> None:
    source = pn.to_source(graphs.weights())
    assert WEIGHTS_INIT in source
    assert "x * self.scale" in source
    assert "x * 0.5" in source


@pytest.mark.parametrize(
    ("init", "text"),
    [
        ("normal", "torch.randn(2, 3)"),
        ({"std": 0.02}, "torch.randn(2, 3) * 0.02"),
        ({"mean": 1, "std": 0.1}, "torch.normal(1.0, 0.1, (2, 3))"),
        ({"mean": 0.5, "std": 0}, "torch.full((2, 3), 0.5)"),
        ("uniform", "torch.rand(2, 3)"),
        ("kaiming_uniform", "nn.init.kaiming_uniform_(torch.empty(2, 3))"),
        ("xavier_uniform", "nn.init.xavier_uniform_(torch.empty(2, 3))"),
    ],
)
def test_initial_values_of_parameters(init: str | dict[str, float], text: str) -> None:
    graph = pn.NodeGraph("weight")
    graph.add("Input", "x", shape=("N", 3))
    given = {"init": init} if isinstance(init, str) else {"init": "normal", **init}
    graph.add("Parameter", "w", shape=(2, 3), **given)
    graph.add(F.linear, "fc")
    graph.add("Output", "y")
    graphs.wire(graph, "x fc.input", "w fc.weight", "fc y")
    assert f"self.w = nn.Parameter({text})" in pn.to_source(graph)
    assert pn.compile(graph)(torch.ones(1, 3)).shape == (1, 2)


def test_only_what_differs_from_the_default_is_written() -> None:
    graph = graphs.mlp()
    graph.set("fc1", bias=True)
    assert "nn.Linear(8, 16)\n" in pn.to_source(graph)
    assert "nn.Linear(16, 4, bias=False)\n" in pn.to_source(graph)


def test_a_count_is_written_as_of_a_range() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", "x", shape=("N", 4))
    graph.add("arange", "count", end=4)
    graph.add("arange", "steps", end=8, step=2)
    graph.add("add", "sum")
    graph.add("add", "more")
    graph.add("Output", "y")
    graphs.wire(graph, "x sum.input", "count sum.other", "sum more.input", "steps more.other", "more y")
    source = pn.to_source(graph)
    assert "torch.arange(4)" in source
    assert "torch.arange(0, 8, 2)" in source
    assert torch.equal(pn.compile(graph)(torch.zeros(1, 4)), torch.tensor([[0.0, 3.0, 6.0, 9.0]]))


def test_long_calls_are_broken() -> None:
    graph = pn.NodeGraph("wide")
    graph.add("Input", "x", shape=("N", 3, 64, 64))
    graph.add(
        "Conv2d", "convolution", in_channels=3, out_channels=64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3),
        dilation=(1, 2), groups=1, bias=False, padding_mode="reflect",
    )  # fmt: skip
    graph.add("Output", "y")
    graphs.wire(graph, "x convolution y")
    source = pn.to_source(graph)
    assert "        self.convolution = nn.Conv2d(\n            3,\n            64,\n            (7, 7),\n" in source
    assert max(map(len, source.splitlines())) <= 88
    model = pn.compile(graph)
    assert {line.number for line in pn.explain(model) if line.nodes == ("convolution",)} >= {8, 9, 10}


def test_nothing_is_imported_that_is_not_used() -> None:
    graph = pn.NodeGraph("plain")
    graph.add("Input", "x")
    graph.add("ReLU", "act")
    graph.add("Output", "y")
    graphs.wire(graph, "x act y")
    assert "import torch.nn.functional" not in pn.to_source(graph)


class _Tracked(torch.Tensor):
    """A tensor that can be referred to weakly and counted."""


def test_intermediate_values_are_freed_after_their_last_use() -> None:
    """As many tensors stay alive as the graph needs, not as many as there are nodes."""
    graph = pn.NodeGraph("chain")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Output", "y")
    names: list[str] = []
    for index in range(20):
        node = graph.add("Tanh" if index % 2 else "Sigmoid")
        side = graph.add("exp")
        total = graph.add("add")
        start = names[-1] if names else "x"
        graphs.wire(graph, f"{start} {node} {total}.input", f"{start} {side} {total}.other")
        names.append(total.name)
    graphs.wire(graph, f"{names[-1]} y")
    model = pn.compile(graph)
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0

    def count(_module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        nonlocal most
        alive.append(weakref.ref(output))
        most = max(most, sum(ref() is not None for ref in alive))

    for module in model.children():
        module.register_forward_hook(count)
    with torch.no_grad():
        model(torch.randn(2, 4))
    assert most == 1


NAMES = st.from_regex(r"[A-Za-z0-9_]{1,12}", fullmatch=True)


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True), st.text(max_size=20))
def test_hostile_names_become_harmless_source(names: list[str], title: str) -> None:
    """Whatever nodes and documents are called, the text is a class that runs."""
    graph = pn.NodeGraph("a document")
    if title.strip() and title.isprintable():
        graph.name = title
    legal: list[str] = []
    for name in names:
        try:
            graph.add(
                "Input" if not legal else "Linear",
                name=name,
                **({"in_features": 2, "out_features": 2} if legal else {}),
            )
        except pn.IllegalNameError:
            continue
        legal.append(name)
    if not legal:
        return
    end = graph.add("Output", "the_end")
    for source, target in zip(legal, [*legal[1:], end.name], strict=True):
        graph.connect(f"{source}.output", f"{target}.input")
    model = pn.compile(graph)
    assert model(torch.ones(1, 2)).shape == (1, 2)
    assert [name.partition(".")[0] for name in list(model.state_dict())[::2]] == legal[1:]
    tree = ast.parse(pn.to_source(graph))
    assert all(isinstance(item, (ast.Import, ast.ImportFrom, ast.ClassDef)) for item in tree.body)


EVIL = 'x(__import__("os"))'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call("n", "function", f"torch.{EVIL}", (Ref("x", "output"),)), "is not a name that can be written"),
        (Call("n", "function", "os.system", (Ref("x", "output"),)), "is not registered"),
        (Call("n", "function", "torch.__dict__", (Ref("x", "output"),)), "is not a name that can be written"),
        (Call("n", "method", EVIL, (Ref("x", "output"),)), "cannot be the name of a method"),
        (Call("n", "function", "torch.cat", (), ((EVIL, Ref("x", "output")),)), "cannot be the name of an argument"),
        (Call("n", "function", "torch.add", (Ref("x", "output"), Constant(object()))), "cannot be written as source"),
        (
            Call("n", "function", "getattr", (Ref("x", "output"), Constant("__class__"))),
            "cannot be the name of an attribute",
        ),
    ],
)
def test_what_is_no_plain_name_never_reaches_the_text(call: Call, message: str) -> None:
    program = Program("", (), (Entry("x"),), (call,), (Result("y", Ref("n", "output")),))
    with pytest.raises(pn.CompileError, match=message):
        generate(Unit("evil", {"": program}))


def test_a_hostile_class_never_reaches_the_text() -> None:
    program = Program("", (Layer("n", Construction(f"torch.nn.{EVIL}")),), (Entry("x"),), (), ())
    with pytest.raises(pn.CompileError, match="is not a name that can be written"):
        generate(Unit("evil", {"": program}))


def test_a_hostile_port_name_becomes_a_plain_variable() -> None:
    results: Returns = ("a", EVIL)
    call = Call("n", "function", "torch.max", (Ref("x", "output"), Constant(1)), (), results, single=False)
    program = Program("", (), (Entry("x"),), (call,), (Result("y", Ref("n", EVIL)), Result("z", Ref("n", "a"))))
    assert "a, xx___import____os___ = torch.max(x, 1)" in generate(Unit("evil", {"": program})).text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LeNet", "LeNet"),
        ("lenet", "Lenet"),
        ("my net", "MyNet"),
        ("my_net-2", "MyNet2"),
        ("3d", "Net3d"),
        ("…", "Model"),
        ("resNet18", "ResNet18"),
    ],
)
def test_class_names(name: str, expected: str) -> None:
    assert camel(name) == expected


def test_class_names_do_not_collide_with_python() -> None:
    for name in ("None", "F", "True", "Exception"):
        graph = graphs.mlp()
        graph.name = name
        model = pn.compile(graph)
        assert type(model).__name__ == f"{name}2"
        assert model(torch.ones(1, 8)).shape == (1, 4)


@pytest.mark.parametrize(("name", "expected"), [("0", "x0"), ("lambda", "lambda_"), ("self", "self_"), ("x", "x")])
def test_argument_names(name: str, expected: str) -> None:
    assert parameter_name(name) == expected


@pytest.mark.parametrize("target", ["", "a b", "torch.nn.", "1a", "a.import", "a..b", "torch.__class__"])
def test_targets_are_dotted_identifiers(target: str) -> None:
    with pytest.raises(pn.CompileError, match="is not a name that can be written as source"):
        check_target(target)
