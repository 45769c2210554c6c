from __future__ import annotations

import copy
import pickle  # that models can be pickled is what is tested
import traceback

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import blame
from pnne_nb.compiler.module.call_errors import describe
from pnne_nb.compiler.pipeline import compile
from tests.compiler import graphs


def test_a_failure_names_the_node_and_its_inputs() -> None:
    model = pn.compile(graphs.lenet())
    with pytest.raises(pn.ExecutionError, match=r"Node 'fc' failed: (addmm: )?mat1 and mat2 .*") as caught:
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
    monkeypatch.setattr(compile, "CHECKED_NODES", 0)  # as in a large graph, whose shapes are not looked at
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


def shown(error: BaseException | None) -> list[str]:
    """Return the functions on the traceback of an exception."""
    assert error is not None
    return [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]


def test_the_traceback_shows_the_lines_of_the_model_and_what_torch_was_doing() -> None:
    graph = graphs.nested()
    graph.group(["layer1"], "outer")
    model = pn.compile(graph)
    with pytest.raises(pn.ExecutionError) as caught:
        model(torch.randn(2, 5))
    # Three lines of the model, and that of the layer; then the test's own and the one that raises.
    assert shown(caught.value.__cause__) == ["forward"] * 4
    assert shown(caught.value)[1:] == ["_call"]
    text = "".join(traceback.format_exception(caught.value))
    assert "self.outer(" in text
    assert "self.layer1(" in text
    assert "F.linear(input, self.weight, self.bias)" in text
    assert len(text.splitlines()) < 30


def test_what_is_not_replaced_is_shortened_too() -> None:
    class ElsewhereError(Exception):
        pass

    def leave(*_: object) -> None:
        raise ElsewhereError

    model = pn.compile(graphs.nested())
    model.get_submodule("layer1.0").register_forward_hook(leave)
    with pytest.raises(ElsewhereError) as caught:
        model(torch.randn(2, 6))
    assert shown(caught.value)[1:] == ["forward", "forward", "leave"]
    assert "Node 'layer1.0' failed" in "".join(caught.value.__notes__)


def test_a_call_that_python_refuses_shows_who_made_it() -> None:
    model = pn.compile(graphs.mlp())
    with pytest.raises(TypeError, match=r"forward\(\) missing 1 required positional argument: 'x'") as caught:
        model()
    assert shown(caught.value)[0] == "test_a_call_that_python_refuses_shows_who_made_it"
    assert "_call_impl" not in shown(caught.value)


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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.zeros(2, 3, 28, 28), r"Input 'x' expects x \(N, 1, 28, 28\) float32, and was given \(2, 3, 28, 28\)\."),
        (torch.zeros(28, 28), r"Input 'x' expects x \(N, 1, 28, 28\) float32, and was given \(28, 28\)\."),
        (
            [[1.0]],
            r"Input 'x' expects a tensor, and was given a list: torch.as_tensor makes one of numbers and arrays\.",
        ),
        (None, r"Input 'x' expects a tensor, and was given None\."),
        (
            torch.zeros(2, 1, 28, 28, dtype=torch.int64),
            r"Input 'x' expects float32, and was given int64: convert it with \.to\(torch\.float32\)\.",
        ),
        (
            torch.zeros(2, 1, 28, 28, dtype=torch.float64),
            r"Input 'x' is float64, and the model float32: convert one of them with \.to\(\.\.\.\)\.",
        ),
        (torch.zeros(2, 1, 28, 28, device="meta"), r"Input 'x' is on meta, and the model on cpu: move one of them .*"),
    ],
)
def test_what_the_input_nodes_say_is_told_when_a_call_fails(value: object, said: str) -> None:
    with pytest.raises(pn.ExecutionError, match=rf"(?s)Node '\w+' failed: .*{said}$"):
        pn.compile(graphs.lenet())(value)


def test_calls_with_other_arguments_are_told_what_the_model_takes() -> None:
    model = pn.compile(graphs.lenet())
    x = torch.zeros(1, 1, 28, 28)
    for args, kwargs in (((), {}), ((x, x), {}), ((), {"image": x})):
        with pytest.raises(TypeError) as caught:
            model(*args, **kwargs)
        assert caught.value.__notes__ == ["The model takes x (N, 1, 28, 28) float32."]


def test_one_name_of_a_size_is_one_size() -> None:
    graph = pn.NodeGraph("pair")
    graph.add("Input", "a", shape=("N", 4))
    graph.add("Input", "b", shape=("N", 4))
    graph.add("add", "sum")
    graph.add("Output", "y")
    graphs.wire(graph, "a sum.input", "b sum.other", "sum y")
    with pytest.raises(pn.ExecutionError, match=r"Input 'b' expects b \(N, 4\) float32, and was given \(3, 4\)\."):
        pn.compile(graph)(torch.zeros(2, 4), torch.zeros(3, 4))


def test_documents_with_the_same_text_speak_of_their_own_inputs() -> None:
    models = []
    for size in (28, 32):
        graph = pn.NodeGraph("same")
        graph.add("Input", "x", shape=("N", 1, size, size))
        graph.add("Conv2d", "conv", in_channels=1, out_channels=1, kernel_size=3)
        graph.add("Output", "y")
        models.append(pn.compile(graphs.wire(graph, "x conv y")))
    assert type(models[0]) is type(models[1])
    for model, size in zip(models, (28, 32), strict=True):
        with pytest.raises(pn.ExecutionError, match=rf"expects x \(N, 1, {size}, {size}\)"):
            model(torch.zeros(1, 2, 28, 28))
        assert f"\n  inputs: x (N, 1, {size}, {size}) float32\n" in repr(model), "which sizes are fixed"
    copied = copy.deepcopy(models[0])
    with pytest.raises(pn.ExecutionError, match="Node 'conv' failed"):
        copied(torch.zeros(1, 2, 28, 28))


@pytest.mark.parametrize(
    ("error", "said"),
    [(KeyError("key"), "KeyError: 'key'"), (AssertionError(), "AssertionError"), (ValueError("why"), "why")],
)
def test_a_reason_that_says_little_comes_with_its_kind(error: Exception, said: str) -> None:
    model = pn.compile(graphs.mlp())

    def fail(*_: object) -> None:
        raise error

    model.get_submodule("act").register_forward_hook(fail)
    with pytest.raises(pn.ExecutionError, match=rf"Node 'act' failed: {said}\n"):
        model(torch.zeros(1, 8))


def test_what_torch_compile_refuses_is_named_too() -> None:
    model = pn.compile(graphs.nested())
    model.compile(backend="eager")
    try:
        assert model(torch.zeros(2, 6)).shape == (2, 6)
        with pytest.raises(
            pn.ExecutionError, match=r"Node 'layer1.0' failed[^\n]*\n[^\n]*\n  input: \[2, 5\] float32"
        ) as caught:
            model(torch.zeros(2, 5))
        assert "Input 'x' expects" in str(caught.value)
        assert type(caught.value.__cause__).__module__.startswith("torch._dynamo")
        assert blame(caught.value) == "layer1.0"
        assert len(shown(caught.value.__cause__)) == 1, "how torch compiles is not what has failed"
    finally:
        torch.compiler.reset()


def test_a_module_that_a_person_compiles_has_its_node_found() -> None:
    compiled = torch.compile(pn.compile(graphs.nested()), backend="eager")
    try:
        with pytest.raises(RuntimeError) as caught:
            compiled(torch.zeros(2, 5))
        assert blame(caught.value) == "layer1.0"
    finally:
        torch.compiler.reset()
