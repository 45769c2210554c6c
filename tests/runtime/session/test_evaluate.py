"""Figures of a model on other data, against scikit-learn and plain PyTorch; the training goes on as if nothing was."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn


def net(outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs))


def classes(count: int = 40) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 4), torch.randint(3, (count,))


def trained(outputs: int, data: tuple[Tensor, Tensor], **options: object) -> pn.TrainingEngine:
    engine = pn.TrainingEngine(net(outputs), data, epochs=2, batch_size=16, device="cpu", **options)  # type: ignore[arg-type]  # of its own
    engine.start().wait()
    return engine


def test_the_figures_of_classes_are_those_of_scikit_learn() -> None:
    engine = trained(3, classes())
    x, y = classes(33)
    found = engine.evaluate((x, y))
    model = engine.model.eval()
    with torch.no_grad():
        scores = model(x)
    assert list(found) == ["loss", "accuracy", "guessing_accuracy"]
    assert found["loss"] == pytest.approx(float(F.cross_entropy(scores, y)), rel=1e-5)
    assert found["accuracy"] == pytest.approx(accuracy_score(y, scores.argmax(1)))
    assert found["guessing_accuracy"] == pytest.approx(y.bincount().max() / 33)
    assert found.examples == 33
    assert repr(found).startswith("Evaluation(33 examples: loss ")
    assert "<th>accuracy</th>" in found._repr_html_()


def test_the_figures_of_quantities_are_those_of_scikit_learn_with_what_the_mean_would_have() -> None:
    def data(count: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 4)
        return x, x[:, :1] * 2 + 1

    engine = trained(1, data(64))
    x, y = data(30)
    found = engine.evaluate((x, y))
    with torch.no_grad():
        predicted = engine.model.eval()(x)
    assert found["loss"] == pytest.approx(float(F.mse_loss(predicted, y)), rel=1e-5)
    assert found["r2"] == pytest.approx(r2_score(y, predicted), rel=1e-4)
    assert found["mae"] == pytest.approx(mean_absolute_error(y, predicted), rel=1e-4)
    assert found["guessing_mae"] == pytest.approx(float((y - y.mean()).abs().mean()), rel=1e-4)


def test_predictions_come_from_arrays_tuples_names_and_loaders() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 3)

        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            scores: Tensor = self.layer(left + right)
            return scores

    left, right, y = torch.randn(20, 2), torch.randn(20, 2), torch.randint(3, (20,))
    engine = pn.TrainingEngine(Two(), (left, right, y), epochs=1, batch_size=8, device="cpu")
    with torch.no_grad():
        wanted = engine.module(left, right)
    loader = DataLoader(TensorDataset(left, right, y), 7)
    for given in ((left, right), {"left": left, "right": right}, TensorDataset(left, right, y), loader):
        assert torch.allclose(engine.predict(given), wanted, atol=1e-6)
    single = pn.TrainingEngine(nn.Linear(2, 3), (left, y), epochs=1, device="cpu")
    assert single.predict(left.numpy()).shape == (20, 3)


def test_what_only_the_model_compares_is_refused() -> None:
    engine = pn.TrainingEngine(
        nn.Linear(4, 1), (torch.randn(8, 4),), loss=None, step_function=lambda model, batch: model(batch[0]).sum()
    )
    with pytest.raises(pn.TrainingError, match="nothing else can compare them"):
        engine.evaluate()
    with pytest.raises(pn.TrainingError, match="is empty"):
        engine.predict(torch.zeros(0, 4))


def test_next_steps_are_lines_that_run() -> None:
    engine = pn.TrainingEngine(net(), classes(), epochs=1, device="cpu")
    assert list(engine.next_steps().lines) == ["Train", "Prepare", "Change"]
    engine.start().wait()
    steps = engine.next_steps()
    assert list(steps.lines) == ["Look", "Try", "Go on", "Shrink", "Ship"]
    assert 'pn.export(engine, "net.onnx")' in repr(steps)
    names = {
        "engine": engine,
        "pn": pn,
        "X": torch.randn(20, 4),
        "X_test": torch.randn(9, 4),
        "y_test": torch.arange(9) % 3,
    }
    for purpose in ("Look", "Try", "Go on"):
        for line in steps.lines[purpose]:
            shown = eval(line, names)
            if hasattr(shown, "close"):
                shown.close()
    engine.wait()


def test_a_decorator_listens() -> None:
    engine = pn.TrainingEngine(net(), classes(), epochs=2, device="cpu")
    seen = []

    @engine.on("epoch")
    def note(frame: object) -> None:
        seen.append(frame)

    engine.start().wait()
    assert callable(note)
    assert len(seen) == 2
