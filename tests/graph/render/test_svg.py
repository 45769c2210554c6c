"""The picture of a graph, read back by an XML parser."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pnne_nb as pn
from pnne_nb.graph.render.scene import FULL_DETAIL
from pnne_nb.graph.schema.categories import SNOWFLAKE

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "title", "desc", "style", "rect", "g", "path", "text", "circle"}


class Spec(NamedTuple):
    shape: tuple[int | str, ...]
    dtype: str = "float32"


@pytest.fixture
def graph() -> pn.NodeGraph:
    graph = pn.NodeGraph("lenet")
    graph.add("Input", name="x", shape=("N", 1, 28, 28))
    graph.add("Conv2d", name="conv1", in_channels=1, out_channels=6, kernel_size=5)
    graph.add("ReLU", name="relu1")
    graph.add("Linear", name="fc", in_features="auto", out_features=10)
    graph.add("Output", name="y")
    for source, target in (("x", "conv1"), ("conv1", "relu1"), ("relu1", "fc"), ("fc", "y")):
        graph.connect(source, target)
    return graph


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def test_it_says_what_the_cards_say(graph: pn.NodeGraph) -> None:
    said = texts(graph.to_svg())
    for text in ("conv1", "Conv2d", "1→6 · 5×5", "N×1×28×28", "fc", "auto→10", "Output"):
        assert text in said


def test_shapes_and_inferred_values_are_written_where_they_are_known(graph: pn.NodeGraph) -> None:
    shapes = {"conv1.output": Spec(("N", 6, 24, 24)), "relu1.output": Spec(("N+1", 3), "int64")}
    said = texts(graph.to_svg(shapes=shapes, resolved={"fc": {"in_features": 24}}))
    assert {"N×6×24×24", "(N+1)×3 int64", "24→10"} <= set(said)


def test_what_the_compiler_infers_can_be_given(graph: pn.NodeGraph) -> None:
    assert "N×6×24×24" in texts(graph.to_svg(shapes=pn.infer_shapes(graph)))


def test_it_is_accessible(graph: pn.NodeGraph) -> None:
    root = parsed(graph.to_svg())
    assert root.get("role") == "img"
    ids = {element.get("id"): element for element in root.iter() if element.get("id")}
    title, description = (ids[name] for name in (root.get("aria-labelledby") or "").split())
    assert title.text == "lenet"
    assert description.text == "A graph of 5 nodes and 4 edges. Inputs: x. Outputs: y."
    titles = {element.get("data-node"): element.findtext(f"{SVG}title") for element in root.iter(f"{SVG}g")}
    assert titles["conv1"] == "conv1, Conv2d, 1→6 · 5×5"


def test_equal_documents_give_equal_pictures_and_others_other_ids(graph: pn.NodeGraph) -> None:
    again = pn.NodeGraph.from_json(graph.to_json())
    assert graph.to_svg() == again.to_svg()
    ids = {parsed(graph.to_svg(theme)).get("id") for theme in ("auto", "light", "dark")}
    again.rename("fc", "fc2")
    assert len({*ids, parsed(again.to_svg()).get("id")}) == 4


def test_only_auto_asks_for_the_readers_theme(graph: pn.NodeGraph) -> None:
    assert "prefers-color-scheme" in graph.to_svg("auto")
    assert "prefers-color-scheme" not in graph.to_svg("light")
    assert graph.to_svg("light") != graph.to_svg("dark")
    with pytest.raises(ValueError, match=r"theme cannot be 'blue'\. It is one of 'auto', 'light', 'dark'"):
        graph.to_svg("blue")  # type: ignore[arg-type]  # that is the point


def test_every_rule_is_about_this_picture_alone(graph: pn.NodeGraph) -> None:
    style = parsed(graph.to_svg("auto")).findtext(f"{SVG}style") or ""
    me = parsed(graph.to_svg("auto")).get("id")
    selectors = re.findall(r"([^{}]+)\{[^{}]", style.replace("@media (prefers-color-scheme:dark){", ""))
    assert selectors
    assert all(part.strip().startswith(f"#{me} ") for selector in selectors for part in selector.split(","))


def test_nodes_stand_where_they_were_placed_and_the_rest_beside_them(graph: pn.NodeGraph) -> None:
    graph.move("x", 100, 50)
    groups = {g.get("data-node"): g.get("transform") or "" for g in parsed(graph.to_svg()).iter(f"{SVG}g")}
    assert groups["x"] == "translate(12,15)"
    places = {name: re.findall(r"-?[\d.]+", place) for name, place in groups.items() if name}
    assert len({tuple(place) for place in places.values()}) == 5
    assert [float(places[name][1]) for name in ("x", "conv1", "relu1", "fc", "y")] == sorted(
        float(place[1]) for place in places.values()
    )


def test_a_nested_graph_is_one_card_and_can_be_looked_into(graph: pn.NodeGraph) -> None:
    graph.group(["conv1", "relu1"], name="stem")
    assert "conv1" not in texts(graph.to_svg())
    inside = graph.to_svg(within="stem", shapes={"stem.conv1.output": Spec((1, 2))})
    assert {"conv1", "relu1", "1×2"} <= set(texts(inside))
    assert parsed(inside).findtext(f"{SVG}title") == "lenet, stem"
    with pytest.raises(pn.UnknownNodeError, match="There is nothing inside 'fc'"):
        graph.to_svg(within="fc")


def test_a_definition_that_is_used_again_says_so(graph: pn.NodeGraph) -> None:
    graph.group(["relu1"], name="act")
    assert "×2" not in texts(graph.to_svg())
    graph.add("Subgraph", name="act2", definition=graph["act"].definition)
    svg = graph.to_svg()
    assert texts(svg).count("×2") == 2
    assert "act2, Subgraph, ReLU, shown 2 times" in svg


def test_an_edge_runs_around_what_stands_in_its_way() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", x=0, y=0)
    graph.add("ReLU", name="relu1", x=0, y=120)
    graph.add("add", name="sum", x=-29, y=240)
    graph.connect("x", "relu1")
    graph.connect("relu1", "sum.input")
    graph.connect("x", "sum.other")
    paths = {path.get("data-edge"): path.get("d") or "" for path in parsed(graph.to_svg()).iter(f"{SVG}path")}
    assert paths["x.output->relu1.input"].count("V") == 1
    assert paths["x.output->sum.other"].count("C") == 2


def test_from_left_to_right_ports_stand_at_the_sides() -> None:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("add", name="add")
    graph.connect("x", "add.input")
    graph.connect("x", "add.other")
    graph.arrange(direction="right")
    root = parsed(graph.to_svg())
    card = root.find(f".//{SVG}g[@data-node='add']")
    assert card is not None
    ports = [(port.get("cx"), port.get("cy")) for port in card.iter(f"{SVG}circle")]
    assert ports == [("0", "55"), ("0", "73"), ("176", "41")]
    anchors = {text.text: text.get("class") for text in card.iter(f"{SVG}text")}
    assert anchors["other"] == "port-name start"
    for path in root.iter(f"{SVG}path"):
        if "data-edge" in path.attrib:
            assert re.fullmatch(r"M[\d.]+,[\d.]+(H[\d.]+|C[\d., ]+)", path.get("d") or "")


def test_an_empty_and_a_large_graph() -> None:
    assert parsed(pn.NodeGraph().to_svg()).findtext(f"{SVG}desc") == (
        "A graph of 0 nodes and 0 edges. Inputs: none. Outputs: none."
    )
    assert texts(pn.NodeGraph().to_svg()) == ["empty graph"]
    graph = pn.NodeGraph()
    with graph.transaction():
        for number in range(FULL_DETAIL + 1):
            graph.add("ReLU", name=f"r{number}", x=0, y=number * 100)
        graph.connect("r0", "r1")
    svg = graph.to_svg()
    assert len(svg) < 250 * FULL_DETAIL
    assert len(texts(svg)) == FULL_DETAIL + 1


def test_a_type_that_nobody_knows_is_drawn() -> None:
    graph = pn.NodeGraph()
    graph.add("ReLU", name="relu1")
    text = graph.to_json().replace('"ReLU"', '"Gone"')
    assert "Gone" in texts(pn.NodeGraph.from_json(text).to_svg())


HOSTILE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["</text><script>alert(1)</script>", '"><img src=x onerror=1>', "]]>", "&lt;", "\x00\x0b\ufffe"]),
)


@given(name=HOSTILE.filter(str.isprintable).filter(bool), value=HOSTILE)
def test_no_text_gets_out_of_its_place(name: str, value: str) -> None:
    graph = pn.NodeGraph(name)
    graph.add("Constant", name="c", value=value)
    graph.add("einsum", name="e", equation=value)
    root = parsed(graph.to_svg())
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= DRAWN
    assert root.findtext(f"{SVG}title") == name
    reader = _Tags()
    reader.feed(graph.to_html())
    assert set(reader.tags) == {"figure", "img", "details", "summary", "ul", "li"}
    assert all(set(names) <= {"alt", "src"} for names in reader.attributes)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append([name for name, _ in attrs])


def test_a_cell_shows_it_in_every_form_that_viewers_keep(graph: pn.NodeGraph) -> None:
    bundle = graph._repr_mimebundle_()
    assert bundle["text/plain"] == 'NodeGraph "lenet": 5 nodes, 4 edges'
    drawn = bundle["image/svg+xml"]
    assert drawn == graph.to_svg(shapes=pn.infer_shapes(graph), resolved={"fc": {"in_features": 24}})
    address = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])
    assert address is not None
    assert base64.b64decode(address[1]).decode() == drawn
    assert "<li>conv1, Conv2d, 1→6 · 5×5, from x.output (N×1×28×28)</li>" in bundle["text/html"]
    assert "from conv1.output (N×6)" in graph.to_html(shapes={"conv1.output": Spec(("N", 6))})


def test_what_is_frozen_has_a_snowflake_and_so_have_its_layers() -> None:
    graph = pn.NodeGraph("net")
    graph.chain(("Input", {"shape": ("N", 4)}), ("Linear", {"name": "fc", "out_features": 4}), "ReLU")
    graph.group(["fc", "relu1"], name="block")
    assert SNOWFLAKE not in graph.to_svg() + graph.to_svg(within="block")
    graph.freeze("block")
    assert graph.to_svg().count(SNOWFLAKE) == graph.to_svg(within="block").count(SNOWFLAKE) == 1
    assert "block, Subgraph, Linear · ReLU, frozen" in graph.to_svg()
