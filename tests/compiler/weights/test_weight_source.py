"""Weights belong to the graph: every function that takes a graph uses those that it came with, or says that they are gone."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import pnne_nb as pn

X = torch.linspace(-1, 1, 2 * 64).reshape(2, 1, 8, 8)


def trained() -> nn.Sequential:
    """A net whose weights no constructor draws, and whose first layer is frozen."""
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    with torch.no_grad():
        for place, parameter in enumerate(net.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape).add(place / 7).sin())
    net[0].requires_grad_(requires_grad=False)
    return net.eval()


def drawn() -> pn.NodeGraph:
    return pn.sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5), input=("N", 1, 8, 8))


def data(classes: int = 5) -> tuple[Tensor, Tensor]:
    return X.repeat(8, 1, 1, 1), torch.arange(16) % classes


def train(graph: pn.NodeGraph | nn.Module, **options: object) -> pn.TrainingEngine:
    engine = pn.TrainingEngine(graph, data(), epochs=1, batch_size=8, device="cpu", **options)  # type: ignore[arg-type]
    engine.start().wait()
    return engine


def predicted(engine: pn.TrainingEngine) -> Tensor:
    with engine.paused() as model:
        found: Tensor = pn.InferenceEngine(model, "cpu").predict(X)
        return found


def renamed(graph: pn.NodeGraph) -> None:
    graph.rename("0", "stem")
    graph.rename("4", "head")


def grouped(graph: pn.NodeGraph) -> None:
    renamed(graph)
    graph.group(["stem", "1"], name="block")
    graph.rename("block.stem", "conv")


def undone(graph: pn.NodeGraph) -> None:
    grouped(graph)
    for _ in range(3):
        graph.undo()
    graph.redo()


def edited(graph: pn.NodeGraph) -> None:
    graph.disconnect("2", "3")
    graph.connect("2", graph.add("Identity", name="between"), "3")


@pytest.mark.parametrize("edit", [None, renamed, grouped, undone, edited])
def test_every_function_takes_the_weights_that_the_graph_was_imported_with(
    edit: Callable[[pn.NodeGraph], None] | None,
) -> None:
    net = trained()
    graph = pn.from_module(net, args=(X,))
    if edit is not None:
        edit(graph)
    wanted = net(X)
    assert torch.equal(pn.compile(graph)(X), wanted)
    assert torch.equal(pn.TorchCompiler().compile(graph)(X), wanted)
    assert torch.equal(pn.compile(copy.deepcopy(graph))(X), wanted), "a copy knows what the original knew"
    assert torch.equal(pn.InferenceEngine(graph, "cpu").predict(X), wanted)
    engine = pn.TrainingEngine(graph, data(), device="cpu")
    assert torch.equal(engine.model.eval()(X), wanted)
    assert "weights of the imported Sequential" in repr(engine)
    done = pn.transform(graph, [pn.passes.RemoveDeadNodes()], args=(X,))
    assert torch.equal(done.model(X), wanted)
    fused = pn.optimize_for_inference(graph, args=(X,))
    torch.testing.assert_close(fused.model(X), wanted)
    torch.testing.assert_close(pn.compile(fused.graph)(X), wanted)
    quantized = pn.quantize(graph, data(), kind="weight_only")
    torch.testing.assert_close(pn.compile(quantized.graph)(X), quantized.model(X))
    torch.testing.assert_close(quantized.model(X), wanted, atol=0.3, rtol=0.1)


def test_a_file_has_the_weights_that_the_graph_was_imported_with_and_the_report_says_so(tmp_path: Path) -> None:
    net = trained()
    graph = pn.from_module(net, args=(X,))
    grouped(graph)
    graph.set("head", out_features=3)
    report = pn.export(graph, tmp_path / "net.safetensors", data=X)
    assert report.ok
    said = "The weights are those of the imported Sequential. Those of head are initial ones: they are not there."
    assert said in report.notes
    kept = load_file(tmp_path / "net.safetensors")
    assert torch.equal(kept["block.conv.weight"], net.get_parameter("0.weight"))


def test_layers_that_were_frozen_stay_frozen_at_their_values() -> None:
    net = trained()
    graph = pn.from_module(net, args=(X,))
    engine = train(graph)
    assert not engine.model.get_parameter("0.weight").requires_grad
    assert torch.equal(engine.model.get_parameter("0.weight"), net.get_parameter("0.weight"))
    assert not torch.equal(engine.model.get_parameter("4.weight"), net.get_parameter("4.weight"))


def test_an_editor_of_a_module_gives_its_graph_the_weights() -> None:
    editor = pn.GraphEditor(trained(), args=(X,))  # nobody else keeps the module
    try:
        assert torch.equal(pn.compile(editor.graph)(X), trained()(X))
        assert editor.model is not None
        with torch.no_grad():
            editor.model.get_parameter("4.bias").add_(1)
        assert torch.equal(pn.compile(editor.graph)(X), trained()(X) + 1), "what is on the screen"
        engine = pn.TrainingEngine(editor.graph, data(), device="cpu")
        assert torch.equal(engine.model.eval()(X), trained()(X)), "a training starts from the import"
    finally:
        editor.close()


def test_a_model_is_used_with_the_weights_of_the_latest_training_and_a_training_starts_as_the_graph_came() -> None:
    graph = drawn()
    engine = train(graph)
    assert "fresh weights" in repr(engine)
    wanted = predicted(engine)
    assert torch.equal(pn.compile(graph)(X), wanted)
    assert torch.equal(pn.InferenceEngine(graph, "cpu").predict(X), wanted)
    again = train(graph)
    for name, value in engine.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), "two trainings with one seed are equal"
    on = pn.TrainingEngine(graph, data(), reuse=engine.model, device="cpu")
    assert torch.equal(predicted(on), wanted)
    assert not torch.equal(pn.compile(graph, reuse=None)(X), wanted)


def test_a_training_of_a_compiled_model_is_one_of_its_graph() -> None:
    graph = drawn()
    engine = train(pn.compile(graph))
    assert torch.equal(pn.compile(graph)(X), predicted(engine))


def test_a_graph_keeps_the_net_that_nobody_else_keeps(tmp_path: Path) -> None:
    graph = pn.from_module(trained(), args=(X,))
    pn.save(graph, pn.compile(graph), tmp_path / "net.zip")
    loaded = pn.load(tmp_path / "net.zip")[0]
    gc.collect()
    for each in (graph, loaded):
        assert torch.equal(pn.compile(each)(X), trained()(X))


def test_a_running_training_is_read_between_two_steps() -> None:
    graph = drawn()
    engine = pn.TrainingEngine(graph, data(), epochs=1, batch_size=8, device="cpu")
    engine.step()
    assert torch.equal(pn.compile(graph)(X), predicted(engine))
    engine.stop()


def test_weights_that_are_gone_are_told_once_with_the_layers_and_the_line_to_write() -> None:
    graph = pn.NodeGraph.from_json(pn.from_module(trained(), args=(X,)).to_json())
    said = r"the weights of 0, 1, 4 are not there, because a graph file holds none\..*pn\.compile\(graph, reuse=net\)"
    with pytest.warns(UserWarning, match=said) as seen:
        pn.compile(graph)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    with pytest.warns(
        UserWarning, match=r'pn\.load_weights\(graph, "weights\.safetensors"\); reuse=None asks for fresh'
    ):
        pn.TrainingEngine(graph, data(), device="cpu")
    assert not pn.compile(graph, reuse=None).get_parameter("0.weight").requires_grad, "what was frozen stays frozen"


def test_random_weights_are_not_shipped_where_the_real_ones_are_gone(tmp_path: Path) -> None:
    graph = pn.NodeGraph.from_json(pn.from_module(trained(), args=(X,)).to_json())
    said = "the weights of 0, 1, 4 are not there, because a graph file holds none"
    with pytest.raises(pn.ExportError, match=said):
        pn.export(graph, tmp_path / "net.safetensors", data=X)
    assert not (tmp_path / "net.safetensors").exists()
    with pytest.raises(pn.CompileError, match=said) as refused:
        pn.InferenceEngine(graph, "cpu")
    assert [each.node for each in refused.value.diagnostics] == ["0", "1", "4"]
    with pytest.raises(pn.ExportError, match=said):
        pn.quantize(graph, data())
    with pytest.raises(pn.CompileError, match=said):
        pn.optimize_for_inference(graph, args=(X,))
    with pytest.raises(pn.ExportError, match=said):
        pn.compare_targets(graph, data(), targets=["eager"])
    report = pn.export(graph, tmp_path / "net.safetensors", data=X, reuse=None)
    assert "The graph holds no trained weights: the file has initial ones." in report.notes
    assert torch.equal(pn.InferenceEngine(graph, "cpu", reuse=trained()).predict(X), trained()(X))


def test_a_training_whose_engine_is_gone_is_missed_and_not_forgotten(tmp_path: Path) -> None:
    graph = drawn()
    train(graph)
    gc.collect()
    with pytest.raises(pn.ExportError, match="because a training of this graph is gone"):
        pn.export(graph, tmp_path / "net.safetensors", data=X)


def test_looking_at_a_graph_without_its_weights_says_nothing() -> None:
    graph = pn.NodeGraph.from_json(pn.from_module(trained(), args=(X,)).to_json())
    pn.summary(graph, X)
    pn.plan_memory(graph, args=(X,))
    pn.to_source(graph)


def test_a_package_gives_its_graph_the_weights(tmp_path: Path) -> None:
    net = trained()
    graph = pn.from_module(net, args=(X,))
    pn.save(graph, pn.compile(graph), tmp_path / "net.pnne")
    loaded, model = pn.load(tmp_path / "net.pnne")
    assert torch.equal(pn.compile(loaded)(X), model(X))
    assert torch.equal(pn.compile(loaded)(X), net(X))


def test_a_training_graph_trains_the_weights_of_the_module_that_it_was_made_around() -> None:
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    for inside in (False, True):
        graph = pn.from_module(net, args=(torch.zeros(2, 4),))
        names = [node.name for node in graph.nodes.values() if node.type not in ("Input", "Output")]
        ends = [node.name for node in graph.nodes.values() if node.type in ("Input", "Output")]
        first, last = names[0], names[-1]
        if inside:
            first = last = graph.group(names, name="model").name
        graph.remove(*ends)
        graph.add("Dataset", name="rows", source="variable", data="mine")
        graph.add("DataLoader", name="loader", batch_size=4)
        graph.add("CrossEntropyLoss", name="loss")
        graph.add("AdamW", name="adamw")
        graph.connect("rows", "loader")
        graph.connect("loader.input", first)
        graph.connect(last, "loss.input")
        graph.connect("loader.target", "loss.target")
        graph.connect("loss", "adamw")
        rows = torch.randn(8, 4), torch.arange(8) % 3
        engine = pn.TrainingEngine.from_graph(graph, data={"mine": rows}, device="cpu")
        assert torch.equal(engine.model(rows[0]), net(rows[0]))
        fresh = pn.TrainingEngine.from_graph(graph, data={"mine": rows}, device="cpu", reuse=None)
        assert not torch.equal(fresh.model(rows[0]), net(rows[0]))


def test_a_module_has_its_own_weights() -> None:
    net = trained()
    for make in (
        lambda: pn.TrainingEngine(net, data(), reuse=None),
        lambda: pn.InferenceEngine(net, reuse=net),
        lambda: pn.export(net, "net.safetensors", data=X, reuse=net),
    ):
        with pytest.raises(
            pn.ArgumentError, match=r"must be a NodeGraph where reuse= is given.*has its weights already"
        ):
            make()


def test_what_is_no_source_of_weights_is_refused() -> None:
    engine = train(drawn())
    with pytest.raises(pn.ArgumentError, match=r"Weights come from an nn\.Module, a state_dict.*engine\.model"):
        pn.compile(drawn(), reuse=engine)  # type: ignore[arg-type]
