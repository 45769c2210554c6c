from __future__ import annotations

import random
import threading

import msgspec
import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.compiler.shapes import trial as trying
from pnne_nb.graph.model.lint import MAX_NODES
from pnne_nb.protocol.messages import Derived, TensorShape
from tests.compiler import graphs

NOTHING = Derived()


def test_the_first_delta_tells_everything() -> None:
    with IncrementalAnalysis(graphs.lenet()) as analysis:
        delta = analysis.refresh()
        assert delta.shapes["conv1.output"] == TensorShape(("N", 6, 24, 24), "float32")
        assert delta.resolved == {"conv2": {"in_channels": 6}, "fc": {"in_features": 256}}
        assert {path: cost.parameters for path, cost in delta.costs.items() if cost and cost.parameters} == {
            "conv1": 156,
            "conv2": 2416,
            "fc": 2570,
        }
        assert delta.diagnostics == {}
        assert analysis.refresh() == NOTHING


def test_an_edit_tells_only_what_it_changed() -> None:
    graph = graphs.lenet()
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        graph.set("conv2", out_channels=8)
        delta = analysis.refresh()
        assert set(delta.shapes) == {"conv2.output", "relu2.output", "pool2.output", "flat.output"}
        assert delta.resolved == {"fc": {"in_features": 128}}
        assert set(delta.costs) == {"conv2", "relu2", "pool2", "flat", "fc"}


def test_only_what_really_changed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.lenet()
    tried: list[str] = []
    run = trying._Trial.run

    def counting(trial: trying._Trial) -> trying.Outcome:
        tried.append(trial._spec.type)
        return run(trial)

    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        trying.forget()
        monkeypatch.setattr(trying._Trial, "run", counting)
        graph.set("conv2", padding=0, stride=1)
        analysis.refresh()
        assert tried == ["Conv2d"], "its output is as before, so nothing behind it is looked at"
        graph.set("fc", bias=False)
        graph.move("fc", x=1, y=1)
        analysis.refresh()
        assert tried == ["Conv2d", "Linear"]


def test_moving_and_renaming_the_document_change_nothing() -> None:
    graph = graphs.mlp()
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        graph.move("fc1", x=3, y=4)
        graph.name = "other"
        assert analysis.refresh() == NOTHING


def test_a_size_that_follows_from_drawn_data_is_no_problem() -> None:
    graph = pn.NodeGraph("drawn")
    graph.add("Linear", name="hidden", out_features=4)
    graph.add("Linear", name="x2", in_features=4, out_features=2)
    graph.connect("hidden", "x2")
    with IncrementalAnalysis(graph) as analysis:
        [found] = [one for one in analysis.diagnostics if one.code == "auto-unresolved"]
        assert found.severity == "warning"
        graph.add("Dataset", name="wine", source="wine")
        graph.add("DataLoader", name="batches", batch_size=4)
        graph.connect("wine", "batches", "hidden")
        [found] = [one for one in analysis.diagnostics if one.code == "auto-unresolved"]
        assert (found.severity, found.hint) == ("info", None)
        assert found.message == "in_features is 'auto': it follows from the data, which are opened for the training."
        graph.remove("batches")
        assert "hidden" in {one.node for one in analysis.diagnostics}


def test_findings_come_and_go() -> None:
    graph = graphs.mlp()
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        graph.set("fc2", in_features=9)
        delta = analysis.refresh()
        assert delta.diagnostics["fc2"][0].code == "shape-mismatch"
        assert delta.shapes["fc2.output"] is None
        assert [d.node for d in analysis.diagnostics] == ["fc2"]
        graph.undo()
        assert analysis.refresh().diagnostics == {"fc2": ()}
        graph.disconnect("x", "fc1")
        assert analysis.refresh().diagnostics["fc1"][0].code == "unconnected-input"
        graph.remove("fc1")
        delta = analysis.refresh()
        assert delta.diagnostics["fc1"] == ()
        assert delta.diagnostics["act"][0].code == "unconnected-input"
        assert delta.costs["fc1"] is None
        assert delta.shapes == {"fc1.output": None} or "fc1.output" not in analysis.shapes


def test_nested_graphs_are_followed_by_path() -> None:
    graph = graphs.nested()
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        graph.set("layer1.0", out_features=5)
        delta = analysis.refresh()
        assert delta.shapes["layer1.0.output"] == TensorShape(("N", 5), "float32")
        assert delta.diagnostics["layer2.0"][0].code == "shape-mismatch"
        assert analysis.costs["layer1"].parameters == 35
        graph.undo()
        analysis.refresh()
        graph.ungroup("layer2")
        delta = analysis.refresh()
        assert delta.shapes["layer2.0.output"] is None


def test_the_document_without_input_or_output_says_so() -> None:
    graph = pn.NodeGraph("empty")
    with IncrementalAnalysis(graph) as analysis:
        assert {d.code for d in analysis.refresh().diagnostics[""]} == {"no-input", "no-output"}
        graph.add("Input", "x")
        assert {d.code for d in analysis.refresh().diagnostics[""]} == {"no-output"}


