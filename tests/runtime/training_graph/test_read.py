"""Trainings that are drawn: they train, and what is missing is said at its node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

import pnne_nb as pn
from pnne_nb.graph.schema.registry import registry
from tests.runtime import tasks

OPTIONS: dict[str, Any] = {"device": "cpu", "epochs": 2}


def block(graph: pn.NodeGraph, layers: dict[str, tuple[str, dict[str, Any]]], chain: str) -> None:
    """Draw `layers` and connect the nodes of `chain` in their order."""
    for name, (type, properties) in layers.items():
        graph.add(type, name, **properties)
    for source, target in itertools.pairwise(chain.split()):
        graph.connect(source, target)


LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "conv": ("Conv2d", {"out_channels": 4, "kernel_size": 3}),
    "relu": ("ReLU", {}),
    "flat": ("Flatten", {}),
    "fc": ("Linear", {"out_features": 4}),
}


def drawn(*, grouped: bool = True, **loader: Any) -> pn.NodeGraph:
    """The task of `tasks`: its pictures from a variable, its network as a Subgraph, AdamW."""
    graph = pn.NodeGraph("training")
    graph.add("Dataset", "data", source="variable", data="pictures")
    graph.add("DataLoader", "loader", **{"batch_size": 16, "shuffle": True, **loader})
    block(graph, LAYERS, "conv relu flat fc")
    graph.add("CrossEntropyLoss", "loss")
    graph.add("AdamW", "optimizer", lr=0.01)
    graph.connect("data", "loader")
    graph.connect("loader.input", "conv.input")
    graph.connect("fc", "loss.input")
    graph.connect("loader.target", "loss.target")
    graph.connect("loss", "optimizer")
    if grouped:
        graph.group(list(LAYERS), "model")
    return graph


def train(graph: pn.NodeGraph, data: Any = None, **options: Any) -> pn.TrainingEngine:
    """Train to the end."""
    engine = pn.TrainingEngine.from_graph(graph, {"pictures": data or tasks.images()}, **{**OPTIONS, **options})
    assert engine.start().wait(60)
    return engine


def test_it_trains_as_the_same_training_in_words() -> None:
    engine = train(drawn(), epochs=3)

    spoken = tasks.engine(_model(), optimizer=("AdamW", {"lr": 0.01}), epochs=3)
    spoken.start().wait()
    assert engine.state == "finished"
    assert engine.history["loss"].tolist() == spoken.history["loss"].tolist()
    assert list(engine.model.state_dict()) == ["conv.weight", "conv.bias", "fc.weight", "fc.bias"]
    assert engine.history["loss"][-1] < engine.history["loss"][0]


def _model() -> pn.NodeGraph:
    graph = pn.NodeGraph("model")
    graph.add("Input", "x", shape=("N", 1, 6, 6))
    block(graph, {**LAYERS, "y": ("Output", {})}, "x conv relu flat fc y")
    return graph


def test_a_model_drawn_among_the_training_nodes_trains_the_same() -> None:
    grouped, flat = train(drawn()), train(drawn(grouped=False))

    assert flat.history["loss"].tolist() == grouped.history["loss"].tolist()
    assert list(flat.model.state_dict()) == list(grouped.model.state_dict())


def test_the_document_is_left_as_it_is() -> None:
    graph = drawn()
    before = graph.to_json(), graph.version
    train(graph)

    assert (graph.to_json(), graph.version) == before


def test_validation_has_a_loader_of_its_own() -> None:
    graph = drawn()
    graph.set("data", split="train", fraction=0.75)
    graph.add("Dataset", "held_out", source="variable", data="pictures", split="validation", fraction=0.75)
    graph.add("DataLoader", "val_loader", batch_size=5)
    graph.add("Validation", "validation")
    block(graph, {}, "held_out val_loader validation")
    graph.add("Metric", "how_good")
    graph.connect("model", "how_good.input")
    graph.connect("loader.target", "how_good.target")
    engine = train(graph)

    assert len(engine.history["val_accuracy"]) == 2
    assert len(engine.history["loss"]) == 2 * 5, "72 pictures in batches of 16"
    assert engine.history["val_accuracy"][-1] > 0.4


METRICS = ("accuracy", "precision", "recall", "f1", "auroc", "mse", "mean_absolute_error", "R2Score")


def test_classification_metrics() -> None:
    graph = drawn()
    for name in ("precision", "recall", "f1", "auroc", "perplexity", "accuracy"):
        graph.add("Metric", f"m_{name}", metric=name)
        graph.connect("model", f"m_{name}.input")
        graph.connect("loader.target", f"m_{name}.target")
    graph.add("Metric", "again", metric="accuracy")
    graph.connect("model", "again.input")
    graph.connect("loader.target", "again.target")
    history = train(graph).history

    for name in ("precision", "recall", "f1", "auroc", "accuracy"):
        assert 0 < history[f"train_{name}"][-1] <= 1
    assert history["train_perplexity"][-1] == pytest.approx(math.exp(history["train_loss"][-1]), rel=1e-5)
    assert history["train_again"].tolist() == history["train_accuracy"].tolist()


def test_regression_on_packaged_data() -> None:
    graph = pn.NodeGraph("regression")
    block(
        graph,
        {
            "data": ("Dataset", {"source": "diabetes"}),
            "loader": ("DataLoader", {"batch_size": 64, "shuffle": True, "drop_last": True}),
            "fc": ("Linear", {"out_features": 1}),
            "loss": ("HuberLoss", {}),
            "optimizer": ("SGD", {"lr": 10.0}),
        },
        "data loader fc loss optimizer",
    )
    graph.connect("loader.target", "loss.target")
    for metric in ("mean_squared_error", "mean_absolute_error", "r2"):
        graph.add("Metric", metric, metric=metric)
        graph.connect("fc", f"{metric}.input")
        graph.connect("loader.target", f"{metric}.target")
    engine = train(graph, epochs=3)

    assert len(engine.history["loss"]) == 3 * (442 // 64)
    assert engine.history["train_loss"][-1] < engine.history["train_loss"][0]
    assert engine.history["train_r2"][-1] > engine.history["train_r2"][0]


def test_an_autoencoder_compares_with_its_own_input() -> None:
    graph = pn.NodeGraph("autoencoder")
    block(
        graph,
        {
            "data": ("Dataset", {"source": "iris"}),
            "loader": ("DataLoader", {"batch_size": 50}),
            "code": ("Linear", {"out_features": 2}),
            "back": ("Linear", {"out_features": 4}),
            "loss": ("MSELoss", {}),
            "optimizer": ("Adam", {"lr": 0.05}),
        },
        "data loader code back loss optimizer",
    )
    graph.connect("loader.input", "loss.target")
    history = train(graph, epochs=20).history
    assert history["train_loss"][-1] < history["train_loss"][0] / 2


def test_several_losses_are_weighed_and_added() -> None:
    graph = drawn()
    graph.add("norm", "size")
    graph.add("Loss", "penalty", weight=0.5)
    graph.connect("model", "size")
    block(graph, {}, "size penalty optimizer")
    weighed = train(graph).history["loss"][0]

    torch.manual_seed(0)
    plain = pn.TrainingEngine.from_graph(drawn(), {"pictures": tasks.images()}, **OPTIONS)
    seen: list[Tensor] = []
    plain.module.register_forward_hook(lambda _, __, output: seen.append(output.detach()))
    plain.step()
    plain.stop()
    assert weighed == pytest.approx(plain.history["loss"][0] + 0.5 * seen[0].norm().item(), rel=1e-5)


def test_parameter_groups_have_settings_of_their_own() -> None:
    graph = drawn()
    graph.add("ParameterGroup", "biases", pattern="*.bias", weight_decay=0.0)
    graph.add("ParameterGroup", "head", pattern="fc.*", lr=0.5, options={"betas": (0.5, 0.9)})
    graph.connect("biases", "optimizer")
    graph.connect("head", "optimizer")
    engine = pn.TrainingEngine.from_graph(graph, {"pictures": tasks.images()}, **OPTIONS)

    groups = engine.optimizer.param_groups
    assert [len(group["params"]) for group in groups] == [1, 2, 1]
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [(0.01, 0.01), (0.01, 0.0), (0.5, 0.01)]
    assert groups[2]["betas"] == (0.5, 0.9)


def rates(graph: pn.NodeGraph, **options: Any) -> list[float]:
    """Learning rate at the beginning of each epoch."""
    history = train(graph, **options).history
    rates = history["learning_rate"]
    return [float(rate) for rate in rates[:: len(rates) // options["epochs"]]]


def test_a_scheduler_moves_the_rate() -> None:
    graph = drawn()
    graph.add("StepLR", "schedule", step_size=1, gamma=0.1)
    graph.connect("optimizer", "schedule")
    assert rates(graph, epochs=3) == pytest.approx([0.01, 0.001, 0.0001])


@pytest.mark.parametrize("combining", ["SequentialLR", "ChainedScheduler"])
def test_schedulers_are_combined(combining: str) -> None:
    graph = drawn()
    graph.add("ConstantLR", "slow", factor=0.5, total_iters=2)
    graph.add("ExponentialLR", "down", gamma=0.1)
    graph.add(combining, "both")
    if combining == "SequentialLR":
        graph.set("both", milestones=(2,))
    for name in ("slow", "down"):
        graph.connect("optimizer", name)
        graph.connect(name, "both")
    graph.connect("optimizer", "both")
    expected = [0.005, 0.005, 0.01, 0.001] if combining == "SequentialLR" else [0.005, 0.0005, 0.0001, 0.00001]
    assert rates(graph, epochs=4) == pytest.approx(expected)


def test_a_scheduler_moves_after_every_step_or_epoch_as_drawn() -> None:
    def by_step(kind: str, **settings: Any) -> list[float]:
        graph = drawn()
        graph.add(kind, "schedule", **settings)
        graph.connect("optimizer", "schedule")
        found: list[float] = train(graph).history["learning_rate"].tolist()
        return found

    each_step = by_step("StepLR", step_size=4, gamma=0.1, interval="step")
    assert each_step == pytest.approx([0.01] * 4 + [0.001] * 4 + [0.0001] * 4)
    assert by_step("StepLR", step_size=1, gamma=0.1, interval="epoch") == by_step("StepLR", step_size=1, gamma=0.1)
    cycle = {"max_lr": 0.1, "cycle_momentum": False}
    assert len(set(by_step("OneCycleLR", **cycle))) == 12
    assert len(set(by_step("OneCycleLR", **cycle, interval="epoch"))) == 2


def test_what_combines_schedulers_says_when_they_move() -> None:
    graph = drawn()
    graph.add("ConstantLR", "slow", factor=0.5, total_iters=2)
    graph.add("ExponentialLR", "down", gamma=0.1)
    graph.add("SequentialLR", "both", milestones=(4,), interval="step")
    for name in ("slow", "down"):
        graph.connect("optimizer", name)
        graph.connect(name, "both")
    graph.connect("optimizer", "both")
    rates = train(graph, epochs=1).history["learning_rate"].tolist()
    assert rates == pytest.approx([0.005, 0.005, 0.01, 0.01, 0.01, 0.001])
    graph.set("down", interval="epoch")
    with pytest.raises(
        pn.TrainingError, match=r"down: Its interval is 'epoch', but it moves with both, after every step"
    ):
        pn.TrainingEngine.from_graph(graph, {"pictures": tasks.images()})


def test_a_registered_function_may_give_the_factor() -> None:
    @pn.register_node(replace=True)
    def halving(epoch: int) -> float:
        return 0.5**epoch

    graph = drawn()
    graph.add("LambdaLR", "schedule", lr_lambda="halving")
    graph.connect("optimizer", "schedule")
    assert rates(graph, epochs=3) == pytest.approx([0.01, 0.005, 0.0025])


@pytest.mark.skipif("LinearCrossEntropyLoss" not in pn.catalog, reason="torch 2.11 has no such layer")
@pytest.mark.parametrize("grouped", [True, False])
def test_a_model_may_take_the_target_and_return_its_own_loss(*, grouped: bool) -> None:
    graph = pn.NodeGraph("own")
    block(
        graph,
        {
            "data": ("Dataset", {"source": "iris"}),
            "loader": ("DataLoader", {"batch_size": 50}),
            "head": ("LinearCrossEntropyLoss", {"num_classes": 3}),
            "optimizer": ("Adam", {"lr": 0.05}),
        },
        "data loader head optimizer",
    )
    graph.connect("loader.target", "head.target")
    if grouped:
        graph.group(["head"], "model")
    engine = train(graph, epochs=10)
    assert engine.history["train_loss"][-1] < engine.history["train_loss"][0]
    assert list(engine.model.state_dict()) == ["head.linear.weight"]


def test_two_twins_share_one_module() -> None:
    graph = drawn(grouped=False)
    graph.add("Linear", "again", out_features=4, in_features=4)
    graph.add("Linear", "tied", shares="again")
    graph.disconnect("fc", "loss")
    block(graph, {}, "fc again tied")
    graph.connect("tied", "loss.input")
    assert "tied.weight" not in train(graph).model.state_dict()


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Examples one by one."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.rand(1, 6, 6), torch.tensor(index % 4)


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Examples without a number."""

    def __iter__(self) -> Any:
        return iter([(torch.rand(1, 6, 6), torch.tensor(1)) for _ in range(8)])


