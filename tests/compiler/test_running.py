from __future__ import annotations

import pickle  # that models can be pickled is what is tested
import traceback

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import blame, compiling
from pnne_nb.compiler.running import describe
from tests.compiler import graphs


def test_a_failure_names_the_node_and_its_inputs() -> None:
    model = pn.compile(graphs.lenet())
    with pytest.raises(pn.ExecutionError, match=r"Node 'fc' failed: mat1 and mat2 .*") as caught:
        model(torch.randn(2, 1, 32, 32))
    assert "x: [2, 400] float32" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert blame(caught.value) == "fc"
    assert caught.value.diagnostics[0].node == "fc"


def test_a_layer_that_cannot_be_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.nested()
    graph.add("Conv1d", "layer1.conv", in_channels=3, out_channels=4, kernel_size=1, groups=2)
    graph.disconnect("layer1.0", "layer1.1")
    graph.connect("layer1.0.output", "layer1.conv.input")
    graph.connect("layer1.conv.output", "layer1.1.input")
    with pytest.raises(pn.ShapeError, match=r"layer1.conv: Conv1d cannot be built with these properties: in_channels"):
        pn.compile(graph)
    monkeypatch.setattr(compiling, "CHECKED_NODES", 0)  # as in a large graph, whose shapes are not looked at
    with pytest.raises(
        pn.CompileError, match=r"layer1.conv: The layer cannot be built: in_channels must be divisible by"
    ):
        pn.compile(graph)


def test_a_failure_in_a_nested_graph_names_the_whole_path() -> None:
    model = pn.compile(graphs.nested())
    with pytest.raises(pn.ExecutionError, match=r"Node 'layer1.0' failed"):
        model(torch.randn(2, 5))


def test_the_traceback_shows_the_generated_line() -> None:
    model = pn.compile(graphs.mlp())
    with pytest.raises(pn.ExecutionError) as caught:
        model(torch.randn(2, 5))
    assert "x = self.fc1(x)" in "".join(traceback.format_exception(caught.value))


def test_a_failure_is_found_behind_other_exceptions() -> None:
    model = pn.compile(graphs.mlp())
    with pytest.raises(ValueError, match="training stopped") as caught:
        _stop(model)
    assert blame(caught.value) == "fc1"


def _stop(model: nn.Module) -> None:
    try:
        model(torch.randn(2, 5))
    except pn.ExecutionError as error:
        raise ValueError("training stopped") from error


def test_what_is_no_failure_of_a_node_is_left_alone() -> None:
    model = pn.compile(graphs.mlp())
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        model()
    assert blame(ValueError("elsewhere")) is None


class Stop(Exception):  # a signal, not an error
    pass


def test_exceptions_that_mean_something_keep_their_type_and_get_a_note() -> None:
    model = pn.compile(graphs.mlp())

    def leave(*_: object) -> None:
        raise Stop

    model.get_submodule("act").register_forward_hook(leave)
    with pytest.raises(Stop) as caught:
        model(torch.randn(2, 8))
    assert caught.value.__notes__ == ["Node 'act' failed. Its inputs:\n  x: [2, 16] float32"]
    assert blame(caught.value) == "act"


def test_running_out_of_memory_stays_what_it_is() -> None:
    model = pn.compile(graphs.mlp())

    def exhaust(*_: object) -> None:
        raise torch.OutOfMemoryError("no memory")

    model.get_submodule("fc2").register_forward_pre_hook(exhaust)
    with pytest.raises(torch.OutOfMemoryError, match="Node 'fc2' failed"):
        model(torch.randn(2, 8))


def test_an_error_survives_pickling() -> None:
    model = pn.compile(graphs.mlp())
    with pytest.raises(pn.ExecutionError) as caught:
        model(torch.randn(2, 5))
    again = pickle.loads(pickle.dumps(caught.value))  # what is tested
    assert str(again) == str(caught.value)
    assert blame(again) == "fc1"


def test_a_model_inside_another_module_still_names_its_nodes() -> None:
    outer = nn.Sequential(nn.Identity(), pn.compile(graphs.mlp()))
    with pytest.raises(pn.ExecutionError, match="Node 'fc1' failed"):
        outer(torch.randn(2, 5))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.zeros(2, 3), "[2, 3] float32"),
        (torch.zeros((), dtype=torch.int64), "[] int64"),
        ((torch.zeros(1), None), "([1] float32, None)"),
        (3, "3"),
        ("text", "str"),
    ],
)
def test_values_in_words(value: object, expected: str) -> None:
    assert describe(value) == expected
