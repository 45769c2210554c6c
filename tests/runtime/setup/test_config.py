"""The loss that an engine chooses by the target, and what it says where none fits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from pnne_nb.errors import TargetError, TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.evaluation import confusion, worst

X = torch.arange(60.0).reshape(12, 5) / 60
QUANTITIES = torch.linspace(-1, 1, 12).reshape(12, 1)
YES_AND_NO = (torch.arange(12) % 2).float().reshape(12, 1)
CLASSES = torch.arange(12) % 3


def trained(outputs: int, y: Any, **options: Any) -> TrainingEngine:
    return TrainingEngine(nn.Linear(5, outputs), (X, y), epochs=1, device="cpu", **options)


@pytest.mark.parametrize(
    ("outputs", "target", "loss"),
    [
        (1, QUANTITIES, "MSELoss"),
        (3, QUANTITIES.expand(12, 3), "MSELoss"),
        (1, torch.zeros(12, 1), "MSELoss"),
        (3, CLASSES, "CrossEntropyLoss"),
        (3, torch.eye(3)[CLASSES], "CrossEntropyLoss"),
        (1, YES_AND_NO, "BCEWithLogitsLoss"),
        (2, torch.cat([YES_AND_NO, torch.ones(12, 1)], 1), "BCEWithLogitsLoss"),
    ],
)
def test_the_target_decides(outputs: int, target: Tensor, loss: str) -> None:
    engine = trained(outputs, target)
    assert engine.loss_choice.name == loss
    assert f"loss={loss} (chosen: {engine.loss_choice.reason})" in repr(engine)
    assert engine.start().wait(60)
    # The same as if it had been given.
    same = trained(outputs, target, loss=loss)
    given = TrainingEngine(nn.Linear(5, outputs), (X, target), loss=loss, device="cpu")
    assert same.loss_choice.reason == ""
    assert f"loss={loss}, state" in repr(same)
    assert type(given._loop.recipe.loss) is type(engine._loop.recipe.loss)
    assert engine.history["loss"][0] > 0


@pytest.mark.parametrize(
    ("outputs", "target", "message"),
    [
        (1, QUANTITIES.reshape(12), r"\(N, 1\), the targets are floats of shape \(N,\): .* y.reshape\(-1, 1\)"),
        (1, QUANTITIES.numpy().reshape(12), r"y.reshape\(-1, 1\)"),
        (3, QUANTITIES.reshape(12), "give the last layer 1 output"),
        (3, CLASSES.float(), r"numbers of classes, give them as integers, y.long\(\)"),
        (1, CLASSES, r"from 0 to 2. If they are quantities, .*; if they are classes, give the last layer 3 outputs"),
        (
            1,
            CLASSES % 2 * 2 - 1,
            r"the targets are -1 and 1. For yes and no, give y == 1, and the loss is BCEWithLogitsLoss",
        ),
        (1, CLASSES - 1, r"from -1 to 1. .*; if they are classes, give y \+ 1 and the last layer 3 outputs"),
        (
            1,
            CLASSES[:, None].expand(12, 4),
            r"whole numbers of shape \(N, 4\): give the last layer 4 outputs for quantities",
        ),
        (1, QUANTITIES.to(torch.complex64), r"complex targets: give a function .* or torch.view_as_real\(y\)"),
        (1, (QUANTITIES, CLASSES), "a target that is a list: give a function of output and target"),
    ],
)
def test_what_fits_no_loss_is_refused_with_what_to_write(outputs: int, target: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        trained(outputs, target)


BITS = torch.arange(12) % 2
OUTPUTS: dict[str, Callable[[], nn.Module]] = {
    "(N, 1)": lambda: nn.Linear(5, 1),
    "(N,)": lambda: nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)),
    "squeezed": lambda: Squeezed(5, 1),
}


class Squeezed(nn.Linear):
    """Has no dimension for the examples where there is one example."""

    def forward(self, input: Tensor) -> Tensor:
        """`[N, 5]` to `[N]`, or `[1, 5]` to `[]`."""
        return super().forward(input).squeeze()


def by_hand(model: nn.Module) -> tuple[list[float], list[Tensor]]:
    """The losses of two epochs with batches of 5, and the weights after them."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    for at in (0, 5, 10) * 2:
        optimizer.zero_grad()
        output = model(X[at : at + 5])
        loss = nn.functional.binary_cross_entropy_with_logits(output, BITS[at : at + 5].float().reshape(output.shape))
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        losses.append(loss.item())
    return losses, list(model.parameters())