def test_any_registered_dataset() -> None:
    pn.register_dataset("noisy")(Noisy)
    graph = drawn()
    graph.set("data", source="registered", data="noisy")
    assert len(train(graph).history["loss"]) == 2 * 2
    graph.set("data", split="train", fraction=0.5)
    assert len(train(graph).history["loss"]) == 2


def test_a_stream_of_examples() -> None:
    graph = drawn(shuffle=False, batch_size=4)
    graph.ungroup("model")
    graph.set("conv", in_channels=1)
    graph.set("fc", in_features=64)
    assert len(train(graph, Stream(), epochs=1).history["loss"]) == 2


def test_mappings_hold_the_target_by_name() -> None:
    class Named(Noisy):
        def __getitem__(self, index: int) -> Any:
            return {"x": torch.rand(1, 6, 6), "label": index % 4}

    assert train(drawn(), Named()).state == "finished"


def test_workers_and_drop_last() -> None:
    pn.register_dataset("noisy")(Noisy)
    graph = drawn(num_workers=1, drop_last=True, batch_size=8)
    graph.set("data", source="registered", data="noisy")
    assert len(train(graph).history["loss"]) == 2 * 2


def test_a_namespace_has_variables_too() -> None:
    graph = drawn()
    graph.set("data", data="X", target="y")
    pictures, classes = tasks.images()
    engine = pn.TrainingEngine.from_graph(graph, namespace={"X": pictures, "y": classes}, **OPTIONS)
    engine.step()
    engine.stop()
    assert len(engine.history["loss"]) == 1


