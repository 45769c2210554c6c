"""Code that asks for element types, or for the autocast around it, is drawn for each answer; others are refused."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pnne_nb as pn

X = torch.linspace(-1, 1, 16).reshape(4, 4)


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 4))


class Half(Layered):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        if h.dtype == torch.float16:
            h = h.float()
        return h.softmax(-1).to(self.weight.dtype)


class OneOfTwo(Layered):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        if h.dtype in (torch.float16, torch.bfloat16):
            h = h.float() * 2
        return h * 3


class Norm(Layered):
    """As T5LayerNorm."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            x = x.to(self.weight.dtype)
        return self.weight * x


class LikeItsWeight(Layered):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        if h.dtype != self.weight.dtype:
            h = h.to(self.weight.dtype) + 1
        return h * self.weight


class Inverse(Layered):
    """As casts in kornia."""

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        dtype = h.dtype
        if dtype not in (torch.float32, torch.float64):
            dtype = torch.float32
        found: Tensor = torch.linalg.inv(h.to(dtype) + 4 * torch.eye(4, dtype=dtype))
        return found.to(h.dtype)


class Upsampling(Layered):
    """As Upsample2D in diffusers: the same question twice, with a layer in between."""

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        kind = h.dtype
        if kind == torch.bfloat16:
            h = h.to(torch.float32)
        h = F.softplus(h)
        if kind == torch.bfloat16:
            h = h.to(kind)
        y: Tensor = self.fc(h)
        return y


