"""Named sizes of a document: `graph.sizes`."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

import pnne_nb as pn
from pnne_nb.errors import ArgumentError, BadValueError, GraphFileError, IllegalNameError


@pytest.fixture
def graph() -> pn.NodeGraph:
    """A size, one that is calculated from it, and a block and a layer that use them."""
    graph = pn.NodeGraph("net")
    graph.sizes["hidden"] = 64
    graph.sizes["inner"] = "4 * hidden"
    graph.add("Input", name="x", shape=("N", "hidden"))
    graph.chain(("Linear", {"name": "a", "out_features": "inner"}), ("ReLU", {"name": "r"}), after="x")
    graph.group(["a", "r"], name="block")
    graph.chain(("Conv1d", {"name": "c", "out_channels": 3, "kernel_size": ("hidden // 32",)}), after="block")
    return graph


def values(graph: pn.NodeGraph) -> tuple[object, ...]:
    return (
        graph["x"].properties["shape"],
        graph["block.a"].properties["out_features"],
        graph["c"].properties["kernel_size"],
    )


def test_a_change_of_a_size_is_one_change_of_all_that_uses_it(graph: pn.NodeGraph) -> None:
    assert values(graph) == (("N", 64), 256, (2,))
    before, version = graph.to_json(), graph.version
    graph.sizes["hidden"] = 32
    assert (values(graph), dict(graph.sizes)) == ((("N", 32), 128, (1,)), {"hidden": 32, "inner": 128})
    assert (graph.version, graph.undo_label) == (version + 1, "Set the size hidden to 32")
    graph.undo()
    assert graph.to_json() == before
    graph.redo()
    assert values(graph) == (("N", 32), 128, (1,))
    assert repr(graph.sizes) == "Sizes(hidden = 32, inner = 4*hidden (128))"
    assert repr(graph["block.a"]) == "Node('block.a', Linear, out_features=inner (128))"


def test_the_number_takes_the_place_of_a_size_that_is_removed(graph: pn.NodeGraph) -> None:
    del graph.sizes["hidden"]
    assert (values(graph), repr(graph.sizes)) == ((("N", 64), 256, (2,)), "Sizes(inner = 256)")
    assert graph.undo_label == "Remove the size hidden"
    graph.sizes["inner"] = 8
    assert values(graph) == (("N", 64), 8, (2,))
    graph.undo()
    graph.undo()
    graph.sizes["hidden"] = 32
    assert values(graph) == (("N", 32), 128, (1,))


def test_a_number_or_another_calculation_takes_the_place_of_one(graph: pn.NodeGraph) -> None:
    graph.set("block.a", out_features="hidden*4")
    assert repr(graph["block.a"].properties["out_features"]) == "hidden*4 (256)"
    graph.set("block.a", out_features=256)
    graph.sizes["hidden"] = 32
    assert values(graph) == (("N", 32), 256, (1,))


def test_sizes_are_kept_in_files_and_copies(graph: pn.NodeGraph) -> None:
    text = graph.to_json()
    assert '"sizes": {"hidden": 64, "inner": {"$size": ["4*hidden", 256]}}' in text
    for other in (pn.NodeGraph.from_json(text), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert other == graph
        other.sizes["hidden"] = 32
        assert values(other)[1] == 128
    assert values(graph)[1] == 256
    assert '"sizes"' not in pn.NodeGraph("plain").to_json()


def test_a_size_that_was_edited_in_the_file_changes_what_uses_it(graph: pn.NodeGraph) -> None:
    other = pn.NodeGraph.from_json(graph.to_json().replace('"hidden": 64', '"hidden": 32'))
    assert (values(other), other.sizes["inner"]) == ((("N", 32), 128, (1,)), 128)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"hidden": 64, ', "", r"\$\.sizes\.inner: .* The graph has no size 'hidden'"),
        ('["4*hidden", 256]', '["4*inner", 256]', r"\$\.sizes: inner are? calculated from"),
        ('["4*hidden", 256]', '["__import__(1)", 256]', r"\$\.sizes\.inner: .*no size '__import__'"),
        ('["4*hidden", 256]', '["os.system", 256]', r"is not the JSON form of a constant"),
        ('"hidden": 64', '"hidden": "64//0"', r"\$\.sizes\.hidden: .*divides by zero"),
        ('"hidden": 64', '"forward": 64', r"A size cannot be named 'forward'"),
        ('"$size": ["inner", 256]', '"$size": ["outer", 256]', r"the file has no size 'outer'"),
        ('"sizes": {', '"sizes": 1, "size": {', "there should be no field|must be an object"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(graph: pn.NodeGraph, old: str, new: str, message: str) -> None:
    text = graph.to_json()
    assert old in text
    with pytest.raises(GraphFileError, match=message):
        pn.NodeGraph.from_json(text.replace(old, new))
    json.loads(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("hidden", "inner", BadValueError, r"The size hidden cannot be 'inner': it would be calculated from itself"),
        ("depth", "4*hiden", BadValueError, r"depth cannot be '4\*hiden'.* no size 'hiden'.* Did you mean 'hidden'\?"),
        ("depth", "1//(hidden - 64)", BadValueError, r"1//\(hidden - 64\) divides by zero"),
        ("depth", 2.5, ArgumentError, r"graph.sizes\['depth'\] must be a whole number or a calculation"),
        ("hidden", -1, BadValueError, r"block.a|a.out_features in definition .* cannot be inner \(-4\): .* ≥ 1"),
        ("hidden", 0, BadValueError, r"c.kernel_size cannot be|a.out_features"),
        ("forward", 3, IllegalNameError, "A size cannot be named 'forward'"),
        ("2d", 3, IllegalNameError, "A size cannot be named '2d'"),
        ("a b", 3, IllegalNameError, "is not a legal name"),
        ("N", 3, BadValueError, "The size N needs another name: 'N' stands for an open size in the shape of an Input"),
    ],
)
def test_a_size_that_does_not_fit_changes_nothing(
    graph: pn.NodeGraph, name: str, value: int, error: type[Exception], message: str
) -> None:
    before, version = graph.to_json(), graph.version
    with pytest.raises(error, match=message):
        graph.sizes[name] = value
    assert (graph.to_json(), graph.version) == (before, version)


def test_unknown_names_are_told_at_the_property_and_at_the_mapping(graph: pn.NodeGraph) -> None:
    with pytest.raises(
        BadValueError, match=r'a.out_features .* no size \'depth\'; graph.sizes\["depth"\] = 64 adds it'
    ):
        graph.set("block.a", out_features="2*depth")
    with pytest.raises(BadValueError, match=r"64//\(hidden-64\) divides by zero"):
        graph.set("block.a", out_features="64//(hidden-64)")
    for look in (graph.sizes.__getitem__, graph.sizes.__delitem__):
        with pytest.raises(KeyError, match=r"The graph has no size 'hiden'\. Did you mean 'hidden'\?"):
            look("hiden")


def test_nodes_that_come_from_another_graph_take_its_sizes_or_keep_their_numbers(graph: pn.NodeGraph) -> None:
    value = graph["block.a"].properties["out_features"]
    other = pn.NodeGraph()
    assert repr(other.add("Linear", out_features=value).properties["out_features"]) == "256"
    other.sizes["inner"] = 6
    assert repr(other.add("Linear", out_features=value).properties["out_features"]) == "inner (6)"