def _without(*names: str) -> Callable[[], pn.NodeGraph]:
    def draw() -> pn.NodeGraph:
        graph = drawn()
        graph.remove(*names)
        return graph

    return draw


def _second(type: str, name: str, source: str = "", **properties: Any) -> Callable[[], pn.NodeGraph]:
    def draw() -> pn.NodeGraph:
        graph = drawn()
        graph.add(type, name, **properties)
        if source:
            graph.connect(source, name)
        return graph

    return draw


def _changed(node: str, **properties: Any) -> Callable[[], pn.NodeGraph]:
    def draw() -> pn.NodeGraph:
        graph = drawn()
        graph.set(node, **properties)
        return graph

    return draw


def _rewired(source: str, target: str, *new: tuple[str, str]) -> Callable[[], pn.NodeGraph]:
    def draw() -> pn.NodeGraph:
        graph = drawn()
        graph.disconnect(source, target)
        for one, other in new:
            graph.connect(one, other)
        return graph

    return draw


def _two_schedulers() -> pn.NodeGraph:
    graph = drawn()
    for name in ("one", "two"):
        graph.add("StepLR", name, step_size=1)
        graph.connect("optimizer", name)
    return graph


def _lambda() -> pn.NodeGraph:
    graph = drawn()
    graph.add("LambdaLR", "schedule", lr_lambda="quartering")
    graph.connect("optimizer", "schedule")
    return graph


