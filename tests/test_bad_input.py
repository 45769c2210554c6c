"""What a person gets wrong, from the document to the training: said at the node and raised, and nothing else happens.

Texts of single errors are tested where they are made. Here each mistake goes the whole way, and files are damaged in
every way that still is JSON: whatever can be opened can be looked at, drawn and compiled, or refused in our words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

import pnne_nb as pn


def picture_graph() -> pn.NodeGraph:
    """A classifier of pictures ``[N, 1, 6, 6]`` with a block, a frame and a constant."""
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 1, 6, 6), dtype="float32")
    graph.add("Conv2d", name="conv", in_channels=1, out_channels=4, kernel_size=3)
    graph.add("ReLU", name="relu")
    graph.add("Flatten", name="flat")
    graph.add("Linear", name="fc", in_features=64, out_features=3)
    graph.add("Constant", name="scale", value=2.0)
    graph.add("mul", name="scaled")
    graph.add("Output", name="y")
    for source, target in [
        ("x", "conv"), ("conv", "relu"), ("relu", "flat"), ("flat", "fc"), ("fc", "scaled.input"),
        ("scale", "scaled.other"), ("scaled", "y"),
    ]:  # fmt: skip
        graph.connect(source, target)
    graph.group(["conv", "relu"], name="block")
    graph.frames.add("Features", around=["block"])
    return graph


def pictures(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(8, *shape), torch.arange(8) % 3


# Mistakes in a drawing


def loop(graph: pn.NodeGraph) -> None:
    graph.disconnect("x", "block")
    graph.connect("flat", "block")


REFUSED: dict[str, tuple[Callable[[pn.NodeGraph], object], type[pn.GraphError], str]] = {
    "a wrong value": (
        lambda graph: graph.set("block.conv", kernel_size=0),
        pn.BadValueError,
        "conv.kernel_size in definition 'block' cannot be 0: it must be a whole number ≥ 1",
    ),
    "a value of another kind": (
        lambda graph: graph.set("fc", out_features="many"),
        pn.BadValueError,
        "fc.out_features cannot be 'many'",
    ),
    "more layers than anybody builds": (
        lambda graph: graph.add("LSTM", num_layers=10**6),
        pn.BadValueError,
        "num_layers cannot be 1000000: it must be a whole number from 1 to 256",
    ),
    "a cycle": (loop, pn.CycleError, "would close a loop: flat already depends on block"),
    "a second edge into a port": (
        lambda graph: graph.connect("flat.output", "scaled.other"),
        pn.PortTakenError,
        "scaled.other .*scale",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_mistake_is_refused_and_leaves_no_trace(what: str) -> None:
    mistake, kind, message = REFUSED[what]
    graph = picture_graph()
    before, version = graph.to_json(), graph.version
    with pytest.raises(kind, match=message), graph.transaction():
        mistake(graph)
    assert (graph.to_json(), graph.version) == (before, version)
    assert pn.compile(graph)(torch.randn(2, 1, 6, 6)).shape == (2, 3)


UNFINISHED: dict[str, tuple[Callable[[pn.NodeGraph], object], str | None, str]] = {
    "shapes that do not fit": (
        lambda graph: graph.set("fc", in_features=60),
        "fc",
        r"in_features is 60, and the input \(N, 64\) has 64 there",
    ),
    "no input": (lambda graph: graph.remove("x"), "block", "Input is not connected"),
    "no output": (lambda graph: graph.remove("y"), None, "The graph has no output"),
}


@pytest.mark.parametrize("what", UNFINISHED)
def test_what_cannot_run_yet_is_said_at_its_node(what: str) -> None:
    change, node, message = UNFINISHED[what]
    graph = picture_graph()
    change(graph)
    with pytest.raises(pn.CompileError, match=message) as caught:
        pn.compile(graph)
    assert node in [found.node for found in caught.value.diagnostics]
    editor: Any = pn.GraphEditor(graph)
    assert node in [found.node for found in editor.diagnostics]
    broken = editor.model
    assert broken is None
    graph.undo()
    assert editor.model is not None
    editor.close()


def test_data_that_does_not_fit_the_input_is_refused_before_anything_is_done() -> None:
    graph = picture_graph()
    before = graph.to_json()
    with pytest.raises(
        pn.TrainingError, match=r"Input node 'x': the node expects shape \(N, 1, 6, 6\).*7, 7"
    ) as caught:
        pn.TrainingEngine(graph, pictures(1, 7, 7))
    assert [found.node for found in caught.value.diagnostics] == ["x"]
    engine = pn.TrainingEngine(graph, pictures(1, 6, 6), epochs=1)
    assert engine.start().wait()
    assert graph.to_json() == before


def test_a_training_without_a_loss_says_so() -> None:
    with pytest.raises(pn.TrainingError, match="CrossEntropyLos") as caught:
        pn.TrainingEngine(picture_graph(), pictures(1, 6, 6), loss="CrossEntropyLos")
    assert "Did you mean 'CrossEntropyLoss'" in str(caught.value)
    graph = pn.NodeGraph("training")
    graph.add("Dataset", name="data", source="variable", data="mine")
    graph.add("DataLoader", name="loader")
    graph.connect("data", "loader")
    with pytest.raises(pn.TrainingError, match="loss"):
        pn.TrainingEngine.from_graph(graph, {"mine": pictures(1, 6, 6)})


# Damaged and hostile files


NUMBERS = st.sampled_from((0, -1, 3, 2**31, 2**62, 2**64, 10**300, 0.5, -0.0, 1e308, 1e-308))
WORDS = st.sampled_from(
    ("", "x", "fc", "block", "conv", "Input", "Conv2d", "Subgraph", "Module", "x.output", "fc.input", "auto", "N", "..",
     "__class__", "forward", "os.system", "a" * 300, "\u0000", "\ud83d\ude00", "float32", "$float", "$list", "nan")
)  # fmt: skip
DEEP: Any = 1
for _ in range(40):
    DEEP = [DEEP]
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), NUMBERS, WORDS, st.just(DEEP), st.just({"$float": "nan"}), st.just({"$torch": "os"})
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in JSON data: an object or array, and the key or index."""
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield data, key
        yield from places(data[key])


