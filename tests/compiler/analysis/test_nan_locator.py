from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import blame
from tests.compiler import graphs
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import convnet


def chain(*nodes: str, **properties: dict[str, Any]) -> pn.NodeGraph:
    graph = pn.NodeGraph("chain")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Output", "y")
    for node in nodes:
        graph.add(node, f"{node}_node", **properties.get(node, {}))
    return wire(graph, f"x {' '.join(f'{node}_node' for node in nodes)} y")


def caught(model: nn.Module, x: torch.Tensor, *, backward: bool = False) -> pn.ExecutionError:
    with pytest.raises(pn.ExecutionError) as error:
        _step(model, x, backward=backward)
    return error.value


def _step(model: nn.Module, x: torch.Tensor, *, backward: bool) -> None:
    with pn.detect_anomaly(model):
        out = model(x)
        if backward:
            out.sum().backward()


X = torch.tensor([[1.0, -2.0, 3.0, 0.0]])


def test_the_first_node_that_makes_a_nan_is_named() -> None:
    error = caught(pn.compile(chain("neg", "sqrt", "exp")), X)
    assert str(error) == (
        "Node 'sqrt_node' made 2 NaN of 4 values in the forward pass, in a result [1, 4] float32.\n"
        "Its inputs:\n  x: [1, 4] float32, from -3 to 2"
    )
    assert blame(error) == "sqrt_node"
    assert error.diagnostics[0].code == "not-finite"
    assert not hasattr(error, "__notes__"), "the node that Python was about to run is not blamed as well"


def test_infinities_are_found_too() -> None:
    error = caught(pn.compile(chain("abs", "log")), X)
    assert str(error).startswith("Node 'log_node' made 1 infinite of 4 values")


@pytest.mark.parametrize(
    ("group", "path"), [(["sqrt_node"], "block.sqrt_node"), (["neg_node", "sqrt_node"], "block.sqrt_node")]
)
def test_a_node_inside_a_nested_graph_has_its_whole_path(group: list[str], path: str) -> None:
    graph = chain("neg", "sqrt", "exp")
    graph.group(group, "block")
    graph.group(["block"], "outer")
    assert blame(caught(pn.compile(graph), X)) == f"outer.{path}"


def test_weights_that_are_to_blame_are_named() -> None:
    model = pn.compile(graphs.mlp())
    with torch.no_grad():
        model.get_parameter("fc1.weight")[0, 0] = float("nan")
    error = caught(model, torch.zeros(2, 8))
    assert str(error).startswith("Node 'fc1' made 2 NaN of 32 values")
    assert str(error).endswith("Its weight holds 1 NaN of 128 values.")


def test_arguments_are_looked_at_first() -> None:
    error = caught(pn.compile(graphs.mlp()), torch.full((1, 8), float("inf")))
    assert str(error) == "The argument 'x' holds 8 infinite of 8 values before any node has run."


def test_the_backward_pass_is_watched() -> None:
    model = pn.compile(chain("relu", "sqrt", "neg"))
    x = X.clone().requires_grad_()
    error = caught(model, x, backward=True)
    assert str(error) == (
        "Node 'sqrt_node' made 2 infinite of 4 values in the backward pass, in a gradient.\n"
        "Its inputs:\n  x: [1, 4] float32, from 0 to 3"
    )


def test_a_loss_that_makes_it_is_told_apart_from_the_model() -> None:
    model = pn.compile(graphs.mlp())
    with pytest.raises(pn.ExecutionError, match=r"The gradient that reaches node 'fc2' already holds .* NaN .* by the loss"), \
            pn.detect_anomaly(model):  # fmt: skip
        (model(torch.ones(2, 8)).sum() * 0).sqrt().backward()


def masked(fill: float, *, softmax: bool) -> pn.NodeGraph:
    graph = chain("neg", *(["softmax"] if softmax else []), softmax={"dim": -1})
    graph.add("Buffer", "mask", shape=(4,), dtype="bool", values=(True, not softmax, not softmax, not softmax))
    graph.add("masked_fill", "fill", value=fill)
    graph.disconnect("neg_node", "softmax_node" if softmax else "y")
    return wire(graph, "neg_node fill.input", "mask fill.mask", f"fill {'softmax_node' if softmax else 'y'}")