def _bad_milestones() -> pn.NodeGraph:
    graph = drawn()
    graph.add("StepLR", "one", step_size=1)
    graph.add("SequentialLR", "both", milestones=(1, 2))
    block(graph, {}, "optimizer one both")
    graph.connect("optimizer", "both")
    return graph


def _two_groups(*second: Any) -> Callable[[], pn.NodeGraph]:
    def draw() -> pn.NodeGraph:
        graph = drawn()
        graph.add("ParameterGroup", "one", pattern="*.bias")
        graph.add("ParameterGroup", "two", **dict(second))
        graph.connect("one", "optimizer")
        graph.connect("two", "optimizer")
        return graph

    return draw


def _weights_in_the_loss() -> pn.NodeGraph:
    graph = drawn()
    graph.disconnect("model", "loss")
    graph.remove("loss")
    graph.add("Embedding", "head", num_embeddings=4, embedding_dim=4)
    graph.add("MSELoss", "loss")
    graph.connect("loader.target", "head")
    graph.connect("model", "loss.input")
    graph.connect("head", "loss.target")
    graph.connect("loss", "optimizer")
    return graph


def _two_validations() -> pn.NodeGraph:
    graph = drawn()
    for name in ("v1", "v2"):
        graph.add("Validation", name)
        graph.connect("loader", name)
    return graph


