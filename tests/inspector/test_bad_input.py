"""Whatever a person passes: a clear error or a defined result, and no hook left."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pnne_nb.diagnosis.rules import DeadReLU
from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError, PnneError
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.tools.benchmark import benchmark
from pnne_nb.inspector.tools.checks import check_gradients, check_numerics
from pnne_nb.inspector.tools.profile import profile
from pnne_nb.inspector.tools.summary import summary
from tests.inspector.models import Twice, hooks_on, mlp

Tool = Callable[[Any, Any], object]

TOOLS: dict[str, Tool] = {
    "run_inspection": lambda net, x: Inspector(net).run_inspection(x),
    "summary": summary,
    "profile": profile,
    "benchmark": lambda net, x: benchmark(net, x, seconds=1e-3),
    "check_gradients": check_gradients,
    "check_numerics": check_numerics,
}
every_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)


class Boom(RuntimeError):
    pass


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise Boom("in the middle")


def modules_with_hooks(net: nn.Module) -> int:
    return hooks_on(net) + sum(len(parameter._backward_hooks or {}) for parameter in net.parameters())


@every_tool
@pytest.mark.parametrize("net", [3, None, "net", nn.Linear, [mlp()]])
def test_what_is_no_module_is_refused(tool: Tool, net: object) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)must be an nn\.Module, not .* pn\.compile\(graph\) makes one"):
        tool(net, torch.randn(2, 5))


@every_tool
def test_an_error_in_the_middle_names_the_layer(tool: Tool) -> None:
    net = nn.Sequential(nn.Linear(5, 5), nn.Sequential(nn.ReLU(), Failing()))
    with pytest.raises(Boom, match="in the middle") as caught:
        tool(net, torch.randn(2, 5))
    assert "in layer '1.1' (Failing), which received [2, 5]" in caught.value.__notes__[0]
    assert modules_with_hooks(net) == 0
    assert net.training
    assert all(parameter.grad is None for parameter in net.parameters())


@every_tool
@pytest.mark.parametrize(
    ("x", "received"),
    [
        (torch.randn(2, 9), "[2, 9] float"),
        (torch.randint(0, 3, (2, 5)), "[2, 5] int64 on cpu"),
        (torch.randn(2, 5, dtype=torch.complex64), "[2, 5] complex"),
        (torch.empty(2, 5, device="meta"), "on meta; its parameters are on cpu"),
        ("text", "received no tensor"),
        ([1.0, 2.0], "received no tensor"),
    ],
    ids=["shape", "integers", "complex", "device", "text", "list"],
)
def test_data_that_does_not_fit_is_refused_at_its_layer(tool: Tool, x: object, received: str) -> None:
    net = mlp()
    with pytest.raises((RuntimeError, TypeError), match=r"mat1|dtype|device|Tensor") as caught:
        tool(net, x)
    assert "in layer '0' (Linear), which received" in caught.value.__notes__[0]
    assert received in caught.value.__notes__[0]
    assert modules_with_hooks(net) == 0


@every_tool
@pytest.mark.parametrize(
    ("net", "x"),
    [
        (mlp(), torch.zeros(0, 5)),
        (mlp(), torch.full((2, 5), float("nan"))),
        (nn.Embedding(7, 3), torch.randint(0, 7, (2, 4))),
        (nn.Linear(3, 2, dtype=torch.complex64), torch.randn(4, 3, dtype=torch.complex64)),
        (nn.Sequential(nn.Flatten(), nn.Identity()), torch.randint(0, 7, (2, 4))),
        (Twice(), torch.randn(2, 5)),
    ],
    ids=["empty", "nan", "integers", "complex", "no-parameters", "twice"],
)
def test_unusual_data_has_a_defined_result(tool: Tool, net: nn.Module, x: Tensor) -> None:
    assert repr(tool(net, x))
    assert modules_with_hooks(net) == 0


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Tensor, mask: Tensor, *, scale: float = 1.0) -> Tensor:
        return self.layer(x) * mask * scale  # type: ignore[no-any-return]  # torch types the call of a module as Any


@every_tool
@pytest.mark.parametrize(
    ("args", "given"),
    [
        ((), "no argument: missing a required argument: 'x'"),
        (torch.zeros(2, 5), "(Tensor): missing a required argument: 'mask'"),
    ],
    ids=["none", "one"],
)
def test_arguments_that_forward_does_not_take_are_told_of_those_it_takes(tool: Tool, args: object, given: str) -> None:
    net = Masked()
    said = re.escape(
        f"Masked.forward(x, mask, *, scale=1.0) cannot be called with {given}. Pass an example of its input"
    )
    with pytest.raises(InspectionError, match=said) as caught:
        tool(net, args)
    assert isinstance(caught.value.__cause__, TypeError)
    assert modules_with_hooks(net) == 0


def test_a_type_error_inside_a_layer_is_not_one_of_the_call() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x, 3)  # type: ignore[call-arg]  # wrong on purpose

    with pytest.raises(TypeError, match="relu"):
        summary(Inner(), torch.zeros(2))


@every_tool
def test_a_lazy_layer_is_left_as_it_is(tool: Tool) -> None:
    lazy = nn.LazyLinear(3)
    net = nn.Sequential(lazy)
    with pytest.raises(InspectionError, match=r"The layer '0' \(LazyLinear\) has no parameters yet.*net\(data\)"):
        tool(net, torch.zeros(2, 5))
    assert is_lazy(lazy.weight)


def test_tools_refuse_numbers_that_mean_nothing(tmp_path: Path) -> None:
    x = torch.zeros(2, 5)
    with pytest.raises(ArgumentError, match="warmup must be a number of calls, at least 0, not -1"):
        profile(mlp(), x, warmup=-1)
    with pytest.raises(InspectionError, match=r"The trace .*t\.json' cannot be written: No such file"):
        profile(mlp(), x, trace=tmp_path / "none" / "t.json")
    with pytest.raises(ArgumentError, match="seconds must be at least 0, not -1"):
        benchmark(mlp(), x, seconds=-1)
    with pytest.raises(ArgumentError, match="eps must be above 0, not 0"):
        check_gradients(mlp(), x, eps=0)
    with pytest.raises(ArgumentError, match="optimizer must be an optimizer, or None, not 3"):
        summary(mlp(), x, optimizer=3)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ArgumentError, match="kwargs must be a mapping of the model's keyword arguments by name, not 3"):
        summary(mlp(), x, 3)  # type: ignore[arg-type]  # wrong on purpose
    for hz in (-1, float("nan"), "ten"):
        with pytest.raises(ArgumentError, match=r"hz must be (a number|at least 0)"):
            Inspector(mlp()).live(hz=hz).__enter__()  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ArgumentError, match=r"engine must be a training, not 3\. pn\.TrainingEngine"):
        Inspector(mlp()).attach(3)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("rules", [[3], [DeadReLU]])
def test_rules_are_values(rules: Any) -> None:
    with pytest.raises(ArgumentError, match=r"rules holds .*: give rules such as ExplodingGradients\(limit=100\)"):
        Inspector(mlp()).diagnose([], rules)


@pytest.mark.parametrize(
    ("target", "loss_fn", "error", "message"),
    [
        (None, nn.CrossEntropyLoss(), InspectionError, r"with the output alone: missing .*'target'\. Give the target too"),
        (torch.zeros(2), torch.sum, TypeError, "sum"),
        (torch.zeros(2), lambda output: output.sum(), InspectionError, "with the output and the target: too many"),
        (torch.zeros(2), nn.CrossEntropyLoss, ArgumentError, r"the class CrossEntropyLoss, .* make one, CrossEntropyLoss\(\)"),
        (np.zeros(2), nn.CrossEntropyLoss(), InspectionError, r"takes no NumPy array: give torch\.from_numpy\(target\)"),
        (None, lambda output: output.sum() * 1j, InspectionError, "The loss is complex"),
    ],
)  # fmt: skip
def test_losses_that_cannot_be_computed_say_why(
    target: object, loss_fn: Any, error: type[Exception], message: str
) -> None:
    net = mlp()
    with pytest.raises(error, match=message):
        Inspector(net).run_inspection(torch.zeros(2, 5), target, loss_fn)
    assert modules_with_hooks(net) == 0


def test_an_error_of_the_loss_says_what_it_was_given() -> None:
    with pytest.raises(ValueError, match="batch_size") as caught:
        Inspector(mlp()).run_inspection(torch.zeros(2, 5), torch.zeros(3, dtype=torch.long), nn.CrossEntropyLoss())
    received = "which received the output [2, 3] float32 on cpu and the target [3] int64 on cpu."
    assert caught.value.__notes__ == [f"While inspecting, in loss_fn (CrossEntropyLoss), {received}"]


@pytest.mark.parametrize("pattern", [3, None, ["0", 3]])
def test_a_pattern_is_a_text(pattern: Any) -> None:
    with pytest.raises(ArgumentError, match='is no pattern of layers: give a text such as "encoder'):
        Inspector(mlp()).watch(pattern)
    with pytest.raises(ArgumentError, match="is no pattern of layers"):
        Inspector(mlp()).watch(exclude=3)  # type: ignore[arg-type]  # wrong on purpose


def test_an_array_where_tensors_are_wanted_is_said() -> None:
    inspector = Inspector(mlp())
    with pytest.raises(InspectionError, match=r"does not take a NumPy array .*torch\.from_numpy\(data\)"):
        inspector.run_inspection(np.zeros((2, 4), dtype=np.float32))


def test_no_pattern_at_all_is_no_layer() -> None:
    with pytest.raises(LayerNotFoundError, match='No pattern was given; "\\*" matches every layer'):
        Inspector(mlp()).watch([])


@pytest.mark.parametrize("types", [3, "Linear", (nn.Linear, "ReLU")])
def test_types_are_classes(types: Any) -> None:
    with pytest.raises(ArgumentError, match=r"types holds .*: give classes of layers, such as torch\.nn\.Conv2d"):
        Inspector(mlp()).watch(types=types)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (("acts",), "'acts' cannot be watched. Did you mean 'activations'"),
        ("gradient", "'gradient' cannot be watched. Did you mean 'gradients'"),
        (["parameters", 3], "3 cannot be watched. What can: 'activations', 'inputs'"),
        ((), "what names nothing to watch"),
        (3, "what must be a quantity or several, not 3"),
    ],
)
def test_quantities_are_checked(what: Any, message: str) -> None:
    inspector = Inspector(mlp())
    with pytest.raises(PnneError, match=message):
        inspector.watch("0", what)
    assert inspector.watched == {}


@pytest.mark.parametrize("budget", ["much", 0, -0.1, "0%", "101%", None, float("nan")])
def test_a_budget_is_a_share(budget: Any) -> None:
    with pytest.raises(ArgumentError, match=r"budget must be a share of the running time such as '1%' or 0\.01"):
        Inspector(mlp()).live(budget=budget).__enter__()


def test_a_live_probe_of_a_model_that_raises_leaves_no_hooks() -> None:
    net = nn.Sequential(nn.Linear(5, 5), Failing())
    probe = LiveProbe(net)
    probe.open(1)
    with pytest.raises(Boom, match="in the middle"):
        net(torch.randn(2, 5))
    probe.close()
    assert modules_with_hooks(net) == 0