def test_a_type_that_is_registered_later_is_noticed() -> None:
    graph = graphs.mlp()
    text = graph.to_json().replace('"Tanh"', '"LateTanh"')
    graph = pn.NodeGraph.from_json(text)
    with IncrementalAnalysis(graph) as analysis:
        assert analysis.refresh().diagnostics["act"][0].code == "unknown-type"

        class LateTanh(nn.Module):
            def forward(self, input: torch.Tensor) -> torch.Tensor:
                return input.tanh()

        pn.register_node(category="Custom", replace=True)(LateTanh)
        delta = analysis.refresh()
        assert delta.diagnostics["act"] == ()
        assert delta.shapes["y.output" if "y.output" in delta.shapes else "fc2.output"] is not None


def random_edit(graph: pn.NodeGraph, rng: random.Random) -> None:
    names = [name for name, node in graph.nodes.items() if node.type not in ("Input", "Output")]
    try:
        match rng.randrange(9):
            case 0:
                graph.set("x", shape=("N", rng.choice([4, 6, "D"])))
            case 1:
                graph.add("Linear", in_features=rng.choice([4, 5, "auto"]), out_features=rng.choice([4, 5]))
            case 2:
                graph.add(rng.choice(["ReLU", "add", "relu"]))
            case 3 | 4:
                graph.connect(rng.choice(["x", *names]), rng.choice([*names, "y"]))
            case 5:
                edge = rng.choice(graph.edges)
                graph.disconnect(*edge)
            case 6:
                graph.remove(rng.choice(names))
            case 7:
                graph.undo()
            case _:
                picked = rng.sample(names, min(len(names), 2))
                nested = [name for name in picked if graph[name].definition is not None]
                graph.ungroup(nested[0]) if nested else graph.group(picked)
    except (pn.GraphError, IndexError):
        pass


@pytest.mark.parametrize("seed", range(4))
def test_deltas_always_add_up_to_what_a_fresh_look_finds(seed: int) -> None:
    rng = random.Random(seed)
    graph = pn.NodeGraph("random")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Output", "y")
    state = Derived()
    with IncrementalAnalysis(graph) as analysis:
        for _ in range(60):
            random_edit(graph, rng)
            delta = analysis.refresh()
            for table in ("shapes", "resolved", "costs", "diagnostics"):
                known = getattr(state, table)
                for path, entry in getattr(delta, table).items():
                    if entry is None or entry == ():
                        known.pop(path, None)
                    else:
                        known[path] = entry
            if delta.example is not None:
                state = msgspec.structs.replace(state, example=delta.example)
            with IncrementalAnalysis(graph) as fresh:
                assert fresh.refresh() == state
                assert fresh.shapes == analysis.shapes


def test_edits_and_refreshes_from_several_threads() -> None:
    graph = graphs.lenet()
    errors: list[BaseException] = []
    with IncrementalAnalysis(graph) as analysis:

        def refresh() -> None:
            try:
                for _ in range(30):
                    analysis.refresh()
            except BaseException as error:  # noqa: BLE001  # handed to the test
                errors.append(error)

        threads = [threading.Thread(target=refresh) for _ in range(3)]
        for thread in threads:
            thread.start()
        for width in range(1, 40):
            graph.set("conv1", out_channels=width)
        for thread in threads:
            thread.join()
        analysis.refresh()
        assert errors == []
        assert analysis.shapes["conv1.output"].shape == ("N", 39, 24, 24)


def test_a_closed_analysis_follows_no_more() -> None:
    graph = graphs.mlp()
    analysis = IncrementalAnalysis(graph)
    analysis.refresh()
    analysis.close()
    assert len(graph._ledger.delivery) == 0


def test_graphs_nested_deeper_than_python_can_call_are_refused() -> None:
    graph = pn.NodeGraph("deep")
    graph.add("Input", "x", shape=("N", 2))
    graph.add("ReLU", "act")
    graph.add("Output", "y")
    graphs.wire(graph, "x act y")
    with IncrementalAnalysis(graph) as analysis:
        name = "act"
        for level in range(60):
            name = graph.group([name], f"level{level}").name
            if level == 48:
                assert pn.compile(graph)(-torch.ones(1, 2)).tolist() == [[0, 0]]
                assert analysis.refresh().diagnostics == {}
        assert [d.code for d in analysis.refresh().diagnostics[""]] == ["too-deep"]
        with pytest.raises(pn.CompileError, match="nested more than 50 deep"):
            pn.compile(graph)
        for _ in range(30):
            graph.undo()
        assert analysis.refresh().diagnostics[""] == ()


def test_a_document_that_nests_its_way_to_billions_is_refused() -> None:
    graph = pn.NodeGraph("bomb")
    graph.add("Input", "x", shape=("N", 2))
    graph.add("ReLU", "act")
    graph.add("Output", "y")
    graphs.wire(graph, "x act y")
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        inner = graph.group(["act"], "level0")
        for level in range(1, 40):
            twin = graph.add("Subgraph", f"twin{level}", definition=inner.definition)
            inner = graph.group([inner.name, twin.name], f"level{level}")
        delta = analysis.refresh()
        assert delta.diagnostics[""][0].code == "too-large"
        assert str(MAX_NODES) in delta.diagnostics[""][0].message
        graph.undo()
        for _ in range(77):
            graph.undo()
        assert analysis.refresh().diagnostics[""] == ()