def test_an_infinity_that_was_asked_for_is_meant() -> None:
    with pn.detect_anomaly(model := pn.compile(masked(float("-inf"), softmax=True))):
        model(X)
    graph = chain("neg", "add")
    graph.add("Buffer", "bias", shape=(4,), values=(float("-inf"), 0.0, 0.0, 0.0))
    graph.connect("bias", "add_node.other")
    with pn.detect_anomaly(model := pn.compile(graph)):
        model(X)


def test_a_nan_made_of_meant_infinities_is_found() -> None:
    graph = masked(float("-inf"), softmax=True)
    graph.set("mask", values=(True, True, True, True))
    assert blame(caught(pn.compile(graph), X)) == "softmax_node"


def test_in_place_functions_are_seen() -> None:
    assert blame(caught(pn.compile(chain("neg", "sqrt_", "exp")), X)) == "sqrt__node"
    assert "x: [1, 4] float32, changed in place" in str(caught(pn.compile(chain("neg", "sqrt_", "exp")), X))


def test_checkpointed_nodes_are_watched() -> None:
    graph = chain("relu", "sqrt", "neg")
    graph.group(["sqrt_node"], "block")
    graph.set("block", checkpoint=True)
    error = caught(pn.compile(graph), X.clone().requires_grad_(), backward=True)
    assert blame(error) == "block.sqrt_node"