TEXT = picture_graph().to_json()
COUNT = sum(1 for _ in places(json.loads(TEXT)))


@settings(max_examples=max(100, settings().max_examples))
@given(
    st.lists(st.tuples(st.integers(0, COUNT - 1), values, st.sampled_from(("put", "put", "drop", "twice"))), max_size=3)
)
def test_a_file_damaged_in_its_values_is_refused_or_can_be_used(damage: list[tuple[int, Any, str]]) -> None:
    data = json.loads(TEXT)
    for place, value, how in damage:
        found = list(places(data))
        holder, key = found[place % len(found)]
        if how == "drop":
            del holder[key]
        elif how == "twice" and isinstance(holder, list):
            holder.append(holder[key])
        else:
            holder[key] = value
    try:
        graph = pn.NodeGraph.from_json(json.dumps(data))
    except pn.GraphFileError as error:
        assert "at $" in str(error)
        return
    text = graph.to_json()
    assert pn.NodeGraph.from_json(text) == graph
    assert graph.to_svg().startswith("<svg")
    found_by_lint = graph.diagnostics()
    for use in (pn.infer_shapes, pn.compile, pn.to_source):
        try:
            use(graph)
        except pn.CompileError as error:
            assert error.diagnostics or found_by_lint
    for name in tuple(graph.nodes):
        if name in graph:
            graph.remove(name)
    while graph.undo_label is not None:
        graph.undo()
    assert graph.to_json() == text


def test_a_value_that_its_property_does_not_take_is_not_even_tried() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=("N", 5, 8))
    graph.add("TransformerEncoder", name="encoder", d_model=8, nhead=2, num_layers=2)
    graph.add("Output", name="y")
    graph.connect("x", "encoder")
    graph.connect("encoder", "y")
    hostile = pn.NodeGraph.from_json(graph.to_json().replace('"num_layers": 2', '"num_layers": 100000000'))
    assert list(pn.infer_shapes(hostile)) == ["x.output"]
    with pytest.raises(pn.CompileError, match="encoder: num_layers cannot be 100000000"):
        pn.compile(hostile)


@pytest.mark.parametrize("type", ["Input", "Buffer"])
@pytest.mark.parametrize("value", ["null", '"nn"', '"float31"', "3"])
def test_an_element_type_that_is_none_leaves_the_shape_unknown(type: str, value: str) -> None:
    graph = pn.NodeGraph()
    graph.add(type, name="x", shape=(4, 5), dtype="int64")
    graph.add("ReLU", name="relu")
    graph.connect("x", "relu")
    hostile = pn.NodeGraph.from_json(graph.to_json().replace('"int64"', value))
    assert pn.infer_shapes(hostile) == {}
    with pytest.raises(pn.CompileError, match="x: dtype cannot be"):
        pn.compile(hostile)


def test_example_inputs_that_no_machine_can_hold_are_refused() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=(2**40, 2**20))
    graph.add("ReLU", name="relu")
    graph.add("Output", name="y")
    graph.connect("x", "relu")
    graph.connect("relu", "y")
    with pytest.raises(pn.CompileError, match=r"pass args=\(\.\.\.\)"):
        pn.plan_memory(graph)
