from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchmetrics
import torchmetrics.retrieval
import torchmetrics.wrappers
from torch import Tensor, nn
from torch.utils.data import Dataset

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.objective.metric_choices import make_metrics
from pnne_nb.runtime.objective.metrics import Accuracy, Averaged, load_metric, results, saved_metric, target_for
from tests.runtime.tasks import engine, images

CPU = torch.device("cpu")


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    metric = Accuracy()
    metric.update(output, target)
    return torch.tensor(metric.compute())


def recall_of_each() -> Any:
    """A metric of one number for each class, which has not counted anything."""
    return torchmetrics.Recall(task="multiclass", num_classes=4, average=None)


@pytest.mark.parametrize(
    ("output", "target", "expected"),
    [
        ([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], [1, 0, 0], 2 / 3),
        ([[0.1, 0.9], [0.8, 0.2]], [[0.0, 1.0], [0.0, 1.0]], 0.5),
        ([[2.0], [-1.0], [-3.0], [1.0]], [[1.0], [0.0], [1.0], [1.0]], 0.75),
        ([2.0, -1.0], [1.0, 1.0], 0.5),
        ([[2.0], [-1.0], [-3.0], [1.0]], [1, 0, 1, 1], 0.75),
        ([[2.0], [-1.0]], [True, True], 0.5),
        ([2.0, -1.0, 3.0], [[1], [0], [0]], 2 / 3),
    ],
    ids=[
        "classes",
        "probabilities",
        "logits in a column",
        "logits",
        "whole numbers",
        "booleans",
        "targets in a column",
    ],
)
def test_accuracy(output: Any, target: Any, expected: float) -> None:
    assert accuracy(torch.tensor(output), torch.tensor(target)).item() == pytest.approx(expected)


def test_accuracy_of_pictures_and_of_sequences() -> None:
    target = torch.randint(0, 3, (2, 4, 5))
    scores = torch.nn.functional.one_hot(target, 3).float()
    assert accuracy(scores.permute(0, 3, 1, 2), target) == 1
    assert accuracy(scores, target) == 1


def test_accuracy_of_shapes_that_do_not_fit() -> None:
    with pytest.raises(TrainingError, match=r"accuracy cannot compare an output of shape \(4, 3\) with a target"):
        accuracy(torch.zeros(4, 3), torch.zeros(5, dtype=torch.int64))


@pytest.mark.parametrize(
    ("target", "counts"),
    [
        (torch.tensor([0, 1, 2]), True),
        (torch.tensor([0.0, 1.0, 1.0]), True),
        (torch.tensor([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]]), True),
        (torch.tensor([[0.2], [0.9], [0.5]]), False),
        (torch.tensor([1.5, -3.0, 0.0]), False),
        (torch.tensor([[1.5, -3.0], [0.0, 1.0], [0.0, 0.0]]), False),
    ],
)
def test_accuracy_says_nothing_about_measurements(target: Tensor, counts: bool) -> None:
    metric = make_metrics(["accuracy"], CPU)["accuracy"]
    output = torch.zeros(3, 3) if not target.is_floating_point() else torch.zeros_like(target)
    metric.update(output, target)
    assert list(results({"accuracy": metric}, "val")) == ["val_accuracy"] * counts
    other = make_metrics(["accuracy"], CPU)["accuracy"]
    load_metric(other, saved_metric(metric))
    assert other.compute() == metric.compute()


@pytest.mark.parametrize("output", [torch.zeros(3, 1), torch.zeros(3)])
def test_accuracy_says_nothing_about_whole_numbers_and_one_output(output: Tensor) -> None:
    metric = make_metrics(["accuracy"], CPU)["accuracy"]
    metric.update(output, torch.tensor([0, 7, 2]))
    assert results({"accuracy": metric}, "val") == {}


def test_a_short_name_is_understood_but_not_taken() -> None:
    with pytest.raises(TrainingError, match=r"There is no metric called 'acc'\. Did you mean 'accuracy'"):
        make_metrics(["acc"], CPU)


