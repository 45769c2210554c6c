"""Source that is shown stands alone: it has the text of what a person registered, and of what that uses."""

from __future__ import annotations

import math
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.errors import CompileError

NOTEBOOK = '''
import math
import torch
import torch.nn.functional as fn
from torch import nn
import pnne_nb as pn

SCALE = 1.5

def helper(x):
    return fn.relu(x) * math.sqrt(SCALE)

class Base(nn.Module):
    def extra(self, x: "Unknown"):
        return helper(x)

@pn.register_node(
    category="Custom",
)
class Swish(Base):
    """A class of the notebook."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(beta))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.extra(x) * torch.sigmoid(self.beta * x)

@pn.register_node
def twice(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    return x * by
'''


def chain(*types: str) -> pn.NodeGraph:
    graph = pn.NodeGraph("swish")
    names = [f"node{index}" for index in range(len(types))]
    graph.add("Input", name="x", shape=("N", 3))
    for type, name in zip(types, names, strict=True):
        graph.add(type, name=name)
    graph.add("Output", name="y")
    for source, target in zip(["x", *names], [*names, "y"], strict=True):
        graph.connect(source, target)
    return graph


def alone(source: str, name: str) -> Any:
    """Return the class that source defines, in a module where nothing else is."""
    module: dict[str, Any] = {"__name__": "alone"}
    exec(source, module)
    return module[name]


def test_classes_and_functions_of_a_notebook_are_carried_with_what_they_use(tmp_path: Path) -> None:
    cell = tmp_path / "cell.py"
    cell.write_text(NOTEBOOK)
    kept = runpy.run_path(str(cell), run_name="__main__")  # its functions live in here
    graph = chain("Swish", "twice")
    source = pn.to_source(graph)
    assert "pnne_nb" not in source
    assert "register_node" not in source
    assert "\nclass Base(nn.Module):" in source
    assert source.index("class Base") < source.index("class Swish(Base)") < source.index("class Swish2(nn.Module)")
    model, example = pn.compile(graph), torch.randn(4, 3)
    own = alone(source, "Swish2")()
    own.load_state_dict(model.state_dict())
    assert torch.equal(own(example), model(example))
    assert kept["SCALE"] == 1.5


def test_the_source_runs_in_a_process_without_this_package(tmp_path: Path) -> None:
    (tmp_path / "cell.py").write_text(NOTEBOOK)
    kept = runpy.run_path(str(tmp_path / "cell.py"), run_name="__main__")
    (tmp_path / "net.py").write_text(
        "import sys\nsys.modules['pnne_nb'] = None\n"
        + pn.to_source(chain("Swish", "twice"))
        + "\nprint(Swish2()(torch.ones(1, 3)).shape)\n"
    )
    done = subprocess.run([sys.executable, str(tmp_path / "net.py")], capture_output=True, text=True, check=True)
    assert done.stdout == "torch.Size([1, 3])\n"
    assert kept


def test_what_a_function_holds_is_carried_with_its_variables() -> None:
    factor, power = 3.0, 2

    @pn.register_node
    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * factor + math.pow(2, power)

    source = pn.to_source(chain("Scaled"))
    assert "factor = 3.0" in source
    example = torch.randn(2, 3)
    assert torch.equal(alone(source, "Swish")()(example), example * 3 + 4)


def test_another_name_than_its_own_is_given() -> None:
    @pn.register_node(name="Renamed")
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return -x

    source = pn.to_source(chain("Renamed"))
    assert "Renamed = Own" in source
    assert torch.equal(alone(source, "Swish")()(torch.ones(1, 3)), -torch.ones(1, 3))


class Importable(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -x


def test_what_a_module_has_is_imported() -> None:
    pn.register_node(Importable)
    assert f"from {__name__} import Importable" in pn.to_source(chain("Importable"))


def test_a_class_without_source_is_refused_at_its_node() -> None:
    made: dict[str, Any] = {"nn": nn, "Tensor": Tensor, "__name__": "__main__"}
    exec("class Lost(nn.Module):\n    def forward(self, x: Tensor) -> Tensor:\n        return x", made)
    pn.register_node(made["Lost"])
    graph = chain("Lost")
    graph.group(["node0"], name="block")
    with pytest.raises(CompileError, match=r"block\.node0: The node type 'Lost' needs the source of Lost") as caught:
        pn.to_source(graph)
    assert caught.value.diagnostics[0].node == "block.node0"
    pn.compile(graph)


def test_a_value_without_source_is_refused_by_name() -> None:
    table = torch.ones(3)

    @pn.register_node
    class Added(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + table

    with pytest.raises(CompileError, match="'Added' uses table, a Tensor outside of it"):
        pn.to_source(chain("Added"))


def test_two_things_of_one_name_are_refused() -> None:
    def one() -> Any:
        def shift(x: Tensor) -> Tensor:
            return x + 1

        @pn.register_node
        class First(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return shift(x)

        return First

    def two() -> Any:
        def shift(x: Tensor) -> Tensor:
            return x + 2

        @pn.register_node
        class Second(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return shift(x)

        return Second

    assert one() is not two()
    with pytest.raises(CompileError, match="uses two different objects by the name 'shift'"):
        pn.to_source(chain("First", "Second"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("nested", [False, True])
def test_attention_weights_are_annotated_as_torch_does(nested: bool) -> None:
    graph = pn.NodeGraph("attention")
    graph.add("Input", name="x", shape=("N", 5, 4))
    graph.add("MultiheadAttention", name="attend", embed_dim=4, num_heads=2, batch_first=True)
    graph.add("Output", name="y")
    graph.add("Output", name="weights")
    for port in ("query", "key", "value"):
        graph.connect("x.output", f"attend.{port}")
    graph.connect("attend.output", "y")
    graph.connect("attend.attn_weights", "weights")
    if nested:
        graph.group(["attend"], name="block")
    assert pn.to_source(graph).count("-> tuple[torch.Tensor, torch.Tensor | None]:") == 1 + nested
    model, example = pn.compile(graph).eval(), torch.randn(2, 5, 4)
    torch.testing.assert_close(torch.jit.script(model)(example), model(example))
