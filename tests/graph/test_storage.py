"""Graph files: a stable text, and a clear refusal, with its place, of whatever is not one."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pnne_nb.errors import GraphFileAccessError, GraphFileError, GraphFileNotFoundError
from pnne_nb.graph import storage as json_format
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.values import TorchConstant
from pnne_nb.graph.storage import read_file, replace_file
from tests.graph.types import TYPES

TEXT = """{
  "format": "pnne-graph",
  "formatVersion": 1,
  "name": "net",
  "graphs": {
    "": {
      "nodes": [
        {"name": "x", "type": "Input", "properties": {"dtype": "float16", "shape": ["N", 4]}, "position": [1.0, 2.5]},
        {"name": "block", "type": "Subgraph", "properties": {"definition": "inner"}},
        {"name": "y", "type": "Output"}
      ],
      "edges": [
        {"source": "x.output", "target": "block.a"},
        {"source": "block.b", "target": "y.input"}
      ]
    },
    "inner": {
      "nodes": [
        {"name": "a", "type": "Input"},
        {"name": "b", "type": "Output"}
      ],
      "edges": []
    }
  }
}
"""


def test_the_text_of_a_file() -> None:
    graph = NodeGraph.from_json(TEXT, types=TYPES)
    assert graph.to_json() == TEXT
    assert graph.name == "net"
    assert graph["x"].properties["shape"] == ("N", 4)
    assert graph.version == 0
    assert graph.undo_label is None


def test_order_of_edges_and_properties_does_not_show() -> None:
    data = json.loads(TEXT)
    data["graphs"][""]["edges"].reverse()
    data["graphs"][""]["nodes"][0]["properties"] = {"shape": ["N", 4], "dtype": "float16"}
    data["graphs"] = dict(reversed(data["graphs"].items()))
    assert NodeGraph.from_json(json.dumps(data)).to_json() == TEXT


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "net.pnne.json"
    graph = NodeGraph.from_json(TEXT, types=TYPES)
    graph.save(path)
    assert path.read_text(encoding="utf-8") == TEXT
    path.chmod(0o640)
    graph.name = "größer"
    graph.save(str(path))
    assert NodeGraph.load(str(path)) == graph
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["net.pnne.json"]
    with pytest.raises(FileNotFoundError, match="missing"):
        graph.save(tmp_path / "missing" / "net.pnne.json")
    (tmp_path / "nets").mkdir()
    with pytest.raises(OSError, match=r"nets' cannot be written: Is a directory"):
        graph.save(tmp_path / "nets")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["net.pnne.json", "nets"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no graph file 'nofile'"):
        NodeGraph.load("nofile")
    with pytest.raises(GraphFileNotFoundError):
        NodeGraph.load(tmp_path / "none.pnne.json")
    with pytest.raises(GraphFileNotFoundError, match=r"There is no directory '.*/none' for '.*/none/net.pnne.json'"):
        NodeGraph().save(tmp_path / "none" / "net.pnne.json")
    with pytest.raises(GraphFileAccessError, match="cannot be read: Is a directory"):
        NodeGraph.load(tmp_path)
    with pytest.raises(GraphFileAccessError, match="cannot be read: it is not the path of a file"):
        NodeGraph.load("a\0b")
    with pytest.raises(TypeError, match=r"path must be the path of a graph file, not 3"):
        NodeGraph.load(3)  # type: ignore[arg-type]  # that is the point


def test_constants_survive() -> None:
    values = (
        None, True, 3, 10**30, 0.1, -math.inf, "é ∞ \" \\ \n", (1, (2,)), [1, [2]], {"a": (1,), 2: "b"}, 1 + 2j,
        slice(None, 3), ..., TorchConstant("bfloat16"),
    )  # fmt: skip
    graph = NodeGraph(types=TYPES)
    for value in values:
        graph.add("Constant", value=value)
    again = NodeGraph.from_json(graph.to_json())
    assert [node.properties["value"] for node in again.nodes.values()] == list(values)


def test_a_type_that_is_not_registered_is_kept() -> None:
    text = TEXT.replace('"Output"}', '"Swish", "properties": {"beta": {"$list": [1]}}}', 1)
    graph = NodeGraph.from_json(text, types=TYPES)
    assert graph.to_json() == text
    assert [finding.code for finding in graph.diagnostics()] == ["no-output", "unconnected-input", "unknown-type"]
    graph.move("y", 1, 2)
    graph.rename("y", "swish")
    graph.remove("swish")
    for _ in range(3):
        graph.undo()
    assert graph.to_json() == text


DEEP = json.loads("[" * 40 + "]" * 40)


def _changed(**changes: Any) -> str:
    return json.dumps({**json.loads(TEXT), **changes})


def _root(nodes: object = (), edges: object = (), **more: object) -> str:
    return _changed(graphs={"": {"nodes": nodes, "edges": edges, **more}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"at line 1, column 1: this is not JSON: Expecting value. The file seems to be cut off"),
        (TEXT[:200], "this is not JSON: .* The file seems to be cut off"),
        (TEXT + "x", "at line 26, column 1: this is not JSON: Extra data"),
        ("[]", r"at \$.format: this is not a graph file"),
        ("3", r"at \$.format: this is not a graph file"),
        ('{"nbformat": 4}', r"at \$.format: this is not a graph file"),
        (_changed(formatVersion=2), r"at \$.formatVersion: the file has format version 2, and .* Install a newer"),
        (_changed(formatVersion="1"), r"at \$.formatVersion: there is no format version '1'"),
        (_changed(formatVersion=True), r"at \$.formatVersion: there is no format version True"),
        (_changed(extra=1), r"at \$: there should be no field 'extra'"),
        (_changed(name=3), r"at \$.name: A graph cannot be named 3"),
        (_changed(name=""), r"at \$.name: A graph cannot be named ''"),
        (_changed(graphs=[]), r"at \$.graphs: the graphs must be an object"),
        (_changed(graphs={}), r"at \$.graphs: the graphs must be an object"),
        (_changed(graphs={"": {}, "a.b": {}}), r'at \$.graphs\["a.b"\]: .a.b. is not a legal name'),
        (_changed(graphs={"": 3}), r'at \$.graphs\[""\]: Expected `object`, got `int`'),
        (_root([{"name": "a", "type": 3}]), r'at \$.graphs\[""\].nodes\[0\].type: Expected `str`, got `int`'),
        (_root([{"name": "a"}]), r'at \$.graphs\[""\].nodes\[0\]: Object missing required field `type`'),
        (_root([{"name": "a", "type": "ReLU", "color": 1}]), r"nodes\[0\]: Object contains unknown field `color`"),
        (_root([{"name": "a", "type": "ReLU", "position": [1]}]), r"nodes\[0\].position: Expected `array` of length 2"),
        (_root([{"name": "a", "type": ""}]), r"nodes\[0\]: a: the type of a node must be"),
        (_root([{"name": "a.b", "type": "ReLU"}]), r"nodes\[0\]: 'a.b' is not a legal name"),
        (_root([{"name": "train", "type": "ReLU"}]), r"nodes\[0\]: A node cannot be named 'train'"),
        (_root([{"name": "a", "type": "ReLU"}] * 2), r"nodes\[1\]: There is a node 'a' already"),
        (_root([{"name": "a", "type": "ReLU", "properties": {"p": {"$code": "1"}}}]), r"nodes\[0\].properties.p: "),
        (_root([{"name": "a", "type": "Subgraph", "properties": {"definition": "b"}}]), r"nodes\[0\]: .*no such definition"),
        (_root([{"name": "a", "type": "Subgraph", "properties": {"definition": ""}}]), r"nodes\[0\]: .*no such definition"),
        (_root([], [{"source": "a.output", "target": "b.input"}]), r"edges\[0\]: There is no node 'a'"),
        (_root([{"name": "a", "type": "ReLU"}], [{"source": "a", "target": "a.i"}]), r"edges\[0\]: 'a' is not a port"),
        (_root([{"name": "a", "type": "R"}], [{"source": "a.o", "target": "a.i"}]), r"edges\[0\]: the edges form a loop"),
        (
            _root([{"name": "a", "type": "R"}, {"name": "b", "type": "R"}], [{"source": "a.o", "target": "b.i"}] * 2),
            r"edges\[1\]: a.o and b.i are connected already",
        ),
        (TEXT.replace('"block.a"', '"block.z"'), r"edges\[0\]: block has no input 'z'"),
        (
            TEXT.replace('"a", "type": "Input"', '"a", "type": "Subgraph", "properties": {"definition": "inner"}'),
            r'graphs\["inner"\].nodes\[0\]: .*a graph cannot contain itself',
        ),
        (TEXT.replace('"name": "net"', '"name": "net", "name": "net"'), "the key 'name' appears twice in one object"),
        (TEXT.replace("2.5", "NaN"), "NaN is not JSON"),
        (TEXT.replace("2.5", "1e999"), "a position is a pair of finite numbers"),
        (TEXT.replace("2.5", "1" * 5000), "a number in it has too many digits"),
        (TEXT.replace('"net"', '"\\ud800"'), "this is not UTF-8 text"),
        (TEXT.replace("2.5", "[" * 100_000 + "]" * 100_000), "nested too deeply"),
        (_root([{"name": "a", "type": "R", "origin": DEEP}]), r"nodes\[0\].origin: Expected `object \| null`, got `array`"),
        (_root([{"name": "a", "type": "R", "properties": {"p": DEEP}}]), "nested more than 32 deep"),
    ],
)  # fmt: skip
def test_a_damaged_or_hostile_file_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(GraphFileError, match=message):
        NodeGraph.from_json(text, types=TYPES)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(GraphFileError, match="this is not UTF-8 text"):
        NodeGraph.from_json(b'{"format": "\xff"}')
    assert NodeGraph.from_json(b"\xef\xbb\xbf" + TEXT.encode()).to_json() == TEXT


def test_too_large_a_file_is_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format, "MAX_BYTES", 100)
    monkeypatch.setattr(json_format, "MAX_BYTES", 100)
    path = tmp_path / "large.pnne.json"
    path.write_text(TEXT)
    with pytest.raises(GraphFileError, match=r"large.pnne.json has \d+ bytes; a graph file has at most 100"):
        NodeGraph.load(path)
    with pytest.raises(GraphFileError, match="the text is longer than 100 bytes"):
        NodeGraph.from_json(TEXT)


def test_more_nodes_than_anybody_draws_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format, "MAX_NODES", 3)
    monkeypatch.setattr(json_format, "make_node", None)
    nodes = [{"name": f"a{index}", "type": "ReLU"} for index in range(4)]
    graphs = {"": {"nodes": nodes, "edges": []}}
    with pytest.raises(GraphFileError, match="the file has 4 nodes; the limit is 3"):
        NodeGraph.from_json(json.dumps({"format": "pnne-graph", "formatVersion": 1, "name": "n", "graphs": graphs}))


def test_definitions_nested_to_billions_are_refused() -> None:
    graphs = {"": {"nodes": [{"name": "n", "type": "Subgraph", "properties": {"definition": "g0"}}]}}
    for depth in range(40):
        properties = {"definition": f"g{depth + 1}"}
        graphs[f"g{depth}"] = {"nodes": [{"name": name, "type": "Subgraph", "properties": properties} for name in "ab"]}
    graphs["g40"] = {"nodes": []}
    with pytest.raises(
        GraphFileError, match=r"at \$.graphs: with every use of its definitions counted, the file has \d{12,}"
    ):
        NodeGraph.from_json(_changed(graphs=graphs))


def test_graphs_inside_each_other_open_as_far_as_they_can_be_looked_at() -> None:
    def nested(deep: int) -> str:
        graphs = {f"g{depth}": {"nodes": [show(depth + 1)]} for depth in range(deep)}
        return _changed(graphs={"": {"nodes": [show(0)]}, **graphs, f"g{deep}": {"nodes": []}})

    def show(depth: int) -> dict[str, object]:
        return {"name": "n", "type": "Subgraph", "properties": {"definition": f"g{depth}"}}

    graph = NodeGraph.from_json(nested(400), types=TYPES)
    assert [found.code for found in graph.diagnostics()] == ["too-deep"]
    assert NodeGraph.from_json(graph.to_json(), types=TYPES) == graph
    with pytest.raises(GraphFileError, match=r"at \$.graphs: graphs are nested 5002 deep; the limit is 500"):
        NodeGraph.from_json(nested(5000), types=TYPES)


@given(st.integers(0, len(TEXT) - 1), st.integers(0, 40), st.text('{}[]",:\\0eE.-abc\u00e9 \n', max_size=4))
def test_random_damage_never_crashes(start: int, length: int, patch: str) -> None:
    try:
        graph = NodeGraph.from_json(TEXT[:start] + patch + TEXT[start + length :], types=TYPES)
    except GraphFileError:
        return
    graph.diagnostics()
    assert NodeGraph.from_json(graph.to_json(), types=TYPES) == graph


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.pnne.json"
    for text in ("first", "größer"):
        replace_file(path, text)
        assert read_file(str(path)).decode() == text
    assert list(tmp_path.iterdir()) == [path]


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(GraphFileNotFoundError, match=r"There is no graph file '.*net\.json'\."):
        read_file(tmp_path / "net.json")
    with pytest.raises(GraphFileNotFoundError, match=r"There is no directory '.*gone' for '.*net\.json'\."):
        replace_file(tmp_path / "gone" / "net.json", "")


def test_a_directory_is_no_file_and_a_zero_byte_no_path(tmp_path: Path) -> None:
    with pytest.raises(GraphFileAccessError, match=r"cannot be read: "):
        read_file(tmp_path)
    with pytest.raises(GraphFileAccessError, match=r"cannot be read: it is not the path of a file\."):
        read_file("a\0b")


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.json"
    path.write_text("12345")
    monkeypatch.setattr(json_format, "MAX_BYTES", 4)
    with pytest.raises(GraphFileError, match=r"net\.json has 5 bytes; a graph file has at most 4\."):
        read_file(path)