def _input_of_another_shape() -> pn.NodeGraph:
    graph = drawn()
    graph.set("model.input", shape=("N", 1, 5, 5))
    return graph


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (_without("data"), r"loader.dataset: Input dataset is not connected"),
        (_without("loader"), r"has no DataLoader whose samples go into the model\. Add a Dataset"),
        (_without("loss"), r"The graph has no loss, so there is nothing to make smaller\. Add one"),
        (_without("optimizer"), r"The graph has no optimizer\. Add one, such as AdamW"),
        (_without("model"), r"loss.input: Input is not connected"),
        (_second("SGD", "other"), r"other: There are 2 optimizers: optimizer, other\. Keep one"),
        (_two_schedulers, r"two: There are 2 schedulers: one, two\. Combine them"),
        (_two_validations, r"v2: There are 2 Validation nodes: v1, v2"),
        (_rewired("loader", "model", ("loader.target", "model")), r"loader: The model gets no samples"),
        (_changed("loader", batch_size=None), r"loader: batch_size is None; training needs a number"),
        (_changed("data", data="picture"), r"data: There is no variable 'picture'\. Did you mean 'pictures'\? Give it"),
        (_changed("data", data=""), r"data: Its data is empty: set it to the variable"),
        (_changed("data", source="registered"), r"data: No dataset is registered as 'pictures'\."),
        (_changed("data", source="images", data="/nowhere"), r"data: There is no folder '/nowhere'"),
        (_changed("data", source="csv", data="/nowhere.csv"), r"data: The file '/nowhere.csv' cannot be read"),
        (_changed("data", split="validation", fraction=1), r"data: The validation split of 96 samples .* is empty"),
        (_lambda, r"schedule: lr_lambda is 'quartering', which is no registered function"),
        (_bad_milestones, r"both: the scheduler SequentialLR refuses its arguments"),
        (_two_groups(("pattern", "*.bias")), r"two: there are two groups for the pattern '\*\.bias'"),
        (_two_groups(("pattern", "x"), ("options", 3)), r"two: options must be a dict by name"),
        (_two_groups(("pattern", "*.wait")), r"No trainable parameter has a name like '\*\.wait'"),
        (_weights_in_the_loss, r"head: it has weights of its own and computes the loss"),
        (_input_of_another_shape, r"Input node 'input'.*expects shape \(N, 1, 5, 5\), the data has \(1, 1, 6, 6\)"),
    ],
)
def test_what_is_wrong_is_said_at_its_node(draw: Callable[[], pn.NodeGraph], message: str) -> None:
    graph = draw()
    before = graph.to_json()
    with pytest.raises(pn.TrainingError, match=message):
        train(graph, epochs=1)
    assert graph.to_json() == before


