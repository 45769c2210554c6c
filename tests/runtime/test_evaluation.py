"""Confusion and the worst examples of a training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn

GENERATOR = torch.Generator().manual_seed(1)
X = torch.randn(50, 6, generator=GENERATOR)
CLASSES = torch.arange(50) % 3
AMOUNTS = torch.randn(50, 1, generator=GENERATOR)


def classifier(data: Any = (X, CLASSES), **options: Any) -> pn.TrainingEngine:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        net = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    return pn.TrainingEngine(net, data, batch_size=16, device="cpu", **options)


@pytest.mark.parametrize("form", ["arrays", "dataset", "loader"])
def test_the_table_is_that_of_scikit_learn_in_every_form_of_data(form: str) -> None:
    dataset: Any = TensorDataset(X, CLASSES)
    forms: dict[str, Any] = {
        "arrays": (X, CLASSES),
        "dataset": [dataset[at] for at in range(50)],
        "loader": DataLoader(dataset, 7, shuffle=True),
    }
    engine = classifier(forms[form])
    found = pn.confusion(engine)
    model = engine.model.eval()
    chosen = model(X).argmax(1)
    assert np.array_equal(found.counts, confusion_matrix(CLASSES, chosen, labels=[0, 1, 2]))
    assert found.accuracy == pytest.approx(float((chosen == CLASSES).float().mean()))
    assert found.to_frame().loc["1", "2"] == found.counts[1, 2]
    assert found.by_class()["examples"].tolist() == torch.bincount(CLASSES).tolist()


def test_validation_data_comes_first_and_data_that_is_given_before_it() -> None:
    engine = classifier(val_data=(X[:10], CLASSES[:10]))
    assert pn.confusion(engine).counts.sum() == 10
    assert "on the validation data" in repr(pn.confusion(engine))
    assert pn.confusion(engine, (X[:4], CLASSES[:4])).counts.sum() == 4
    assert pn.worst(engine, 3).data == "the validation data"


def test_yes_and_no_are_two_classes() -> None:
    target = (X[:, :1] > 0).float()
    engine = pn.TrainingEngine(nn.Linear(6, 1), (X, target), device="cpu")
    assert pn.confusion(engine, classes=["no", "yes"]).labels == ("no", "yes")


def test_the_worst_are_those_with_the_greatest_loss_of_each_alone() -> None:
    engine = classifier()
    found = pn.worst(engine, 5)
    model = engine.model.eval()
    losses = nn.functional.cross_entropy(model(X), CLASSES, reduction="none")
    assert found.indices == losses.topk(5).indices.tolist()
    assert found.losses == pytest.approx(losses.topk(5).values.tolist())
    assert torch.equal(found.inputs[0], X[found.indices[0]])
    assert [int(target) for target in found.targets] == CLASSES[found.indices].tolist()
    assert len(found) == len(found.to_frame()) == 5


def test_a_loss_of_ones_own_and_quantities_have_worst_examples_too() -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target).abs().mean()

    engine = pn.TrainingEngine(nn.Linear(6, 1), (X, AMOUNTS), loss=loss, device="cpu")
    distances = (engine.model(X) - AMOUNTS).abs().flatten()
    assert pn.worst(engine, 4).indices == distances.topk(4).indices.tolist()
    with pytest.raises(pn.TrainingError, match=r"no classes, .* pn.worst\(engine\)"):
        pn.confusion(engine)


def test_a_refusal_lets_the_training_go_on() -> None:
    engine = pn.TrainingEngine(nn.Linear(6, 1), (X, AMOUNTS), epochs=1, device="cpu")
    with pytest.raises(pn.TrainingError) as kept:
        pn.confusion(engine)
    assert engine.start().wait(60)
    assert kept.value is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda engine: pn.confusion(engine.model), "engine must be a TrainingEngine"),
        (lambda engine: pn.confusion(engine, classes=["a"]), "classes has 1 names, and there are 3 classes"),
        (lambda engine: pn.worst(engine, 0), "n must be a whole number, at least 1"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    with pytest.raises(pn.PnneError, match=message):
        call(classifier())


def test_without_a_loss_to_compare_by_it_says_why() -> None:
    engine = classifier(step_function=lambda model, batch: model(batch[0]).sum())
    with pytest.raises(pn.TrainingError, match="compared by the model itself or by a step function"):
        pn.worst(engine)


def test_pictures_are_shown_as_pictures_and_the_table_is_coloured() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    engine = pn.TrainingEngine(net, (torch.randn(12, 1, 6, 6), CLASSES[:12]), device="cpu")
    assert "<img alt=" in pn.worst(engine, 2)._repr_html_()
    assert "<img" not in pn.worst(classifier(), 2)._repr_html_()
    assert "background:rgba(" in pn.confusion(engine)._repr_html_()


@pytest.mark.parametrize(
    ("true", "predicted"),
    [
        ([0, 1, 2, 2], [0, 2, 2, 2]),
        (torch.tensor([0, 1, 2, 2]), np.array([0, 2, 2, 2], dtype=np.uint8)),
        (["cat", "dog", "cow"], ["cat", "cow", "cow"]),
        (np.array(["cat", "dog"], dtype=object), np.array(["dog", "dog"])),
        ([True, False, True], [True, True, True]),
    ],
)
def test_the_table_of_two_arrays_is_that_of_scikit_learn(true: Any, predicted: Any) -> None:
    found = pn.confusion(true, predicted)
    assert found.counts.tolist() == confusion_matrix(np.asarray(true).tolist(), np.asarray(predicted).tolist()).tolist()
    assert "on the arrays given" in repr(found)


def test_scores_count_as_the_class_with_the_highest_and_classes_have_names() -> None:
    found = pn.confusion([0, 1], torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.1, 0.7]]), classes=["cat", "dog", "cow"])
    assert found.labels == ("cat", "dog", "cow")
    assert found.counts.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert pn.confusion(["b"], ["a"], classes=["b", "a"]).counts.tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize(
    ("true", "predicted", "classes", "answer"),
    [
        ([0, 1], [0], None, "y has 2 classes and predicted 1"),
        (["a"], [0], None, r"pn.confusion\(y, np.asarray\(names\)\[predicted\]\)"),
        ([0.5], [0.5], None, "y must be classes, one for each example"),
        ([0, -1], [0, 0], None, "Numbers of classes begin at 0"),
        ([0, 2], [0, 0], ["a", "b"], "classes has 2 names, and there are 3 classes"),
        (["a"], ["b"], ["a"], "classes lacks 'b'"),
    ],
)
def test_two_arrays_that_are_no_classes_or_do_not_fit_are_told(
    true: Any, predicted: Any, classes: Any, answer: str
) -> None:
    with pytest.raises(pn.ArgumentError, match=answer):
        pn.confusion(true, predicted, classes=classes)