class ByMode(Layered):
    """Asks otherwise in training than in evaluation, and draws random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        if self.training:
            h = F.dropout(h.float(), 0.5) if h.dtype == torch.bfloat16 else F.dropout(h, 0.2)
        elif h.dtype == torch.float16:
            h = h.float()
        return h


class Keyed(Layered):
    """Looks a number up under the element type."""

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        return h + {torch.float32: 1.0, torch.bfloat16: 2.0, torch.float16: 4.0, torch.float64: 8.0}[h.dtype]


class Lowest(Layered):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        return h.masked_fill(h > 0, torch.finfo(h.dtype).min)


class InPlace(Layered):
    """Changes a tensor for some types only."""

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        if h.dtype == torch.bfloat16:
            h.mul_(2)
        h.add_(1)
        return h


class InAutocast(Layered):
    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16:
            x = x * 2
        y: Tensor = self.fc(x)
        return y


class Sized(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * y.element_size() + (1 if y.dtype.itemsize == 2 else 0)


class WithNumbers(Layered):
    """Has numbers of its own in what it asks about; two of them are alike, and one of these changes."""

    def forward(self, x: Tensor) -> Tensor:
        one, other = torch.tensor([1.0, 2.0, 0.5, -1.0]), torch.tensor([1.0, 2.0, 0.5, -1.0])
        one += 1
        x = x * other.to(x.dtype)
        h: Tensor = self.fc(x)
        if h.dtype == torch.bfloat16:
            h = h.float() * torch.tensor([4.0, 3.0, 2.0, 1.0])
        return h + one.to(h.dtype)


KINDS: tuple[type[Layered], ...] = (
    Half, OneOfTwo, Norm, LikeItsWeight, Inverse, Upsampling, ByMode, Keyed, Lowest, InPlace, InAutocast, Sized, WithNumbers,
)  # fmt: skip
CALLS: dict[str, Callable[[nn.Module], Tensor]] = {
    "as it is": lambda net: net(X),
    "bfloat16": lambda net: copy.deepcopy(net).bfloat16()(X.bfloat16()),
    "float16": lambda net: copy.deepcopy(net).half()(X.half()),
    "float64": lambda net: copy.deepcopy(net).double()(X.double()),
    "autocast": lambda net: torch.autocast("cpu", torch.bfloat16)(net)(X),
    "autocast to float16": lambda net: torch.autocast("cpu", torch.float16)(net)(X),
}


def result(call: Callable[[nn.Module], Tensor], net: nn.Module) -> Tensor | None:
    torch.manual_seed(0)
    try:
        return call(net)
    except RuntimeError:
        return None  # torch has no such kernel


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_does_the_same_in_every_element_type(kind: type[Layered], nested: bool) -> None:
    net: nn.Module = kind()
    if nested:
        net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(net, nn.ReLU()))
    graph = pn.from_module(net, X)
    assert graph.import_report.closed == 0
    model = pn.compile(graph, reuse=net)
    for training in (True, False):
        net.train(training)
        model.train(training)
        for name, call in CALLS.items():
            mine, theirs = result(call, net), result(call, model)
            assert (mine is None) == (theirs is None), name
            if mine is not None and theirs is not None:
                assert (name, mine.dtype) == (name, theirs.dtype)
                assert torch.equal(mine, theirs), name


def test_both_ways_are_shown_in_source_and_only_one_is_computed() -> None:
    source = pn.to_source(pn.from_module(Upsampling(), X))
    assert "eq = kind == torch.bfloat16" in source
    assert "        if eq:\n            " in source
    assert ".to(dtype=torch.float32)" in source
    assert "import again" not in source


def test_a_type_that_was_not_drawn_is_refused_by_name() -> None:
    class Eighth(Layered):
        def forward(self, x: Tensor) -> Tensor:
            if x.dtype == torch.float8_e5m2:
                x = x.float()
            y: Tensor = self.fc(x)
            return y

    net = Eighth()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    assert torch.equal(model(X), net(X))
    with pytest.raises(
        pn.ExecutionError,
        match=r"Node 'check' failed.*imported for x.dtype != torch.float8_e5m2; otherwise import again \(test_alt.*line \d+",
    ):
        model(X.to(torch.float8_e5m2))


def test_whole_numbers_are_refused_where_the_code_asks_whether_they_are() -> None:
    class Scaling(Layered):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.fc(x / 255 if not x.is_floating_point() else x)
            return y

    net = Scaling()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    with pytest.raises(pn.ExecutionError, match=r"imported for .*x\.dtype\.is_floating_point.*otherwise import again"):
        model(torch.ones(4, 4, dtype=torch.uint8))


def test_numbers_that_equal_nothing_leave_one_type() -> None:
    class Nothing(Layered):
        def forward(self, x: Tensor) -> Tensor:
            h: Tensor = self.fc(x) + torch.tensor(float("nan")).nan_to_num(1.0)
            return h + 1 if h.dtype == torch.float32 else h

    class Unequal(Layered):
        def forward(self, x: Tensor) -> Tensor:
            h: Tensor = (self.fc(x) + torch.tensor(float("nan"))).nan_to_num(1.0)
            return h + 1 if h.dtype == torch.float32 else h

    for net in (Nothing(), Unequal()):
        model = pn.compile(pn.from_module(net, X), reuse=net)
        assert torch.equal(model(X), net(X))
        try:
            found = model.double()(X.double())
        except pn.ExecutionError as error:
            assert "otherwise import again" in str(error)
        else:
            assert torch.equal(found, net.double()(X.double()))


def test_a_training_in_bfloat16_is_that_of_the_module() -> None:
    net = nn.Sequential(Upsampling(), nn.Linear(4, 2))
    model = pn.compile(pn.from_module(net, X), reuse=net)
    losses = []
    for what in (net, model):
        engine = pn.TrainingEngine(what, (X, torch.tensor([0, 1, 0, 1])), precision="bf16", epochs=2, batch_size=2)
        engine.start().wait()
        losses.append(list(engine.history["loss"]))
    assert losses[0] == losses[1]


def test_one_value_of_two_can_be_drawn_by_hand() -> None:
    graph = pn.NodeGraph("choice")
    graph.add("Input", name="x", shape=(2, 4))
    graph.add("float", name="wide")
    graph.add("Constant", name="plain", value=True)
    graph.add("if_else", name="either")
    graph.add("Output", name="y")
    graph.connect("x.output", "wide.input")
    graph.connect("plain.output", "either.condition")
    graph.connect("wide.output", "either.yes")
    graph.connect("x.output", "either.no")
    graph.connect("either.output", "y.input")
    model = pn.compile(graph)
    assert model(torch.ones(2, 4, dtype=torch.float64)).dtype == torch.float32
    assert "wide if True else x" in pn.to_source(graph)