def test_every_reason_is_listed() -> None:
    with pytest.raises(pn.TrainingError, match=r"'empty' cannot be trained") as raised:
        pn.TrainingEngine.from_graph(pn.NodeGraph("empty"))
    assert {"no-data", "no-optimizer", "no-loss"} <= {found.code for found in raised.value.diagnostics}


def test_drawn_arguments_are_not_given_again() -> None:
    with pytest.raises(pn.TrainingError, match=r"takes no argument 'epoch'.* Did you mean 'epochs'\?"):
        pn.TrainingEngine.from_graph(drawn(), epoch=3)
    with pytest.raises(pn.TrainingError, match=r"takes no argument 'loss': it is drawn, or unknown"):
        pn.TrainingEngine.from_graph(drawn(), loss="MSELoss")


def test_a_stream_is_not_shuffled() -> None:
    with pytest.raises(pn.TrainingError, match="loader: an IterableDataset decides about its order itself"):
        train(drawn(), Stream())


def test_a_loss_that_is_no_number_names_what_it_is() -> None:
    graph = drawn()
    graph.set("loss", reduction="none")
    with pytest.raises(pn.TrainingError, match=r"The loss function returned shape \(16,\), not one number"):
        train(graph)


def test_nodes_that_do_not_fit_are_refused_with_the_reason() -> None:
    graph = drawn()
    for source, target, message in [
        ("data.dataset", "loss.input", "data.dataset gives a dataset and loss.input takes a tensor"),
        ("loader.loader", "optimizer.loss", "gives a loader and optimizer.loss_1 takes a loss"),
        ("optimizer.optimizer", "loader.dataset", "gives a optimizer and loader.dataset takes a dataset|fed"),
    ]:
        with pytest.raises(pn.GraphError, match=message):
            graph.connect(source, target)


def test_every_metric_of_the_catalogue_is_known() -> None:
    spec = registry["Metric"].property_named("metric")
    assert spec is not None
    assert set(METRICS) | {"perplexity"} <= set(getattr(spec.type, "choices", ()))


def test_modules_train_on_the_device_of_their_loss() -> None:
    engine = pn.TrainingEngine.from_graph(drawn(), {"pictures": tasks.images()}, **OPTIONS)
    assert isinstance(engine.module, nn.Module)
    assert engine.device.type == "cpu"


@pytest.mark.parametrize("grouped", [True, False])
def test_a_drawn_training_resumes_from_its_checkpoint_alone(*, grouped: bool, tmp_path: Path) -> None:
    graph = drawn(grouped=grouped)
    graph.add("Dropout", "drop")
    inner = "model." if grouped else ""
    if grouped:
        graph.remove("drop")
        graph.add("Dropout", "model.drop")
    graph.disconnect(f"{inner}relu", f"{inner}flat")
    block(graph, {}, f"{inner}relu {inner}drop {inner}flat")
    graph.add("StepLR", "schedule", step_size=1, gamma=0.5)
    graph.connect("optimizer", "schedule")
    undisturbed = train(graph, epochs=3, seed=5)

    first = pn.TrainingEngine.from_graph(graph, {"pictures": tasks.images()}, device="cpu", epochs=3, seed=5)
    first.step(7)
    first.save_checkpoint(tmp_path / "a.safetensors")
    first.stop()
    second = pn.TrainingEngine.resume_from(tmp_path / "a.safetensors", data={"pictures": tasks.images()})
    assert second.start().wait(60)
    assert second.history["loss"].tolist() == undisturbed.history["loss"].tolist()
    assert all(map(torch.equal, second.model.state_dict().values(), undisturbed.model.state_dict().values()))


