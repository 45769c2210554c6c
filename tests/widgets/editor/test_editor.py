"""`GraphEditor` without a browser: requests in, events out, and nothing left behind."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import pnne_nb as pn
from pnne_nb.graph import document
from pnne_nb.graph.layout import arrange_graph
from pnne_nb.graph.model.ops import AddNode
from pnne_nb.process.idle import breathe
from pnne_nb.widgets.editor.editor import QUICKLY_ARRANGED, GraphEditor
from pnne_nb.widgets.host import bundle


class View:
    """What a browser's view of an editor sees and says."""

    def __init__(self, editor: GraphEditor, client: str = "view") -> None:
        self.editor = editor
        self.client = client
        self.events: list[dict[str, Any]] = []
        self.arrived = threading.Condition()
        self.id = 0
        editor.send = self._receive

    def _receive(self, content: dict[str, Any], buffers: object = None) -> None:
        with self.arrived:
            self.events.append(json.loads(json.dumps(content)))
            self.arrived.notify_all()

    def say(self, content: object) -> None:
        self.editor._handle_custom_msg(content, [])

    def ask(self, message: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the answer to it."""
        self.id += 1
        self.say({"message": message, "id": self.id, "client": self.client, **fields})
        return next(event for event in self.events if event.get("client") == self.client and event.get("id") == self.id)

    def edit(self, *ops: dict[str, Any], base: int = 0) -> dict[str, Any]:
        return self.ask("edit", base=base, ops=list(ops))

    def wait_for(self, message: str, number: int = 1) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [event for event in self.events if event["message"] == message]

        with self.arrived:
            assert self.arrived.wait_for(lambda: len(found()) >= number, 60), f"no {message} came"
            return found()[number - 1]

    def wait_for_finding_at(self, path: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            told = (event for event in self.events if event["message"] == "derivedChanged")
            return next((event for event in told if path in event["derived"]["diagnostics"]), None)

        with self.arrived:
            event = self.arrived.wait_for(found, 60)
            assert event is not None, f"nothing was found at {path!r}"
            return event


@pytest.fixture
def graph() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="fc1", in_features=4, out_features=3)
    graph.add("Output", name="y")
    graph.connect("x", "fc1")
    graph.connect("fc1", "y")
    return graph


@pytest.fixture
def editor(graph: pn.NodeGraph) -> Iterator[GraphEditor]:
    editor = GraphEditor(graph)
    yield editor
    editor.close()


@pytest.fixture
def view(editor: GraphEditor) -> View:
    return View(editor)


def model_of(editor: GraphEditor) -> torch.nn.Module | None:
    """Ask again: it may have changed, whatever the type checker remembers."""
    return editor.model


def selected(editor: GraphEditor) -> tuple[str, ...]:
    return tuple(editor.selection)


def test_it_has_a_stable_representation(editor: GraphEditor) -> None:
    assert repr(editor) == 'GraphEditor of NodeGraph "net": 3 nodes, 2 edges'
    data, _ = editor._repr_mimebundle_() or ({}, {})
    assert data["text/plain"] == repr(editor)
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_page_opens_with_everything(editor: GraphEditor, graph: pn.NodeGraph) -> None:
    assert editor.diagnostics == []
    state = editor.get_state()
    snapshot = json.loads(json.dumps(state["snapshot"]))
    assert snapshot["version"] == graph.version
    assert [node["name"] for node in json.loads(snapshot["document"])["graphs"][""]["nodes"]] == ["x", "fc1", "y"]
    assert snapshot["derived"]["shapes"]["fc1.output"] == {"shape": ["N", 3], "dtype": "float32"}
    assert snapshot["history"] == {"undo": "Connect fc1 → y", "redo": None}
    assert state["catalog_key"]
    assert "pnne" in state["_esm"]


def test_an_edit_is_answered_first_and_what_follows_comes_after(view: View, graph: pn.NodeGraph) -> None:
    answer = view.edit({"op": "setProperty", "node": "fc1", "property": "out_features", "value": 7}, base=graph.version)
    assert answer["message"] == "committed"
    assert (answer["version"], answer["label"]) == (graph.version, "Set fc1.out_features to 7")
    assert graph["fc1"].properties["out_features"] == 7
    view.editor.diagnostics  # noqa: B018  # brings what follows up to date
    changes = [event for event in view.events if event["message"] == "derivedChanged"]
    assert changes[-1]["derived"]["shapes"]["fc1.output"] == {"shape": ["N", 7], "dtype": "float32"}
    assert view.events.index(answer) < view.events.index(changes[-1])


def test_what_follows_comes_without_being_asked_for(view: View, graph: pn.NodeGraph) -> None:
    graph.set("fc1", in_features=5)
    assert view.wait_for_finding_at("fc1")["version"] == graph.version


def test_edits_from_python_reach_every_editor(graph: pn.NodeGraph) -> None:
    one, two = GraphEditor(graph), GraphEditor(graph)
    views = [View(one, "one"), View(two, "two")]
    graph.add("ReLU", name="relu1")
    views[0].edit({"op": "renameNode", "name": "relu1", "newName": "act"})
    for view in views:
        commits = [event for event in view.events if event["message"] == "committed"]
        assert [(event["version"], event["client"]) for event in commits] == [(6, None), (7, "one")]
    one.close()
    graph.remove("act")
    assert [event["version"] for event in views[0].events if event["message"] == "committed"] == [6, 7]
    assert views[1].events[-1]["version"] == 8 or views[1].events[-2]["version"] == 8
    two.close()


def test_stale_edits_are_applied_if_they_still_fit(view: View, graph: pn.NodeGraph) -> None:
    base = graph.version
    graph.rename("y", "out")
    assert view.edit({"op": "moveNode", "name": "x", "position": [1, 2]}, base=base)["message"] == "committed"
    answer = view.edit({"op": "moveNode", "name": "y", "position": [1, 2]}, base=base)
    assert (answer["message"], answer["error"]) == ("rejected", "There is no node 'y'.")
    answer = view.edit({"op": "moveNode", "name": "x", "position": [1, 2]}, base=graph.version + 9)
    assert "the change was made in another copy" in answer["error"]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (
            {"message": "edit", "base": 0, "ops": [{"op": "addNode", "name": "a", "type": "Relu"}]},
            "Did you mean 'ReLU'",
        ),
        (
            {"message": "edit", "base": 0, "ops": [{"op": "connect", "source": "x.output", "target": "y.input"}]},
            "is fed by",
        ),
        ({"message": "edit", "base": 0, "ops": []}, "an edit has 1 to 100000 ops"),
        ({"message": "edit", "base": 0, "ops": "no"}, r"at $.ops: Expected `array`, got `str`"),
        ({"message": "redo"}, "There is nothing to redo"),
        ({"message": "arrange", "graph": "gone"}, "There is no definition 'gone'"),
        ({"message": "group", "nodes": ["x"]}, "x is an Input of its graph"),
        ({"message": "ungroup", "node": "fc1"}, "fc1 is a Linear, not a nested graph"),
        ({"message": "explode"}, "Invalid value 'explode'"),
    ],
)
def test_a_request_that_does_not_fit_is_answered(
    view: View, graph: pn.NodeGraph, request_: dict[str, Any], error: str
) -> None:
    before = graph.to_json(), graph.version
    view.say({"id": 1, "client": "view", **request_})
    answer = next(event for event in view.events if event["message"] == "rejected")
    assert error in answer["error"]
    assert (answer["id"], answer["client"], answer["version"]) == (1, "view", graph.version)
    assert (graph.to_json(), graph.version) == before


@pytest.mark.parametrize("content", [None, [], 3, "edit", {"message": 3}, {"id": "x", "client": 3}])
def test_noise_is_answered_too(view: View, content: object) -> None:
    view.say(content)
    assert next(event for event in view.events if event["message"] == "rejected")["id"] is None


def test_every_request_has_an_answer(view: View, graph: pn.NodeGraph) -> None:
    assert view.edit({"op": "addNode", "name": "relu1", "type": "ReLU"})["message"] == "committed"
    assert view.ask("undo")["label"] == "Undo: Add relu1"
    assert view.ask("redo")["label"] == "Redo: Add relu1"
    assert view.ask("undo")["history"] == {"undo": "Connect fc1 → y", "redo": "Add relu1"}
    assert view.ask("arrange")["ops"]
    again = view.ask("arrange")
    assert (again["message"], again["ops"], again["version"]) == ("committed", [], graph.version)
    assert view.ask("group", nodes=["fc1"], name="block")["label"] == "Group block"
    assert view.ask("ungroup", node="block")["label"] == "Ungroup block"
    snapshot = view.ask("sync")
    assert (snapshot["message"], snapshot["version"]) == ("snapshot", graph.version)
    source = view.ask("getSource")
    assert (source["message"], "class Net" in source["text"]) == ("source", True)
    catalog = view.ask("getCatalog")
    assert catalog["key"] == view.editor.get_state(["catalog_key"])["catalog_key"]


def test_a_page_is_not_sent_the_version_that_it_has_once_more(view: View, graph: pn.NodeGraph) -> None:
    assert view.editor.diagnostics == []
    known = graph.version
    answer = view.ask("sync", version=known)
    assert (answer["message"], answer["version"], answer["document"]) == ("snapshot", known, None)
    assert answer["derived"]["shapes"]["fc1.output"]["shape"] == ["N", 3], "what was told meanwhile may be lost"
    assert answer["history"] == {"undo": "Connect fc1 → y", "redo": None}
    graph.set("fc1", bias=False)
    assert view.ask("sync", version=known)["document"] is not None
    assert view.ask("sync", version=None)["document"] is not None
    assert view.ask("sync")["document"] is not None, "a page that was loaded by an older version names none"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Arrangements wait for it."""
    held, arrangement = threading.Event(), arrange_graph.arrangement

    def wait_and_arrange(*args: Any, **kwargs: Any) -> Any:
        found = arrangement(*args, **kwargs)
        assert held.wait(60)
        return found

    monkeypatch.setattr(document, "arrangement", wait_and_arrange)
    return held


def add_many(graph: pn.NodeGraph) -> None:
    with graph.transaction("Add many"):
        for number in range(QUICKLY_ARRANGED):
            graph.add("ReLU", name=f"relu{number}")


def test_an_edit_does_not_wait_for_the_arrangement_of_a_large_graph(
    view: View, graph: pn.NodeGraph, held: threading.Event
) -> None:
    add_many(graph)
    version = graph.version
    answer = view.ask("arrange")
    assert (answer["message"], answer["ops"], answer["version"]) == ("committed", [], version)
    assert view.edit({"op": "moveNode", "name": "fc1", "position": [1, 2]}, base=version)["version"] == version + 1
    assert view.edit({"op": "addNode", "name": "late", "type": "ReLU"}, base=version)["version"] == version + 2
    held.set()
    undone = view.ask("undo")
    assert undone["label"] == "Undo: Arrange", "what follows in order waits for it"
    arranged = next(event for event in view.events if event.get("label") == "Arrange")
    assert (arranged["client"], arranged["id"]) == (view.client, None)
    assert {op["name"] for op in arranged["ops"]} >= {"x", "fc1", "late"}, "and what was added meanwhile has its place"


def test_what_went_meanwhile_is_told(view: View, graph: pn.NodeGraph, held: threading.Event) -> None:
    add_many(graph)
    view.ask("arrange", nodes=["relu0", "relu1"])
    graph.remove("relu1")
    held.set()
    assert "There is no node 'relu1'" in view.wait_for("rejected")["error"]


def test_a_closed_editor_arranges_no_more(
    editor: GraphEditor, view: View, graph: pn.NodeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    def arrange_for_ever(*_: Any, **__: Any) -> None:
        began.set()
        while True:
            breathe()

    monkeypatch.setattr(document, "arrangement", arrange_for_ever)
    add_many(graph)
    view.ask("arrange")
    assert began.wait(60)
    editor.close()
    assert "pnne-arrange" not in {thread.name for thread in threading.enumerate()}


def test_what_was_arranged_for_looking_only_is_never_taken_for_the_document(view: View, graph: pn.NodeGraph) -> None:
    view.editor.read_only = True
    known = view.ask("sync", version=graph.version)
    assert known["document"] is not None
    view.editor.read_only = False
    assert view.ask("sync", version=known["version"])["document"] != known["document"]
    graph.set("fc1", bias=False)
    assert view.ask("sync", version=graph.version)["document"] is None


def test_source_of_an_unfinished_graph_comes_with_what_is_missing(view: View, graph: pn.NodeGraph) -> None:
    graph.disconnect("x", "fc1")
    answer = view.ask("getSource")
    assert answer["message"] == "source"
    assert "fc1" in answer["error"]


def test_a_failure_in_python_is_shown_and_logged(
    view: View, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pnne_nb.widgets.editor.open_views.located_source", lambda graph: 1 // 0)
    answer = view.ask("getSource")
    assert answer["error"] == "Python failed with ZeroDivisionError: integer division or modulo by zero"
    assert "A request of the editor failed" in caplog.text


def test_a_read_only_editor_only_shows(view: View, graph: pn.NodeGraph) -> None:
    view.editor.read_only = True
    assert view.edit({"op": "removeNode", "name": "x"})["error"] == "The editor is read-only."
    assert view.ask("undo")["error"] == "The editor is read-only."
    assert view.ask("sync")["message"] == "snapshot"
    graph.remove("x")
    assert any(event["message"] == "committed" for event in view.events)


def test_who_may_only_look_sees_what_was_never_arranged_in_order(view: View, graph: pn.NodeGraph) -> None:
    graph.group(["fc1"], name="block")
    version, before = graph.version, graph.to_json()
    view.editor.read_only = True
    graphs = json.loads(view.ask("sync")["document"])["graphs"]
    for id in ("", "block"):
        places = [tuple(node["position"]) for node in graphs[id]["nodes"]]
        assert len(set(places)) == len(places) > 1
    assert (graph.version, graph.to_json()) == (version, before)
    view.editor.read_only = False
    assert view.events[-1]["message"] == "snapshot", "the page learns what has no place, and has it arranged"
    inside = json.loads(view.events[-1]["document"])["graphs"]["block"]["nodes"]
    assert all("position" not in node for node in inside)


def test_there_is_no_model_while_shapes_do_not_fit(editor: GraphEditor, graph: pn.NodeGraph) -> None:
    model = model_of(editor)
    assert model is not None
    graph.set("fc1", in_features=5)
    assert model_of(editor) is None
    graph.undo()
    assert model_of(editor) is not None


def test_the_model_follows_the_document_and_keeps_weights(editor: GraphEditor, graph: pn.NodeGraph) -> None:
    model = model_of(editor)
    assert model is not None
    assert editor.model is model
    weight = model.get_parameter("fc1.weight").detach().clone()
    graph.move("fc1", 1, 2)
    assert model_of(editor) is model
    graph.disconnect("fc1", "y")
    assert model_of(editor) is None
    assert [(found.code, found.node) for found in editor.diagnostics] == [("unconnected-input", "y")]
    graph.add("ReLU", name="relu1")
    graph.connect("fc1", "relu1")
    graph.connect("relu1", "y")
    again = model_of(editor)
    assert again is not None
    assert torch.equal(again.get_parameter("fc1.weight"), weight)
    assert again(torch.zeros(2, 4)).shape == (2, 3)


def test_inside_a_transaction_nothing_is_worked_out(editor: GraphEditor, graph: pn.NodeGraph) -> None:
    model, diagnostics = model_of(editor), editor.diagnostics
    with graph.transaction():
        graph.remove("y")
        assert model_of(editor) is model
        assert editor.diagnostics == diagnostics
    assert model_of(editor) is None


def test_selection_follows_a_rename(editor: GraphEditor, graph: pn.NodeGraph) -> None:
    graph.group(["fc1"], name="block")
    editor.set_state({"selection": ["x", "block.fc1"]})
    graph.rename("block.fc1", "stem")
    assert selected(editor) == ("x", "block.stem")
    with graph.transaction("Rename all"):
        graph.rename("block", "trunk")
        graph.rename("x", "image")
        graph.rename("trunk.stem", "first")
    assert selected(editor) == ("image", "trunk.first")
    graph.undo()
    assert selected(editor) == ("x", "block.stem")


def test_selection_loses_what_is_gone(editor: GraphEditor, graph: pn.NodeGraph) -> None:
    editor.set_state({"selection": ["x", "fc1"]})
    assert selected(editor) == ("x", "fc1")
    graph.remove("fc1")
    assert selected(editor) == ("x",)


def test_a_registered_node_appears_in_every_open_editor_at_once(graph: pn.NodeGraph) -> None:
    editors = [GraphEditor(graph), GraphEditor(pn.NodeGraph("another"))]
    views = [View(editor) for editor in editors]

    @pn.register_node(category="Mine", replace=True)
    def editor_test_double(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        return x * factor

    for view in views:
        told = view.wait_for("nodeTypeAdded")["type"]
        assert (told["type"], told["category"]["name"]) == ("editor_test_double", "Mine")
        assert [prop["name"] for prop in told["properties"]] == ["factor", "inside", "ablate", "promoted"]
    assert views[0].edit({"op": "addNode", "name": "d", "type": "editor_test_double"})["message"] == "committed"
    for editor in editors:
        editor.close()


def test_marks_of_ones_own_are_told_to_every_page(view: View) -> None:
    def told() -> list[dict[str, Any]]:
        return [event["marks"] for event in view.events if event["message"] == "marks"]

    view.editor.marks = {"fc1": "12 ms", "x": pn.NodeMark("slow", "warning", "It waits.")}
    assert view.editor.marks == {"fc1": pn.NodeMark("12 ms"), "x": pn.NodeMark("slow", "warning", "It waits.")}
    marks = {"fc1": {"text": "12 ms", "level": "plain", "title": ""}}
    marks["x"] = {"text": "slow", "level": "warning", "title": "It waits."}
    assert told() == [marks]
    view.ask("sync")
    assert told() == [marks, marks]
    view.editor.marks = {}
    assert told()[-1] == {}
    with pytest.raises(pn.ArgumentError, match=r"marks\['fc1'\] must be a text or a pn.NodeMark"):
        view.editor.marks = {"fc1": 12}  # type: ignore[dict-item]  # on purpose


def test_requests_may_come_on_any_thread(view: View, graph: pn.NodeGraph) -> None:
    def draw(number: int) -> None:
        op = {"op": "addNode", "name": f"n{number}", "type": "ReLU"}
        view.say({"message": "edit", "id": 100 + number, "client": "other", "base": 0, "ops": [op]})

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    commits = [event for event in view.events if event["message"] == "committed"]
    assert [event["version"] for event in commits] == list(range(6, 14))
    assert {event["id"] for event in commits} == set(range(100, 108))


def test_an_analysis_that_fails_says_so(
    view: View, graph: pn.NodeGraph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(view.editor._analysis._analysis, "refresh", fail)
    graph.rename("fc1", "fc2")
    view.wait_for_finding_at("")
    finding = view.editor._analysis.whole.diagnostics[""][0]
    assert finding.code == "analysis-failed"
    assert "RuntimeError: broken" in finding.message
    assert "The analysis of NodeGraph" in caplog.text


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="A GraphEditor edits a NodeGraph, not a dict"):
        GraphEditor({})  # type: ignore[arg-type]  # that is the point


def test_a_missing_front_end_says_how_to_build_it(
    graph: pn.NodeGraph, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"The front end is not built: .*editor.js is missing. Run `npm ci"):
        GraphEditor(graph)


def test_a_closed_editor_leaves_nothing_behind(graph: pn.NodeGraph) -> None:
    gone: list[weakref.ref[object]] = []
    pn.compile(graph)
    watching = len(graph._ledger.delivery)  # what follows the renamings of a compiled document lives as long as it
    for _ in range(5):
        editor = GraphEditor(graph)
        assert editor.model is not None
        gone.append(weakref.ref(editor))
        gone.append(weakref.ref(editor._analysis))
        editor.close()
        del editor
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)
    assert len(graph._ledger.delivery) == watching
    graph.apply([AddNode("relu1", "ReLU")])


def test_editors_of_one_graph_share_one_analysis(graph: pn.NodeGraph) -> None:
    editors = [GraphEditor(graph) for _ in range(3)]
    assert len({editor._analysis for editor in editors}) == 1
    assert len(graph._ledger.delivery) == 1 + len(editors)
    editors[0].close()
    graph.set("fc1", out_features=9)
    views = [View(editor) for editor in editors]
    assert editors[1].diagnostics == []
    assert [len([event for event in view.events if event["message"] == "derivedChanged"]) for view in views[1:]]
    for editor in editors:
        editor.close()
    assert len(graph._ledger.delivery) == 0


def test_a_closed_editor_still_answers_python(graph: pn.NodeGraph) -> None:
    editor = GraphEditor(graph)
    editor.close()
    graph.disconnect("x", "fc1")
    assert [(found.code, found.node) for found in editor.diagnostics] == [("unconnected-input", "fc1")]
    graph.connect("x", "fc1")
    assert editor.diagnostics == []
    assert model_of(editor) is not None
    assert editor._analysis._analysis is None


class Shown:
    """What a cell shows, caught."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bundles: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        monkeypatch.setattr("pnne_nb.widgets.host.static_picture.display", self._display)
        monkeypatch.setattr(
            "pnne_nb.widgets.host.static_picture.DisplayHandle.update", lambda _, data, **__: self.updates.append(data)
        )

    def _display(self, bundle: dict[str, Any], **_: object) -> None:
        self.bundles.append(bundle)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


def test_a_cell_gets_the_editor_and_a_picture_that_stays(editor: GraphEditor, shown: Shown) -> None:
    editor._ipython_display_()
    widget, picture = shown.bundles
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert picture["text/plain"] == 'Picture of NodeGraph "net": 3 nodes, 2 edges'
    assert "fc1, Linear, 4→3, from x.output (N×4)" in picture["text/html"]
    assert editor.to_svg() == editor.graph.to_svg(shapes=pn.infer_shapes(editor.graph))


def test_the_picture_follows_gestures_and_not_code(view: View, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Any] = []

    class Timer:
        daemon = False

        def __init__(self, _seconds: float, action: Any) -> None:
            self.action = action

        def start(self) -> None:
            waiting.append(self)

        def cancel(self) -> None:
            waiting.remove(self)

    monkeypatch.setattr("pnne_nb.widgets.host.static_picture.threading.Timer", Timer)
    view.editor._ipython_display_()
    view.editor.graph.rename("fc1", "fc")
    assert waiting == []
    view.edit({"op": "renameNode", "name": "fc", "newName": "head"})
    view.edit({"op": "moveNode", "name": "head", "position": [1, 2]})
    waiting.pop().action()
    assert shown.updates == []
    waiting.pop().action()
    assert "<li>head, Linear" in shown.updates[0]["text/html"]
    view.edit({"op": "moveNode", "name": "head", "position": [3, 4]})
    view.editor.close()
    assert waiting == []


def test_one_that_was_closed_opens_again_when_it_is_shown(graph: pn.NodeGraph, shown: Shown) -> None:
    editor = GraphEditor(graph)
    editor.close()
    editor._ipython_display_()
    assert "application/vnd.jupyter.widget-view+json" in shown.bundles[0]
    view = View(editor)
    assert view.edit({"op": "renameNode", "name": "fc1", "newName": "fc"})["message"] == "committed"
    editor.close()
    assert len(graph._ledger.delivery) == 0


def test_a_number_that_is_sent_back_keeps_its_kind(view: View, graph: pn.NodeGraph) -> None:
    graph.add("Constant", name="c", value=(1.0, True))
    for value, stored in (([1, True], (1.0, True)), ([1, 1], (1, 1)), ([2, True], (2, True))):
        graph.set("c", value=(1.0, True))
        view.edit({"op": "setProperty", "node": "c", "property": "value", "value": value})
        assert repr(graph["c"].properties["value"]) == repr(stored)
    assert view.edit({"op": "setProperty", "node": "gone", "property": "value", "value": 1})["message"] == "rejected"


def test_a_message_that_is_too_large_is_refused(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pnne_nb.protocol.codec.MAX_BYTES", 2 << 20)
    answer = view.edit({"op": "renameDocument", "name": "x" * (3 << 20)})
    assert "The editor's message is too large: 3 MiB, and at most 2 MiB are read." in answer["error"]


def test_nested_graphs_are_edited_through_the_protocol(view: View, graph: pn.NodeGraph) -> None:
    assert view.ask("group", nodes=["fc1"], name="block")["history"] == {"undo": "Group block", "redo": None}
    inner = graph["block"].definition
    assert view.ask("group", nodes=["fc1"], name="core", graph=inner)["label"] == "Group core"
    assert graph["block.core.fc1"].type == "Linear"
    answer = view.ask("arrange", graph=inner)
    assert (answer["label"], answer["history"]["undo"]) == ("Arrange", "Arrange")
    assert {op["graph"] for op in answer["ops"]} == {inner}
    assert view.ask("undo")["label"] == "Undo: Arrange"
    assert view.ask("ungroup", node="core", graph=inner)["history"]["undo"] == "Ungroup core"
    assert graph["block.fc1"].type == "Linear"
    for label in ("Ungroup core", "Group core", "Group block"):
        assert view.ask("undo")["label"] == f"Undo: {label}"
    assert list(graph.nodes) == ["x", "fc1", "y"]
    assert view.ask("redo")["label"] == "Redo: Group block"


def test_editors_of_one_graph_see_the_same_in_the_same_order(graph: pn.NodeGraph) -> None:
    views = [View(GraphEditor(graph), name) for name in ("one", "two")]
    base = graph.version
    for number in range(4):
        op = {"op": "addNode", "name": f"n{number}", "type": "ReLU"}
        assert views[number % 2].edit(op, base=base)["message"] == "committed"
    views[0].ask("undo")
    commits = [[event for event in view.events if event["message"] == "committed"] for view in views]
    assert commits[0] == commits[1]
    assert [event["version"] for event in commits[0]] == list(range(base + 1, base + 6))
    for view in views:
        view.editor.close()


def test_blocks_are_published_to_every_editor_and_withdrawn(graph: pn.NodeGraph, view: View) -> None:
    graph.group(["fc1"], name="block")
    other = GraphEditor(pn.NodeGraph("other"))
    there = View(other, "there")
    try:
        answer = view.ask("publish", node="block", name="Dense")
        assert answer["message"] == "blocks"
        assert [node["name"] for node in answer["document"]["graphs"][""]["nodes"]] == ["Dense"]
        assert there.wait_for("blocks")["document"] == answer["document"]
        assert there.ask("sync")["message"] == "snapshot"
        assert there.wait_for("blocks", 2)["document"] == answer["document"], "who opens later is told too"
        assert "only a Subgraph node can become a block" in view.ask("publish", node="x", name="Dense")["error"]
        assert "this is not JSON" in view.ask("loadBlocks", text="{")["error"]
        text = pn.blocks.graph.to_json()
        assert view.ask("unpublish", name="Dense")["document"]["graphs"][""].get("nodes", []) == []
        assert view.ask("loadBlocks", text=text)["document"] == answer["document"]
        assert list(pn.blocks) == ["Dense"]
    finally:
        other.close()
        for name in list(pn.blocks):
            pn.blocks.remove(name)


def test_looks_change_no_model(graph: pn.NodeGraph, editor: GraphEditor) -> None:
    model = editor.model
    graph.collapse("fc1")
    graph.frames.add("Head", around=["fc1"])
    graph.frames.move("frame1", 8, 8)
    assert editor.model is model


def test_later_editors_find_the_front_end_that_the_page_has(graph: pn.NodeGraph, view: View) -> None:
    view.ask("sync")
    whole = bundle.bundled("editor.js")
    later = GraphEditor(graph)
    assert len(later._esm) < len(whole) // 100
    assert later.bundle_key == view.editor.bundle_key == bundle.key_of(whole)
    assert View(later).ask("getBundle")["text"] == whole, "a page that was loaded anew has to ask"
    later.close()


def test_what_a_program_changes_by_the_thousand_arrives_as_a_few_messages(view: View, graph: pn.NodeGraph) -> None:
    for number in range(1_000):
        graph.add("ReLU", name=f"n{number}")
    view.wait_for("snapshot")
    with view.arrived:
        assert view.arrived.wait_for(lambda: view.events[-1].get("version") == graph.version, 60)
    told = [event for event in view.events if event["message"] in ("committed", "snapshot")]
    assert len(told) < 300, "a Jupyter server drops what comes faster"
    assert told[0]["message"] == "committed", "the first is told at once"
    answer = view.edit({"op": "removeNode", "name": "n999"}, base=graph.version)
    assert answer["message"] == "committed", "who asks is answered, whatever else goes on"


def test_what_is_folded_is_kept_by_today_s_names(editor: GraphEditor, graph: pn.NodeGraph) -> None:
    editor.set_state({"folded": ["fc1"]})
    graph.rename("fc1", "stem")
    assert tuple(editor.folded) == ("stem",)
    graph.remove("stem")
    assert tuple(editor.folded) == ()


def test_a_module_is_imported_and_keeps_its_weights() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    x = torch.randn(2, 4)
    editor = pn.GraphEditor(net, args=(x,))
    assert editor.model is not None
    assert torch.equal(editor.model(x), net(x))
    editor.close()
    empty = pn.GraphEditor()
    assert len(empty.graph) == 0
    empty.close()


def test_a_module_that_fails_is_shown_with_a_frame_around_the_node_that_does() -> None:
    editor = pn.GraphEditor(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(5, 2)), args=(torch.ones(2, 3),))
    [name] = editor.graph.frames
    assert editor.graph.frames.held(name).nodes == ("1",)
    editor.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": torch.nn.ReLU()}, r"A module is imported by a call: pn.GraphEditor\(net, args=\(x,\)\)"),
        ({"graph": pn.NodeGraph(), "input_size": (2, 3)}, "belong to a module that is imported"),
        ({"graph": torch.nn.ReLU(), "input_size": 3}, r"input_size must be a shape such as \(2, 3\)"),
        ({"graph": torch.nn.ReLU(), "input_size": (2,), "args": (1,)}, "Give args or input_size, not both"),
    ],
)
def test_what_cannot_be_edited_is_answered_with_what_to_write(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(pn.ArgumentError, match=message):
        pn.GraphEditor(**arguments)