def test_an_average_weighs_by_examples() -> None:
    metric = Averaged(lambda output, target: (output - target).mean())
    assert math.isnan(metric.compute())
    metric.update(torch.ones(3), torch.zeros(3))
    metric.update(torch.full((1,), 5.0), torch.zeros(1))
    assert metric.compute() == 2.0
    metric.reset()
    assert math.isnan(metric.compute())


def test_an_average_continues_where_another_was() -> None:
    first, second = Averaged(accuracy), Averaged(accuracy)
    first.update(torch.eye(2), torch.tensor([0, 0]))
    load_metric(second, saved_metric(first))
    assert second.compute() == 0.5


@pytest.mark.parametrize("said", ["good", None, torch.ones(5), [1, 2]])
def test_a_function_that_returns_no_number_is_told(said: Any) -> None:
    with pytest.raises(TrainingError, match=r"returned .*, not one number: return the mean over the batch"):
        Averaged(lambda *_: said).update(torch.eye(2), torch.eye(2))


def closeness(output: Tensor, target: Tensor) -> Tensor:
    return 1 - (output - target).abs().mean()


def test_metrics_by_name_by_function_and_from_torchmetrics() -> None:
    made = make_metrics(("accuracy", "mae", "mse", closeness), CPU)
    assert list(made) == ["accuracy", "mae", "mse", "closeness"]
    f1 = make_metrics([("F1Score", {"task": "multiclass", "num_classes": 2, "average": "macro"})], CPU)["F1Score"]
    f1.update(torch.eye(2), torch.tensor([0, 1]))
    saved = saved_metric(f1)
    again = make_metrics([("F1Score", {"task": "multiclass", "num_classes": 2, "average": "macro"})], CPU)["F1Score"]
    load_metric(again, saved)
    for metric in (f1, again):
        metric.update(torch.eye(2), torch.tensor([1, 1]))
    assert float(f1.compute()) == float(again.compute()) < 1.0


