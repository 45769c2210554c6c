"""Whatever a person passes: a clear error or a defined result, and no hook left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError, PnneError
from pnne_nb.inspector.checks import check_gradients, check_numerics
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.live import LiveProbe
from pnne_nb.inspector.profiling import profile
from pnne_nb.inspector.summary import summary
from pnne_nb.inspector.timing import benchmark
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


@pytest.mark.parametrize("pattern", [3, None, ["0", 3]])
def test_a_pattern_is_a_text(pattern: Any) -> None:
    with pytest.raises(ArgumentError, match='is no pattern of layers: give a text such as "encoder'):
        Inspector(mlp()).watch(pattern)
    with pytest.raises(ArgumentError, match="is no pattern of layers"):
        Inspector(mlp()).watch(exclude=3)  # type: ignore[arg-type]


def test_an_array_where_tensors_are_wanted_is_said() -> None:
    inspector = Inspector(mlp())
    with pytest.raises(InspectionError, match=r"does not take a NumPy array .*torch\.from_numpy\(data\)"):
        inspector.run_inspection(np.zeros((2, 4), dtype=np.float32))


def test_no_pattern_at_all_is_no_layer() -> None:
    with pytest.raises(LayerNotFoundError, match='No pattern was given; "\\*" stands for every layer'):
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