def test_a_healthy_model_runs_as_ever() -> None:
    model = pn.compile(convnet(2, dropout=0.2))
    x = torch.randn(3, 3, 8, 8)
    results = []
    for watched in (False, True):
        torch.manual_seed(0)
        model.zero_grad()
        twin = pn.compile(convnet(2, dropout=0.2), reuse=model)
        if watched:
            with pn.detect_anomaly(twin):
                twin(x).sum().backward()
        else:
            twin(x).sum().backward()
        results.append([p.grad for p in twin.parameters()])
    assert all(a is not None and b is not None and torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_nothing_is_left_behind() -> None:
    before = sys.gettrace()
    model = pn.compile(chain("neg", "sqrt"))
    caught(model, X)
    assert sys.gettrace() is before
    assert model(X).isnan().any(), "outside of the block it runs as ever"
    out = pn.compile(chain("relu", "sqrt"))
    with pn.detect_anomaly(out):
        result = out(X.clone().requires_grad_())
    result.sum().backward()  # made inside, used outside: no longer watched


def test_a_model_inside_another_is_watched_and_its_neighbours_are_not() -> None:
    model, other = pn.compile(chain("neg", "sqrt")), pn.compile(chain("neg", "sqrt"))
    with pn.detect_anomaly(other):
        model(X)
    with pytest.raises(pn.ExecutionError, match="Node 'sqrt_node' made"), pn.detect_anomaly(model):
        nn.Sequential(nn.Identity(), model)(X)


def test_integers_and_empty_tensors_are_fine() -> None:
    with pn.detect_anomaly(model := pn.compile(graphs.recurrent())):
        model(torch.zeros(1, 3, dtype=torch.int64))
    with pn.detect_anomaly(model := pn.compile(graphs.mlp())):
        model(torch.zeros(0, 8))


class Plain(nn.Module):
    """Makes what it is told to in a submodule."""

    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first = nn.Identity()
        self.inner = nn.Sequential(nn.Identity(), Calls(make))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.inner(self.first(x))
        return made


class Calls(nn.Module):
    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.make(x)


def test_modules_of_any_kind_are_watched() -> None:
    error = caught(Plain(lambda x: x.sqrt().exp()), X)
    assert str(error).startswith("Submodule 'inner.1' made 1 NaN of 4 values in the forward pass, in sqrt.\nAt ")
    assert "[1, 4] float32, from -2 to 3, 1 of them 0" in str(error)
    assert blame(error) == "inner.1"
    root = caught(Plain(lambda x: x.relu().sqrt()), X.clone().requires_grad_(), backward=True)
    assert str(root).startswith("Submodule 'inner.1' made 2 infinite of 4 values in the backward pass, in sqrt.")
    infinite = caught(Plain(lambda x: (x * 1000).exp() + 1), X)
    assert str(infinite).startswith("Submodule 'inner.1' made 2 infinite of 4 values in the forward pass, in exp.")
    with pytest.raises(pn.ExecutionError, match="The loss, or code outside of the model, made 1 NaN"), \
            pn.detect_anomaly(model := nn.Identity()):  # fmt: skip
        (model(X).sum() - 10).log()


def test_what_the_loss_makes_in_the_backward_pass_is_not_the_models() -> None:
    model = nn.Linear(4, 2)
    expected = "The loss, or code outside of the model, made 1 infinite of 1 values in the backward pass, in sqrt"
    with pytest.raises(pn.ExecutionError, match=expected), pn.detect_anomaly(model):
        (model(torch.ones(3, 4)) * 0).square().sum().sqrt().backward()


def test_weights_of_any_module_are_named() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with torch.no_grad():
        model[1].get_parameter("bias")[0] = float("nan")
    error = caught(model, X)
    assert str(error) == "'1.bias' holds 1 NaN of 2 values before submodule '1' has run."


def test_an_infinity_that_is_absorbed_does_no_harm() -> None:
    hidden = torch.tensor([True, False, False, True])
    caught_none = Plain(lambda x: x.masked_fill(hidden, float("-inf")).softmax(-1))
    scores = torch.tensor([float("-inf"), 0.0, 0.0, 0.0])
    added = Plain(lambda x: (x + scores).softmax(-1))
    logs = Plain(lambda x: x.relu().log().softmax(-1))
    for model in (caught_none, added, logs, pn.compile(chain("relu", "log", "softmax", softmax={"dim": -1}))):
        with pn.detect_anomaly(model):
            model(X)
    error = caught(Plain(lambda x: x.masked_fill(hidden | True, float("-inf")).softmax(-1)), X)
    assert "made 4 NaN of 4 values in the forward pass, in softmax." in str(error)
    drawn = caught(pn.compile(chain("relu", "reciprocal", "softmax", softmax={"dim": -1})), X)
    assert str(drawn).startswith("Node 'reciprocal_node' made 2 infinite of 4 values")


def test_what_torch_compile_hides_is_refused() -> None:
    model = pn.TorchCompiler(backend="eager").compile(graphs.mlp())
    with pytest.raises(pn.CompileError, match=r"torch.compile hides the nodes of this model"), pn.detect_anomaly(model):
        pass


def test_other_threads_are_watched_while_they_run_the_model() -> None:
    model, other = pn.compile(chain("relu", "sqrt", "neg")), pn.compile(chain("neg", "sqrt"))
    with pn.detect_anomaly(model), ThreadPoolExecutor(1) as pool:
        error = pool.submit(lambda: model(X.clone().requires_grad_()).sum().backward()).exception()
        traced = pool.submit(lambda: (other(X), sys.gettrace())[1]).result()
    assert isinstance(error, pn.ExecutionError)
    assert "Node 'sqrt_node' made 2 infinite of 4 values in the backward pass" in str(error)
    assert traced is None, "between the calls of the model its thread runs as ever"


def test_a_training_that_was_started_inside_stops_at_the_node() -> None:
    graph = chain("Linear", "sqrt", Linear={"in_features": 4, "out_features": 3})
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    engine = pn.TrainingEngine(graph, (x, torch.zeros(32, dtype=torch.int64)), epochs=1, batch_size=8)
    with pn.detect_anomaly(engine.model):
        engine.start()
        with pytest.raises(pn.ExecutionError, match="Node 'sqrt_node' made") as caught:
            engine.wait(timeout=60)
    assert blame(caught.value) == "sqrt_node"
    assert engine.state == "failed"
    assert "stepping" not in repr(sys.gettrace())


def test_two_threads_may_run_the_model_at_once() -> None:
    model = pn.compile(chain("relu", "exp"))
    with pn.detect_anomaly(model), ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(lambda: model(X.clone().requires_grad_()).sum().backward()) for _ in range(16)]:
            done.result()


def test_a_block_inside_a_block_ends_for_itself() -> None:
    model = pn.compile(chain("neg", "sqrt"))
    with pn.detect_anomaly(model):
        with pn.detect_anomaly(model):
            pass
        with pytest.raises(pn.ExecutionError, match="sqrt_node"):
            model(X)
    assert model(X).isnan().any()


def test_a_gradient_that_cannot_be_computed_is_told_at_its_node() -> None:
    model = pn.compile(chain("exp", "mul_", mul_={"other": 2.0}))
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught, pn.detect_anomaly(model):
        model(x).sum().backward()
    assert caught.value.__notes__ == ["In the backward pass of node 'exp_node'. Changed in place: by mul__node."]
    with pytest.raises(RuntimeError, match="in the middle") as other, pn.detect_anomaly(model):
        raise RuntimeError("in the middle")
    assert not hasattr(other.value, "__notes__")
