"""`NodeGraph`: the contract of the document, and what each refusal says."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable

import pytest

from pnne_nb.errors import (
    BadValueError,
    CycleError,
    GraphError,
    IllegalNameError,
    KindMismatchError,
    NameTakenError,
    PortTakenError,
    StaleVersionError,
    UnknownNodeError,
    UnknownPortError,
    UnknownPropertyError,
    UnknownTypeError,
)
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Transaction
from pnne_nb.graph.model.ops import AddGraph, AddNode, Connect, MoveNode, RenameNode, SetProperty
from pnne_nb.graph.model.origin import Origin
from tests.graph.types import TYPES


@pytest.fixture
def graph() -> NodeGraph:
    """x → conv1 → relu1 → y"""
    graph = NodeGraph("net", types=TYPES)
    x = graph.add("Input", name="x", shape=("N", 1, 28, 28))
    conv = graph.add("Conv2d", name="conv1", in_channels=1, out_channels=6, kernel_size=5)
    relu = graph.add("ReLU", name="relu1")
    y = graph.add("Output", name="y")
    graph.connect(x, conv)
    graph.connect(conv, relu)
    graph.connect(relu, y)
    return graph


def test_a_graph_reads_as_it_was_drawn(graph: NodeGraph) -> None:
    assert repr(graph) == 'NodeGraph "net": 4 nodes, 3 edges'
    assert list(graph.nodes) == list(graph) == ["x", "conv1", "relu1", "y"]
    assert graph.edges == (("x.output", "conv1.input"), ("conv1.output", "relu1.input"), ("relu1.output", "y.input"))
    node = graph["conv1"]
    assert (node.name, node.type, node.path) == ("conv1", "Conv2d", "conv1")
    assert dict(node.properties) == {"in_channels": 1, "out_channels": 6, "kernel_size": 5}
    assert graph.version == 7
    assert graph.diagnostics() == []
    assert "conv1" in graph
    assert "conv2" not in graph


def test_properties_of_a_snapshot_cannot_be_written(graph: NodeGraph) -> None:
    node = graph["conv1"]
    with pytest.raises(TypeError, match="does not support item assignment"):
        node.properties["stride"] = 2  # type: ignore[index]  # that is the point
    graph.set("conv1", stride=2)
    assert "stride" not in node.properties
    assert graph["conv1"].properties["stride"] == 2


def test_nodes_are_numbered_by_type() -> None:
    graph = NodeGraph(types=TYPES)
    names = [graph.add(type).name for type in ("Conv2d", "Conv2d", "MaxPool2d", "ReLU", "add", "Input")]
    assert names == ["conv2d1", "conv2d2", "max_pool2d1", "relu1", "add1", "input1"]
    graph.remove("conv2d1")
    graph.add("ReLU", name="conv2d3")
    assert graph.add("Conv2d").name == "conv2d4"


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda g: g.add("Conv2D"), UnknownTypeError, r"There is no node type 'Conv2D'. Did you mean 'Conv2d'\?"),
        (
            lambda g: g.add("Conv2d", kernal_size=3),
            UnknownPropertyError,
            r"conv2d1 \(Conv2d\) has no property 'kernal_size'. Did you mean 'kernel_size'\? It has in_channels, ",
        ),
        (
            lambda g: g.set("conv1", kernel_size="3"),
            BadValueError,
            "conv1.kernel_size cannot be '3': it must be a whole number ≥ 1, or a tuple of 2 values",
        ),
        (lambda g: g.set("conv1", bias=1), BadValueError, "conv1.bias cannot be 1: it must be True or False."),
        (lambda g: g.add("ReLU", name="relu1"), NameTakenError, "There is a node 'relu1' already"),
        (lambda g: g.add("ReLU", name="forward"), IllegalNameError, "'forward': the name means something in Python or"),
        (lambda g: g.add("ReLU", name=5), IllegalNameError, "5 is not a legal name: use letters"),
        (lambda g: g.add("ReLU", name="a-b"), IllegalNameError, "'a-b' is not a legal name: use letters"),
        (lambda g: g.add("ReLU", name="x" * 101), IllegalNameError, "is longer than 100 characters"),
        (lambda g: g.add("ReLU", name="conv1.b"), UnknownNodeError, "There is nothing inside 'conv1': it is a Conv2d"),
        (lambda g: g.set("conv2", bias=True), UnknownNodeError, r"There is no node 'conv2'. Did you mean 'conv1'\?"),
        (lambda g: g.reset("conv1", "stribe"), UnknownPropertyError, r"Did you mean 'stride'\?"),
        (lambda g: g.connect("x", "relu1"), PortTakenError, "relu1.input by conv1.output. Disconnect one first"),
        (lambda g: g.connect("x.output", "relu1.input"), PortTakenError, "relu1.input is fed by conv1.output already"),
        (
            lambda g: g.connect("x.output", "conv1.input"),
            PortTakenError,
            "x.output and conv1.input are connected already",
        ),
        (lambda g: g.connect("relu1", "conv1"), CycleError, "would close a loop: relu1 already depends on conv1"),
        (lambda g: g.connect("relu1", "relu1"), CycleError, "relu1 is the same node"),
        (lambda g: g.connect("relu1.out", "y.input"), UnknownPortError, r"relu1 \(ReLU\) has no output 'out'."),
        (
            lambda g: g.connect("x.output", "relu1.inputs"),
            UnknownPortError,
            r"has no input 'inputs'. Did you mean 'input'\?",
        ),
        (lambda g: g.connect("y", "relu1"), UnknownPortError, r"y \(Output\) has no outputs"),
        (lambda g: g.connect("relu1", "x"), UnknownPortError, r"x \(Input\) has no inputs"),
        (lambda g: g.connect(3, "x"), GraphError, "3 is not a node"),
        (lambda g: g.disconnect("x", "relu1"), UnknownPortError, "There is no edge from x to relu1"),
        (lambda g: g.rename("conv1", "relu1"), NameTakenError, "There is a node 'relu1' already"),
        (lambda g: g.rename("conv1", "self"), IllegalNameError, "cannot be named 'self'"),
        (lambda g: g.move("conv1", x=float("nan")), BadValueError, "a position is a pair of finite numbers"),
        (lambda g: g.remove("conv1", "gone"), UnknownNodeError, "There is no node 'gone'"),
        (lambda g: g.redo(), GraphError, "There is nothing to redo"),
        (
            lambda g: g.apply([], base=99),
            StaleVersionError,
            "based on version 99, and this document is only at version 7",
        ),
        (lambda g: g.ungroup("conv1"), GraphError, "conv1 is a Conv2d, not a nested graph"),
        (lambda g: g.group([]), GraphError, "Give at least one node to group"),
        (lambda g: g.group(["x", "conv1"]), GraphError, "x is an Input of its graph"),
        (lambda g: g.group(["conv1", "y"]), GraphError, "y is an Output of its graph"),
        (lambda g: g.arrange("gone"), GraphError, "There is no definition 'gone'"),
        (lambda g: g["conv1.weight"], UnknownNodeError, "There is nothing inside 'conv1'"),
        (lambda g: g.add("Subgraph", definition="gone"), BadValueError, "there is no such definition"),
        (lambda g: g.add("Constant", value={1, 2}), BadValueError, "it must be a constant"),
        (lambda g: g.add("ReLU", shares="relu9"), BadValueError, r"no such node. Did you mean 'relu1'\?"),
        (lambda g: g.add("ReLU", shares="conv1"), BadValueError, "that is a Conv2d, and only another ReLU"),
        (lambda g: g.set("relu1", shares="relu1"), BadValueError, "a node cannot share its own module"),
    ],
)
def test_a_refused_change_leaves_no_trace(
    graph: NodeGraph, action: Callable[[NodeGraph], object], error: type[GraphError], message: str
) -> None:
    before = graph.to_json(), graph.version, graph.undo_label, graph.redo_label
    told: list[Transaction] = []
    graph.observe(told.append)
    with pytest.raises(error, match=message):
        action(graph)
    assert (graph.to_json(), graph.version, graph.undo_label, graph.redo_label) == before
    assert told == []


def test_kinds_must_fit() -> None:
    graph = NodeGraph(types=TYPES)
    graph.add("Digits", name="data")
    graph.add("Loader", name="loader")
    graph.add("ReLU", name="relu1")
    with pytest.raises(KindMismatchError, match=r"data.output gives a dataset and relu1.input takes a tensor"):
        graph.connect("data", "relu1")
    assert graph.connect("data", "loader") == ("data.output", "loader.dataset")


def test_sharing_a_sharer_names_the_owner() -> None:
    graph = NodeGraph(types=TYPES)
    graph.add("Linear", name="embed_out")
    graph.add("Linear", name="tied", shares="embed_out")
    with pytest.raises(BadValueError, match="that shares a module itself; name 'embed_out' instead"):
        graph.add("Linear", name="third", shares="tied")
    graph.add("Linear", name="other")
    with pytest.raises(BadValueError, match="embed_out's own module is shared by 'tied'"):
        graph.set("embed_out", shares="other")
    graph.rename("embed_out", "owner")
    assert graph["tied"].shares == "owner"


def test_bare_nodes_stand_for_the_first_free_ports_that_fit() -> None:
    graph = NodeGraph(types=TYPES)
    for type, name in (("Input", "x"), ("add", "sum"), ("cat", "all"), ("MaxPool2d", "pool")):
        graph.add(type, name=name)
    assert graph.connect("x", "sum") == ("x.output", "sum.input")
    assert graph.connect("x", "sum") == ("x.output", "sum.other")
    assert [graph.connect("x", "all").target for _ in range(2)] == ["all.tensors_0", "all.tensors_1"]
    assert graph.connect("x.output", "all.tensors_3").target == "all.tensors_3"
    assert graph.connect("x.output", "all.tensors").target == "all.tensors_2"
    graph.disconnect("x.output", "all.tensors_0")
    assert list(graph.graphs[""].sources("all")) == ["tensors_1", "tensors_2", "tensors_3"]
    assert graph.connect("sum", "all").target == "all.tensors_0"
    graph.disconnect("x", "all")
    assert graph.graphs[""].sources("all") == {"tensors_0": "sum.output"}
    with pytest.raises(UnknownPortError, match="has no output 'indices'"):
        graph.connect("pool.indices", "all")
    graph.set("pool", return_indices=True)
    assert graph.connect("pool.indices", "all").target == "all.tensors_1"


def test_any_call_argument_can_be_wired() -> None:
    graph = NodeGraph(types=TYPES)
    for type, name in (("Input", "x"), ("pow", "power")):
        graph.add(type, name=name)
    graph.connect("x", "power")
    assert [finding.code for finding in graph.diagnostics() if finding.node == "power"] == ["missing-property"]
    graph.connect("x.output", "power.exponent")
    assert [finding for finding in graph.diagnostics() if finding.node == "power"] == []


def test_undo_and_redo_are_changes_with_labels(graph: NodeGraph) -> None:
    text = graph.to_json()
    graph.set("conv1", stride=2, bias=False)
    assert graph.undo_label == "Set 2 properties"
    changed = graph.to_json()
    assert graph.undo().label == "Undo: Set 2 properties"
    assert (graph.to_json(), graph.version, graph.redo_label) == (text, 9, "Set 2 properties")
    assert graph.redo().label == "Redo: Set 2 properties"
    assert (graph.to_json(), graph.version, graph.redo_label) == (changed, 10, None)


@pytest.mark.parametrize(
    ("action", "label"),
    [
        (lambda g: g.disconnect("conv1", "relu1"), "Disconnect conv1 → relu1"),
        (lambda g: g.add("ReLU"), "Add relu2"),
        (lambda g: g.remove("conv1"), "Remove conv1"),
        (lambda g: g.remove("conv1", "relu1"), "Remove 2 nodes"),
        (lambda g: g.rename("conv1", "stem"), "Rename conv1 to stem"),
        (lambda g: g.set("conv1", stride=2), "Set conv1.stride to 2"),
        (lambda g: g.reset("conv1", "kernel_size"), "Reset conv1.kernel_size"),
        (lambda g: g.move("conv1", 1, 2), "Move conv1"),
        (lambda g: g.arrange(), "Arrange"),
        (lambda g: g.group(["conv1", "relu1"], "block"), "Group block"),
        (lambda g: setattr(g, "name", "other"), "Name the graph other"),
        (lambda g: g.apply([MoveNode("x", (0, 0)), MoveNode("y", (1, 1))]), "Move 2 nodes"),
        (lambda g: g.apply([AddGraph("inner"), AddNode("a", "ReLU", graph="inner")]), "Add a"),
        (lambda g: g.apply([RenameNode("x", "z"), MoveNode("z", (0, 0))]), "Rename x to z and 1 more"),
        (lambda g: g.apply([MoveNode("x", (0, 0))], label="Nudge"), "Nudge"),
    ],
)
def test_every_change_has_a_label_and_is_one_step(
    graph: NodeGraph, action: Callable[[NodeGraph], object], label: str
) -> None:
    before = graph.to_json()
    action(graph)
    assert graph.undo_label == label
    graph.undo()
    assert graph.to_json() == before


def test_connect_is_labelled_by_its_ends(graph: NodeGraph) -> None:
    assert graph.undo_label == "Connect relu1 → y"


def test_connect_returns_the_edge_also_where_it_ends_a_proof(graph: NodeGraph) -> None:
    graph.apply([AddNode("imported", "ReLU", origin=Origin("equal"))])
    assert graph.connect("x", "imported") == ("x.output", "imported.input")
    assert graph["imported"].origin == Origin("edited")


def test_a_transaction_is_one_step_or_nothing(graph: NodeGraph) -> None:
    before, version = graph.to_json(), graph.version
    told: list[Transaction] = []
    graph.observe(told.append)
    with graph.transaction("Deepen") as same:
        assert same is graph
        inside = graph.in_transaction
        graph.add("ReLU", name="relu2")
        with pytest.raises(NameTakenError, match="relu2"):
            graph.add("ReLU", name="relu2")
        graph.rename("relu2", "relu3")
        assert told == []
        with pytest.raises(GraphError, match="undo is not possible inside a transaction"):
            graph.undo()
        with pytest.raises(GraphError, match="redo is not possible inside a transaction"):
            graph.redo()
    assert (inside, graph.in_transaction) == (True, False)
    assert (graph.version, graph.undo_label, len(told)) == (version + 1, "Deepen", 1)
    graph.undo()
    assert graph.to_json() == before
    with pytest.raises(RuntimeError, match="stop"), graph.transaction():  # noqa: PT012  # what raises is the block
        graph.remove("conv1")
        raise RuntimeError("stop")
    assert (graph.to_json(), graph.version) == (before, version + 2)
    with graph.transaction():
        pass
    assert graph.version == version + 2


def test_a_transaction_inside_another_takes_back_its_own_changes_only(graph: NodeGraph) -> None:
    with graph.transaction("outer"):
        graph.add("ReLU", name="kept")
        with pytest.raises(RuntimeError, match="inner"), graph.transaction():  # noqa: PT012  # what raises is the block
            graph.add("ReLU", name="dropped")
            raise RuntimeError("inner")
        with graph.transaction():
            graph.add("ReLU", name="kept2")
    assert "kept" in graph
    assert "kept2" in graph
    assert "dropped" not in graph
    assert graph.undo_label == "outer"


def test_observers_are_told_in_order_even_when_they_edit(graph: NodeGraph) -> None:
    first: list[int] = []
    second: list[int] = []

    def follow(done: Transaction) -> None:
        first.append(done.version)
        if "follower" not in graph:
            graph.add("ReLU", name="follower")

    graph.observe(follow)
    unsubscribe = graph.observe(lambda done: second.append(done.version))
    graph.rename("conv1", "stem")
    assert first == second == [8, 9]
    unsubscribe()
    unsubscribe()
    graph.rename("stem", "conv1")
    assert (len(first), len(second)) == (3, 2)


def _fail(done: Transaction) -> None:
    raise RuntimeError(f"version {done.version}")


def test_an_observer_that_fails_undoes_nothing(graph: NodeGraph, caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []
    graph.observe(_fail)
    graph.observe(lambda done: told.append(done.version))
    graph.rename("conv1", "stem")
    assert "stem" in graph
    assert told == [8]
    assert "An observer of NodeGraph" in caplog.text


def test_a_request_is_handed_on_to_observers(graph: NodeGraph) -> None:
    told: list[Transaction] = []
    graph.observe(told.append)
    with graph.asked_by("view", 3):
        graph.apply([SetProperty("conv1", "stride", 2)], base=2)
    with graph.asked_by("view", 4):
        graph.undo()
    with pytest.raises(NameTakenError), graph.asked_by("view", 5):
        graph.add("ReLU", name="relu1")
    graph.redo()
    assert [(done.client, done.request, done.undo, done.redo) for done in told[:2]] == [
        ("view", 3, "Set conv1.stride to 2", None),
        ("view", 4, "Connect relu1 → y", "Set conv1.stride to 2"),
    ]
    assert [(done.client, done.request) for done in told[2:]] == [(None, None)]


def test_group_and_ungroup_are_inverse(graph: NodeGraph) -> None:
    graph.arrange()
    before = graph.to_json()
    block = graph.group(["relu1", "conv1"], name="block")
    assert (block.type, block.definition, block.path) == ("Subgraph", "block", "block")
    assert list(graph.nodes) == ["x", "block", "y"]
    assert graph.edges == (("x.output", "block.input"), ("block.output", "y.input"))
    assert graph["block.conv1"].properties["kernel_size"] == 5
    assert graph["block.conv1"].path == "block.conv1"
    assert graph.diagnostics() == []
    grouped = graph.to_json()
    assert [node.path for node in graph.ungroup(block)] == ["conv1", "relu1"]
    assert graph.to_json() == before
    graph.undo()
    assert graph.to_json() == grouped
    graph.undo()
    assert graph.to_json() == before


def test_a_group_with_a_path_round_it_is_refused(graph: NodeGraph) -> None:
    graph.disconnect("relu1", "y")
    graph.add("add", name="sum")
    graph.connect("relu1", "sum")
    graph.connect("conv1", "sum")
    with pytest.raises(CycleError, match="A path leaves the group and comes back through 'relu1': group that too"):
        graph.group(["conv1", "sum"])
    assert graph.group(["conv1", "sum", "relu1"]).name == "subgraph1"


def test_several_inputs_and_outputs_of_a_group() -> None:
    graph = NodeGraph(types=TYPES)
    for type, name in (
        ("Input", "a"),
        ("Input", "b"),
        ("add", "sum"),
        ("ReLU", "relu"),
        ("Output", "y"),
        ("Output", "z"),
    ):
        graph.add(type, name=name)
    graph.connect("a", "sum")
    graph.connect("b", "sum")
    graph.connect("sum", "relu")
    graph.connect("sum", "y")
    graph.connect("relu", "z")
    before = graph.to_json()
    graph.group(["sum", "relu"], "block")
    assert set(graph.edges) == {
        ("a.output", "block.input"),
        ("b.output", "block.input2"),
        ("block.output", "y.input"),
        ("block.output2", "z.input"),
    }
    graph.ungroup("block")
    assert graph.to_json() == before


def test_ungrouped_names_stay_free_of_clashes(graph: NodeGraph) -> None:
    graph.group(["conv1"], "block")
    graph.add("Conv2d", name="conv1", in_channels=1, out_channels=1, kernel_size=1)
    assert [node.name for node in graph.ungroup("block")] == ["block_conv1"]


def test_shared_modules_stay_together(graph: NodeGraph) -> None:
    graph.add("Conv2d", name="twin", shares="conv1")
    with pytest.raises(GraphError, match="twin shares the module of conv1: group both or neither"):
        graph.group(["conv1"])
    graph.group(["conv1", "twin"], "block")
    assert graph["block.twin"].shares == "conv1"
    graph.add("Subgraph", name="again", definition="block", shares="block")
    with pytest.raises(GraphError, match="block shares its weights with 'again'"):
        graph.ungroup("block")
    with pytest.raises(GraphError, match="again shares its weights with 'block'"):
        graph.ungroup("again")


def test_a_definition_used_twice_is_edited_once(graph: NodeGraph) -> None:
    graph.group(["relu1"], "block")
    graph.add("Subgraph", name="again", definition="block")
    graph.add("ReLU", name="block.extra")
    assert graph["again.extra"].path == "again.extra"
    graph.connect("block.relu1", "block.extra")
    graph.set("again.relu1", shares=None)
    graph.rename("again.extra", "more")
    assert "block.more" in graph
    with pytest.raises(GraphError, match="are in different graphs"):
        graph.connect("x", "block.more")
    graph.ungroup("again")
    assert "block" in graph.graphs
    graph.remove("block")
    assert list(graph.graphs) == [""]


def test_removing_the_last_use_removes_what_only_it_showed(graph: NodeGraph) -> None:
    graph.group(["relu1"], "inner")
    graph.group(["conv1", "inner"], "outer")
    assert list(graph.graphs) == ["", "inner", "outer"]
    before = graph.to_json()
    graph.remove("outer")
    assert list(graph.graphs) == [""]
    graph.undo()
    assert graph.to_json() == before
    graph.ungroup("outer")
    assert list(graph.graphs) == ["", "inner"]


def test_ports_of_a_subgraph_are_reached_by_path(graph: NodeGraph) -> None:
    graph.group(["relu1"], "block")
    graph.disconnect("conv1", "block.input")
    assert graph.connect("conv1", "block.input") == ("conv1.output", "block.input")
    graph.disconnect("block.input", "block.relu1")
    assert graph.connect("block.input", "block.relu1") == ("input.output", "relu1.input")


def test_grouping_inside_a_definition(graph: NodeGraph) -> None:
    graph.group(["conv1", "relu1"], "block")
    inner = graph.group(["conv1"], "stem", graph="block")
    assert inner.name == "stem"
    assert "block.stem.conv1" in graph
    assert [node.name for node in graph.ungroup("stem", graph="block")] == ["conv1"]


def test_views_of_every_graph(graph: NodeGraph) -> None:
    graph.group(["conv1"], "block")
    view = graph.graphs["block"]
    assert (view.inputs, view.outputs) == (("input",), ("output",))
    assert repr(view) == "GraphView 'block': 3 nodes, 2 edges"
    assert view.order() == ("input", "conv1", "output")
    assert view.consumers("conv1") == (("conv1.output", "output.input"),)
    ports = graph.graphs[""].input_ports("block")
    assert ports is not None
    assert [port.name for port in ports] == ["input"]
    assert len(graph.graphs) == 2
    with pytest.raises(KeyError, match="gone"):
        graph.graphs["gone"]
    with pytest.raises(UnknownNodeError, match="There is no node 'gone' in definition 'block'"):
        view.sources("gone")


def test_equality_is_by_content(graph: NodeGraph) -> None:
    twin = copy.deepcopy(graph)
    assert twin == graph
    assert twin != "net"
    twin.set("conv1", stride=1)
    assert twin != graph
    twin.undo()
    assert twin == graph
    with pytest.raises(TypeError, match="cannot be a key"):
        hash(graph)


def test_one_and_true_are_different_values() -> None:
    one, true = NodeGraph(types=TYPES), NodeGraph(types=TYPES)
    one.add("add", name="a", alpha=1)
    true.add("add", name="a", alpha=True)
    assert one != true


def test_a_document_needs_a_name() -> None:
    with pytest.raises(IllegalNameError, match="A graph cannot be named ''"):
        NodeGraph("")


def test_in_transaction_is_about_the_calling_thread(graph: NodeGraph) -> None:
    seen: list[bool] = []
    with graph.transaction():
        thread = threading.Thread(target=lambda: seen.append(graph.in_transaction))
        thread.start()
        thread.join()
    assert seen == [False]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda g: g.set("conv1", kernel_size="x", kernel_sise=3, bias=1), BadValueError),
        (lambda g: g.set("conv1", kernel_sise=3, out_channels=8, kernel_size="x", bias=1), UnknownPropertyError),
        (lambda g: g.add("Conv2d", kernel_size="x", kernel_sise=3, bias=1, stride=2), BadValueError),
    ],
)
def test_every_refused_value_is_told_at_once(
    graph: NodeGraph, change: Callable[[NodeGraph], object], kind: type[GraphError]
) -> None:
    before = graph.to_json(), graph.version
    with pytest.raises(kind) as caught:
        change(graph)
    message = str(caught.value)
    assert message.startswith("3 things are wrong:\n")
    assert "kernel_size cannot be 'x': it must be a whole number" in message
    assert "has no property 'kernel_sise'. Did you mean 'kernel_size'?" in message
    assert "bias cannot be 1: it must be True or False" in message
    assert (graph.to_json(), graph.version) == before


def test_what_follows_from_a_refused_change_is_not_told(graph: NodeGraph) -> None:
    with pytest.raises(NameTakenError, match=r"^There is a node 'conv1' already\.$"):
        graph.apply([AddNode("conv1", "ReLU"), SetProperty("relu9", "shares", None)])
    with pytest.raises(BadValueError, match=r"^conv1.bias cannot be 3: it must be True or False\.$"):
        graph.apply([SetProperty("conv1", "bias", 3), Connect("conv1.output", "nowhere.input")])