def test_packaged_data_needs_nothing_but_the_path_to_resume(tmp_path: Path) -> None:
    graph = drawn()
    graph.set("data", source="iris", standardize=True)
    graph.remove("model")
    graph.add("Linear", "fc", out_features=3)
    block(graph, {}, "loader fc loss")
    first = pn.TrainingEngine.from_graph(graph, device="cpu", epochs=1, checkpoint_dir=tmp_path)
    assert first.start().wait(60)
    second = pn.TrainingEngine.resume_from(tmp_path, epochs=2)
    assert second.start().wait(60)
    assert second.progress.epoch == 2
    with pytest.raises(pn.TrainingError, match="from_graph takes no argument 'loss': it is drawn"):
        pn.TrainingEngine.resume_from(tmp_path, loss="MSELoss")


def test_a_checkpoint_of_a_drawn_training_asks_for_its_variables(tmp_path: Path) -> None:
    train(drawn(), epochs=1, checkpoint_dir=tmp_path)
    with pytest.raises(pn.TrainingError, match="There is no variable 'pictures'"):
        pn.TrainingEngine.resume_from(tmp_path)


@pytest.mark.parametrize("grouped", [True, False])
def test_tied_subgraphs_train_one_set_of_weights(*, grouped: bool) -> None:
    """Two uses of one encoder, as siamese networks have them."""
    graph = drawn(grouped=False)
    graph.group(["conv", "relu", "flat"], "left")
    definition = graph["left"].properties["definition"]
    graph.add("Subgraph", "right", definition=definition, shares="left")
    port = graph.graphs[str(definition)].inputs[0]
    graph.add("sub", "apart")
    graph.disconnect("left", "fc")
    graph.connect("loader.input", f"right.{port}")
    for source, target in [("left", "apart.input"), ("right", "apart.other"), ("apart", "fc")]:
        graph.connect(source, target)
    if grouped:
        graph.group(["left", "right", "apart", "fc"], "model")
    engine = train(graph, epochs=1)
    assert list(engine.model.state_dict()) == ["left.conv.weight", "left.conv.bias", "fc.weight", "fc.bias"]
    assert engine.model.get_submodule("left").get_parameter("conv.weight").grad is not None
    # Both uses are the same module, so what they make is the same, and nothing is left to learn from but the bias.
    assert torch.equal(engine.model(torch.rand(2, 1, 6, 6))[0], engine.model.get_parameter("fc.bias"))


@pn.register_node(category="Custom")
def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    counts = mask[:, :, None].to(x.dtype)
    return (x * counts).sum(1) / counts.sum(1)


def ragged(mask: bool, wired: bool) -> pn.TrainingEngine:
    rows = [torch.full((count, 3), float(count)) for count in (2, 5, 3, 4)]
    data = pn.columns({"a": rows, "b": [0, 1, 0, 1]}, {"a": ("x", "mask") if mask else "x"}, target="b")
    graph = pn.NodeGraph(name="ragged")
    graph.add("Dataset", name="data", source="variable", data="rows")
    graph.add("DataLoader", name="loader", batch_size=4, mask=wired)
    graph.add("masked_mean" if wired else "relu", name="mean")
    graph.add("Linear", name="fc", out_features=2)
    graph.add("CrossEntropyLoss", name="loss")
    graph.add("SGD", name="sgd", lr=0.1)
    wires = [("loader.input", "mean.x" if wired else "mean.input"), ("mean", "fc"), ("loader.target", "loss.target")]
    for source, target in [("data", "loader"), *wires, *([("loader.mask", "mean.mask")] if wired else [])]:
        graph.connect(source, target)
    graph.group(["mean", "fc"], name="model")
    graph.connect("model", "loss.input")
    graph.connect("loss", "sgd")
    return pn.TrainingEngine.from_graph(graph, data={"rows": data}, epochs=1)


def test_a_drawn_loader_tells_what_was_filled_up() -> None:
    engine = ragged(mask=True, wired=True)
    engine.step()
    x, mask = (part.to(torch.float32) for part in engine.examples(4)[:2])
    assert engine.model(x, mask).equal(engine.model(x.amax(1, keepdim=True), mask[:, :1]))
    engine.stop()
    with pytest.raises(pn.TrainingError, match="the graph does not use it: set mask of the DataLoader to True"):
        ragged(mask=True, wired=False)
    with pytest.raises(pn.TrainingError, match=r"is connected, and the examples have none: pn\.columns"):
        ragged(mask=False, wired=True)