def test_a_ready_metric_counts_training_and_validation_apart() -> None:
    ready = Averaged(accuracy)
    train, val = (make_metrics([ready], CPU)["Averaged"] for _ in range(2))
    train.update(torch.eye(2), torch.tensor([0, 1]))
    val.update(torch.eye(2), torch.tensor([1, 0]))
    assert (train.compute(), val.compute()) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ("accuracy", r"metrics must be a sequence: write metrics=\('accuracy',\)"),
        (["acuracy"], "There is no metric called 'acuracy'. Did you mean .*'accuracy'"),
        (["f1score_"], "There is no metric called 'f1score_'. Did you mean .*'F1Score'"),
        ([("F1Score", {})], "The metric F1Score refuses its arguments {}"),
        (["mae", "mae"], "Two metrics are called 'mae'"),
        ([3], "3 is no metric: give a name, a torchmetrics metric, or a function"),
    ],
)
def test_metrics_that_cannot_be(choices: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        make_metrics(choices, CPU)


def test_torchmetrics_alone_are_themselves_and_collections_are_their_members() -> None:
    f1 = torchmetrics.F1Score(task="multiclass", num_classes=4)
    both = torchmetrics.MetricCollection(
        [
            torchmetrics.Precision(task="multiclass", num_classes=4),
            torchmetrics.Recall(task="multiclass", num_classes=4),
        ]
    )
    made = make_metrics([f1, both, ("again", both)], torch.device("cpu"))
    names = ["MulticlassF1Score", "MulticlassPrecision", "MulticlassRecall"]
    assert list(made) == [*names, "again_MulticlassPrecision", "again_MulticlassRecall"]
    assert [type(made[name]).__name__ for name in names] == names


def test_a_function_has_the_name_that_it_is_given() -> None:
    made = make_metrics([("near", closeness), ("far", lambda output, target: 1 - closeness(output, target))], CPU)
    assert list(made) == ["near", "far"]


def test_classification_takes_the_targets_of_a_loss_that_wants_floats() -> None:
    area = make_metrics([("AUROC", {"task": "multilabel", "num_labels": 2})], CPU)["AUROC"]
    yes, soft = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[0.5, 1.0]])
    area.update(torch.tensor([[0.2, 0.9], [0.8, 0.1]]), target_for(area, yes))
    assert float(area.compute()) == 1.0
    assert target_for(area, soft) is soft
    assert target_for(Averaged(closeness), yes) is yes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: torchmetrics.ConfusionMatrix(task="multiclass", num_classes=4),
            r"MulticlassConfusionMatrix gives a tensor of shape \(4, 4\), and the history keeps numbers .* afterwards",
        ),
        (
            lambda: ("recall", recall_of_each()),
            r"recall gives a tensor of shape \(4,\), .* for one of each class, give .*ClasswiseWrapper",
        ),
    ],
)
def test_what_is_no_number_is_refused_before_there_is_an_epoch_to_lose(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        engine(metrics=(make(),))


def test_what_is_no_number_and_says_nothing_of_no_data_is_refused_when_it_does() -> None:
    trained = engine(metrics=(("told", Told()),), epochs=1)
    trained.start()
    with pytest.raises(TrainingError, match=r"The metric told gives a str, and the history keeps numbers"):
        trained.wait(60)


class Told:
    """A metric that answers in words."""

    def update(self, output: Any, target: Any) -> None:
        """Nothing counts."""

    def compute(self) -> str:
        """It went well."""
        return "well"

    def reset(self) -> None:
        """Nothing is forgotten."""


def test_each_of_several_numbers_has_a_name() -> None:
    each = torchmetrics.wrappers.ClasswiseWrapper(recall_of_each(), labels=["a", "b", "c", "d"], prefix="recall_")
    trained = engine(metrics=(each,), epochs=2, val_data=images(2), monitor=("val_recall_b", "max"))
    assert trained.start().wait(60)
    recalls = [trained.history[f"val_recall_{name}"] for name in "abcd"]
    assert [len(values) for values in recalls] == [2] * 4
    output, target = trained.model.eval()(images(2)[0]), images(2)[1]
    assert [float(values[-1]) for values in recalls] == pytest.approx(recall_of_each()(output, target).tolist())


def test_two_metrics_with_one_name_for_a_number_are_refused() -> None:
    each = torchmetrics.wrappers.ClasswiseWrapper(recall_of_each(), labels=["a", "b", "c", "d"])
    both = make_metrics([("one", each), ("other", each)], CPU)
    for metric in both.values():
        metric.update(torch.eye(4), torch.arange(4))
    with pytest.raises(
        TrainingError, match=r"Two metrics give multiclassrecall_a; the history keeps one value of each name"
    ):
        results(both, "val")


class ByQuery(torchmetrics.retrieval.RetrievalMAP):
    """Finds the queries beside the classes."""

    def update(self, output: Tensor, target: dict[str, Tensor]) -> None:  # type: ignore[override]  # as it must be
        """Take one batch into account."""
        super().update(output[:, 0], target["class"] == 0, target["query"])


class Queried(Dataset[tuple[Tensor, dict[str, Tensor]]]):
    """The task's pictures, each of a query."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        pictures, classes = images()
        return pictures[index], {"class": classes[index], "query": torch.tensor(index % 4)}


def test_a_metric_that_needs_more_finds_it_in_the_target() -> None:
    ready = torchmetrics.retrieval.RetrievalMAP()
    with pytest.raises(
        TrainingError, match=r"RetrievalMAP counts preds, target, indexes, but .*class Mine\(RetrievalMAP"
    ):
        engine(metrics=(ready,))
    trained = engine(
        train_data=Queried(),
        metrics=(("map", ByQuery()),),
        loss=lambda output, target: nn.functional.cross_entropy(output, target["class"]),
        optimizer=("SGD", {"lr": 0.0}),
        epochs=1,
    )
    assert trained.start().wait(60)
    assert 0 < trained.history["train_map"][0] <= 1