@pytest.mark.parametrize("make", OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize(
    "target",
    [BITS, BITS[:, None], BITS.bool(), BITS.byte(), BITS.int().numpy()],
    ids=["int64", "in a column", "bool", "uint8", "numpy"],
)
def test_whole_zeros_and_ones_of_one_output_are_yes_and_no(make: Callable[[], nn.Module], target: Any) -> None:
    torch.manual_seed(0)
    model = make()
    losses, weights = by_hand(copy.deepcopy(model))
    engine = TrainingEngine(model, (X, target), (X, target), epochs=2, batch_size=5, shuffle=False, device="cpu")
    assert "loss=BCEWithLogitsLoss (chosen: the targets are 0 or 1)" in repr(engine)
    assert engine.start().wait(60)
    assert engine.history["loss"].tolist() == losses
    assert all(map(torch.equal, model.parameters(), weights))
    right = (model(X).reshape(-1) > 0) == BITS.bool()
    assert engine.history["val_accuracy"][-1] == pytest.approx(right.float().mean().item())
    assert confusion(engine).accuracy == pytest.approx(right.float().mean().item())
    assert len(worst(engine, 3)) == 3


def test_whole_zeros_and_ones_of_datasets_and_after_a_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, pairs = nn.Linear(5, 1), [(X[at], int(BITS[at])) for at in range(12)]
    options: dict[str, Any] = {"epochs": 2, "batch_size": 5, "shuffle": False, "device": "cpu"}
    losses, _ = by_hand(copy.deepcopy(model))
    for given in (pairs, TensorDataset(X, BITS), DataLoader(TensorDataset(X, BITS.bool()), 5)):
        engine = TrainingEngine(copy.deepcopy(model), given, **options)
        engine.step(4)
        engine.save_checkpoint(tmp_path / "middle.ckpt")
        resumed = TrainingEngine.resume_from(tmp_path / "middle.ckpt", copy.deepcopy(model), given)
        for each in (engine, resumed):
            assert each.start().wait(60)
            assert each.history["loss"].tolist() == losses


class Counts(Dataset[Any]):
    """Zeros and ones at first, another number behind those that are looked at."""

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return X[index % 12], 7 if index == 70 else index % 2


def test_another_number_that_comes_later_ends_the_training() -> None:
    engine = TrainingEngine(nn.Linear(5, 1), Counts(), shuffle=False, batch_size=8, device="cpu")
    engine.start()
    with pytest.raises(
        TargetError, match=r"takes 0 and 1, and the targets are whole numbers from 0 to 7. .* 8 outputs"
    ):
        engine.wait(60)
    assert len(engine.history["loss"]) == 8


def test_a_model_that_ends_in_sigmoid_is_not_given_logits_of_it() -> None:
    with pytest.raises(TargetError, match="ends in Sigmoid, which BCEWithLogitsLoss computes itself"):
        TrainingEngine(nn.Sequential(nn.Linear(5, 1), nn.Sigmoid()), (X, YES_AND_NO), device="cpu")


@pytest.mark.parametrize("loss", ["CrossEntropyLoss", nn.CrossEntropyLoss()])
def test_classes_over_one_output_are_refused_before_the_first_step(loss: Any) -> None:
    engine = trained(1, QUANTITIES, loss=loss)
    before = [parameter.clone() for parameter in engine.module.parameters()]
    engine.start()
    with pytest.raises(TargetError, match=r"one output \(N, 1\): the loss would always be 0. Choose loss="):
        engine.wait(60)
    assert all(torch.equal(*pair) for pair in zip(before, engine.module.parameters(), strict=True))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(zip(X, CLASSES, strict=True))


def test_a_stream_is_not_read_beforehand() -> None:
    with pytest.raises(TrainingError, match=r'the data is a stream, .* loss="CrossEntropyLoss" for classes'):
        TrainingEngine(nn.Linear(5, 3), Stream(), device="cpu")
    TrainingEngine(nn.Linear(5, 3), Stream(), loss="CrossEntropyLoss", device="cpu")


def test_datasets_and_loaders_are_looked_at() -> None:
    data = TensorDataset(X, YES_AND_NO)
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * 12, 12)
    for given in (data, DataLoader(data, 4), DataLoader(data, 4, sampler=weighted), [data[at] for at in range(12)]):
        engine = TrainingEngine(nn.Linear(5, 1), given, device="cpu")
        assert "BCEWithLogitsLoss (chosen: the targets are 0 or 1)" in repr(engine)


def test_looking_at_the_model_changes_nothing() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 1)).train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.random.get_rng_state()
    TrainingEngine(model, (X, QUANTITIES), device="cpu")
    assert torch.equal(random, torch.random.get_rng_state())
    assert all(module.training for module in model.modules())
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state.items())


def test_balanced_weights_are_counted_from_the_targets() -> None:
    data = torch.randn(12, 4), torch.tensor([0] * 8 + [1] * 4)
    engine = TrainingEngine(
        nn.Linear(4, 3), data, loss=("CrossEntropyLoss", {"weight": "balanced"}), epochs=1, device="cpu"
    )
    loss = engine.recipe.loss
    assert isinstance(loss, nn.CrossEntropyLoss)
    assert loss.weight is not None
    assert loss.weight.tolist() == [0.75, 1.5, 1.0]
    engine.start().wait()


@pytest.mark.parametrize(
    ("weight", "target", "answer"),
    [
        ("even", torch.arange(6) % 3, 'Write "balanced", or a number for each class'),
        ("balanced", torch.randn(6, 3), "counted from whole numbers of classes in memory"),
    ],
)
def test_other_weights_in_words_and_targets_that_cannot_be_counted_are_told(
    weight: str, target: torch.Tensor, answer: str
) -> None:
    with pytest.raises(TrainingError, match=answer):
        TrainingEngine(nn.Linear(4, 3), (torch.randn(6, 4), target), loss=("CrossEntropyLoss", {"weight": weight}))
