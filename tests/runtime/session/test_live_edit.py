"""The graph is edited while its training halts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pnne_nb.errors import CompileError, TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime.tasks import engine, picture_graph


def halted(graph: NodeGraph, steps: int = 3, **options: object) -> TrainingEngine:
    trained = engine(model=graph, **options)
    trained.step(steps)
    return trained


def deepen(graph: NodeGraph) -> None:
    """Put a hidden layer between ``flat`` and ``fc``."""
    graph.disconnect("flat.output", "fc.input")
    graph.add("Linear", name="hidden", in_features="auto", out_features=64)
    graph.connect("flat", "hidden")
    graph.connect("hidden", "fc")


def finished(trained: TrainingEngine) -> tuple[list[float], dict[str, torch.Tensor]]:
    trained.resume()
    assert trained.wait(60)
    return trained.history["loss"].tolist(), trained.module.state_dict()


def test_untouched_parameters_keep_weights_and_optimizer_state_and_new_ones_start_fresh() -> None:
    graph = picture_graph()
    trained = halted(graph)
    kernel = trained.module.get_parameter("conv1.weight")
    values, moments = kernel.detach().clone(), trained.optimizer.state[kernel]["exp_avg"].clone()
    model, layer = trained.module, trained.module.get_submodule("conv1")
    deepen(graph)
    trained.step(0 + 1)
    assert trained.module is model
    assert trained.module.get_submodule("conv1") is layer
    assert trained.module.get_parameter("conv1.weight") is kernel
    assert trained.optimizer.state[kernel]["step"].item() == 4
    fresh = trained.module.get_parameter("hidden.weight")
    assert trained.optimizer.state[fresh]["step"].item() == 1
    assert not torch.equal(kernel, values)
    assert not torch.equal(trained.optimizer.state[kernel]["exp_avg"], moments)
    assert trained.history.cuts.tolist() == [3]
    assert "after step 3: hidden.weight, hidden.bias start fresh" in trained.history.anomalies[-1].message
    losses, _ = finished(trained)
    assert len(losses) == 12


def test_an_edit_is_known_until_the_training_follows_it() -> None:
    graph = picture_graph()
    trained = halted(graph)

    def edited() -> bool:
        return trained.edited

    assert not edited()
    graph.move("conv1", 10.0, 10.0)
    assert not edited(), "where a node stands says nothing"
    deepen(graph)
    assert edited()
    for _ in range(4):
        graph.undo()
    assert not edited()
    deepen(graph)
    trained.step(1)
    assert not edited()
    graph.set("hidden", out_features=32)
    trained.step(1)
    # What has another size is not said to be gone, too.
    message = "fc.weight, hidden.weight, hidden.bias start fresh; everything else trains on."
    assert message in trained.history.anomalies[-1].message
    trained.stop()
    assert not engine(model=torch.nn.Linear(4, 2)).edited, "there is no graph"


@pytest.mark.parametrize(
    ("choice", "kept", "scales", "halting"),
    [
        ("Adam", {"exp_avg"}, {"exp_avg_sq"}, {"betas": (1 - 1e-12, 1 - 1e-12)}),
        (("SGD", {"lr": 0.1, "momentum": 0.9}), {"momentum_buffer"}, set(), {"momentum": 1.0, "dampening": 1.0}),
        ("RMSprop", set(), {"square_avg"}, {"alpha": 1.0}),
    ],
)
def test_a_wider_layer_keeps_its_rows_and_the_optimizers_moments(
    choice: Any, kept: set[str], scales: set[str], halting: dict[str, Any]
) -> None:
    graph = picture_graph()
    trained = halted(graph, optimizer=choice)
    model, optimizer = trained.module, trained.optimizer
    old = {key: value.detach().clone() for key, value in model.named_parameters()}
    state = {key: value.clone() for key, value in optimizer.state[model.get_parameter("conv1.weight")].items()}
    bias = model.get_parameter("fc.bias")
    pictures = torch.randn(5, 1, 6, 6)
    expected = model(pictures)
    graph.set("conv1", out_channels=6)
    # The step that follows the edit changes nothing.
    trained.set_optimizer(lr=0.0, **halting)
    trained.step(1)
    torch.testing.assert_close(model(pictures), expected)

    kernel, columns = model.get_parameter("conv1.weight"), model.get_parameter("fc.weight")
    assert torch.equal(kernel[:4], old["conv1.weight"])
    assert torch.equal(columns[:, :64], old["fc.weight"])
    assert not columns[:, 64:].any()
    assert model.get_parameter("fc.bias") is bias
    for key in kept | scales:
        after, mean = optimizer.state[kernel][key], state[key].mean().item() if key in scales else 0.0
        torch.testing.assert_close(after[:4], state[key])
        torch.testing.assert_close(after[4:], torch.full_like(after[4:], mean))
    if "step" in state:
        assert optimizer.state[kernel]["step"].item() == 4
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == {id(p) for p in model.parameters()}
    assert trained.history.anomalies[-1].message == (
        "The graph was edited after step 3: conv1 keeps the first 4 of 6 out_channels, the others start fresh; fc keeps "
        "the first 64 of 96 in_features, the others start at zero; everything else trains on."
    )
    trained.set_optimizer(lr=0.01, **{key: optimizer.defaults[key] for key in halting})
    trained.step(1)
    assert columns[:, 64:].any(), "what starts at zero learns"
    finished(trained)


def test_what_an_optimizer_learned_otherwise_of_a_wider_layer_starts_afresh() -> None:
    graph = picture_graph()
    trained = halted(graph, optimizer="Rprop")
    graph.set("conv1", out_channels=6)
    trained.step(1)
    state = {name: trained.optimizer.state[value]["step"] for name, value in trained.module.named_parameters()}
    assert {name: int(step) for name, step in state.items()} == {
        "conv1.weight": 1,
        "conv1.bias": 1,
        "fc.weight": 1,
        "fc.bias": 4,
    }
    finished(trained)


def test_a_removed_layer_leaves_the_optimizer() -> None:
    graph = picture_graph()
    deepen(graph)
    trained = halted(graph)
    gone = trained.module.get_parameter("hidden.weight")
    graph.remove("hidden")
    graph.connect("flat", "fc")
    trained.step()
    assert gone not in trained.optimizer.state
    assert all(gone is not p for group in trained.optimizer.param_groups for p in group["params"])
    assert "hidden.weight, hidden.bias are gone" in trained.history.anomalies[-1].message
    trained.stop()


@pytest.mark.parametrize("dropped", [False, True])
def test_undoing_the_edit_equals_never_having_edited(dropped: bool) -> None:
    def graph() -> NodeGraph:
        made = picture_graph()
        if dropped:
            made.disconnect("flat.output", "fc.input")
            made.add("Dropout", name="drop", p=0.3)
            made.connect("flat", "drop")
            made.connect("drop", "fc")
        return made

    expected, expected_state = finished(halted(graph()))
    edited = graph()
    trained = halted(edited)
    edited.set("conv1", out_channels=7)
    edited.undo()
    losses, state = finished(trained)
    assert losses == expected
    assert all(torch.equal(state[name], tensor) for name, tensor in expected_state.items())
    assert trained.history.cuts.tolist() == []


def test_a_setting_without_weights_changes_the_layer_and_nothing_else() -> None:
    graph = picture_graph()
    graph.disconnect("flat.output", "fc.input")
    graph.add("Dropout", name="drop", p=0.3)
    graph.connect("flat", "drop")
    graph.connect("drop", "fc")
    trained = halted(graph)
    graph.set("drop", p=0.9)
    trained.step()
    assert getattr(trained.module.get_submodule("drop"), "p") == 0.9  # noqa: B009  an attribute of Dropout only
    assert trained.module.get_submodule("drop").training
    assert trained.history.cuts.tolist() == [3]
    assert trained.history.anomalies[-1].message.endswith("step 3: other settings in drop; everything else trains on.")
    trained.stop()


def test_a_broken_graph_is_refused_and_training_stays_paused() -> None:
    graph = picture_graph()
    trained = halted(graph)
    graph.disconnect("flat.output", "fc.input")
    with pytest.raises(CompileError, match="fc"):
        trained.resume()
    assert trained.state == "paused"
    assert trained.progress.step == 3
    graph.undo()
    losses, _ = finished(trained)
    assert losses == finished(halted(picture_graph()))[0]


def test_an_input_that_the_data_does_not_fit_is_refused() -> None:
    graph = picture_graph()
    trained = halted(graph)
    graph.set("x", shape=("N", 1, 8, 8))
    graph.set("fc", in_features="auto")
    with pytest.raises(TrainingError, match=r"Input node 'x': the node expects shape \(N, 1, 8, 8\)"):
        trained.resume()
    assert trained.state == "paused"
    graph.set("x", shape=("N", 1, 6, 6))
    finished(trained)


def test_parameter_groups_that_no_longer_fit_are_refused() -> None:
    graph = picture_graph()
    trained = halted(graph, parameter_groups={"conv1.*": {"lr": 1e-4}})
    graph.rename("conv1", "stem")
    with pytest.raises(TrainingError, match=r"No trainable parameter has a name like 'conv1\.\*'"):
        trained.resume()
    graph.undo()
    finished(trained)


def test_lbfgs_needs_the_parameters_that_it_knows() -> None:
    graph = picture_graph()
    trained = engine(model=graph, optimizer="LBFGS")
    with graph.transaction("deepen"):
        deepen(graph)
    with pytest.raises(TrainingError, match="LBFGS remembers all parameters as one, and the edit adds or removes some"):
        trained.start()
    graph.undo()
    graph.rename("conv1", "stem")
    assert trained.start().wait(60)


def test_an_edit_before_the_start_counts() -> None:
    graph = picture_graph()
    trained = engine(model=graph)
    deepen(graph)
    assert trained.start().wait(60)
    assert "hidden.weight" in trained.module.state_dict()


def _grouped(graph: NodeGraph) -> None:
    graph.group(["conv1", "relu1"], name="block")


def _exchanged(graph: NodeGraph) -> None:
    with graph.transaction("exchange"):
        graph.rename("conv1", "other")
        graph.rename("fc", "conv1")
        graph.rename("other", "fc")


@pytest.mark.parametrize("edit", [lambda graph: graph.rename("conv1", "stem"), _grouped, _exchanged])
@pytest.mark.parametrize("optimizer", [("Adam", {"amsgrad": True}), ("SGD", {"lr": 0.1, "momentum": 0.9})])
def test_a_layer_under_another_name_trains_on(edit: Callable[[NodeGraph], None], optimizer: Any) -> None:
    expected, _ = finished(halted(picture_graph(), optimizer=optimizer))
    graph = picture_graph()
    trained = halted(graph, optimizer=optimizer)
    edit(graph)
    trained.step()
    # An edit after it is followed from the new names.
    graph.move("relu1" if "relu1" in graph.nodes else "block", x=1, y=2)
    losses, _ = finished(trained)
    assert losses == expected
    assert trained.history.cuts.tolist() == []


def _without_relu(graph: NodeGraph) -> None:
    graph.remove("relu1")
    graph.connect("conv1", "flat")


def _with_tanh(graph: NodeGraph) -> None:
    graph.disconnect("flat.output", "fc.input")
    graph.add("Tanh", name="tanh")
    graph.connect("flat", "tanh")
    graph.connect("tanh", "fc")


def _crossed(graph: NodeGraph) -> None:
    """The two stages of it in the other order, both of one size."""
    graph.disconnect("conv1.output", "relu1.input")
    graph.disconnect("relu1.output", "flat.input")
    graph.disconnect("flat.output", "fc.input")
    for source, target in (("conv1", "flat"), ("flat", "relu1"), ("relu1", "fc")):
        graph.connect(source, target)


@pytest.mark.parametrize(
    ("edit", "said"), [(_without_relu, "relu1 removed"), (_with_tanh, "tanh added"), (_crossed, "other connections")]
)
def test_an_edit_that_leaves_every_parameter_is_seen_in_the_history(
    edit: Callable[[NodeGraph], None], said: str
) -> None:
    graph = picture_graph()
    trained = halted(graph)
    edit(graph)
    trained.step()
    assert trained.history.cuts.tolist() == [3]
    assert trained.history.anomalies[-1].message == (
        f"The graph was edited after step 3: {said}; everything else trains on."
    )
    graph.move("fc", x=1, y=2)
    trained.step()
    assert trained.history.cuts.tolist() == [3]
    trained.stop()


def test_an_edit_in_a_block_that_is_shown_twice_concerns_both() -> None:
    graph = picture_graph()
    graph.add("Linear", name="again", in_features=64, out_features=64)
    graph.add("Linear", name="same", in_features=64, out_features=64)
    graph.disconnect("flat.output", "fc.input")
    for source, target in [("flat", "again"), ("again", "same"), ("same", "fc")]:
        graph.connect(source, target)
    graph.group(["again"], name="block")
    graph.remove("same")
    graph.add("Subgraph", name="same", definition=graph["block"].definition)
    graph.connect("block", "same")
    graph.connect("same", "fc")
    trained = halted(graph)
    weights = [trained.module.get_parameter(f"{name}.again.weight") for name in ("block", "same")]
    graph.set("block.again", bias=False)
    trained.step()
    assert "block.again.bias, same.again.bias are gone" in trained.history.anomalies[-1].message
    graph.rename("block.again", "only")
    trained.step()
    assert [trained.module.get_parameter(f"{name}.only.weight") for name in ("block", "same")] == weights
    assert all(trained.optimizer.state[weight]["step"].item() == 5 for weight in weights)
    trained.stop()


def test_class_weights_inside_of_the_model_follow_their_node() -> None:
    graph = picture_graph()
    graph.remove("y")
    graph.add("Input", name="classes", shape=("N",), dtype="int64")
    graph.add("CrossEntropyLoss", name="loss", weight=[1.0, 1.0, 1.0, 1.0])
    graph.add("Output", name="y")
    graph.connect("fc", "loss.input")
    graph.connect("classes", "loss.target")
    graph.connect("loss", "y")
    trained = halted(graph, loss=None)
    graph.set("loss", weight=[4.0, 1.0, 1.0, 1.0])
    trained.step()
    assert trained.module.get_buffer("loss.weight").tolist() == [4.0, 1.0, 1.0, 1.0]
    trained.stop()
