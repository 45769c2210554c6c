"""Lazy layers get their weights from the first example; inputs in a tuple or by name go where the model takes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import pnne_nb as pn
from pnne_nb.errors import TargetError, TrainingError
from pnne_nb.runtime.data.batches import as_batch
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime.tasks import engine, images


def lazy() -> nn.Sequential:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.Dropout(), nn.LazyLinear(4))


@pytest.mark.parametrize("loaded", [False, True])
def test_the_first_example_makes_the_weights_and_changes_nothing_else(loaded: bool) -> None:
    data = DataLoader(TensorDataset(*images()), batch_size=16) if loaded else images()
    before = torch.random.get_rng_state()
    several = [engine(lazy(), train_data=data, seed=3) for _ in range(2)]
    assert torch.equal(torch.random.get_rng_state(), before)
    model = several[0].module
    assert model.get_parameter("4.weight").shape == (4, 64)
    assert model.get_buffer("1.num_batches_tracked").item() == 0
    assert all(module.training for module in model.modules())
    for trained in several:
        assert trained.start().wait(60)
    assert several[0].history["loss"].tolist() == several[1].history["loss"].tolist()


def test_what_cannot_be_called_here_is_called_by_its_owner() -> None:
    with pytest.raises(TrainingError, match="only the step function knows how to call it: call the model with a batch"):
        engine(lazy(), step_function=lambda model, batch: model(batch[0]).sum())
    stream = DataLoader(TensorDataset(*images()), batch_sampler=[[0, 1], [2, 3]])
    with pytest.raises(TrainingError, match="a stream is read only once: call the model"):
        engine(lazy(), train_data=stream)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 3), nn.Linear(5, 1)

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self.left(a), self.right(b)


class Sum(Pair):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:  # type: ignore[override]  # another output
        return torch.cat((self.left(a), self.right(b)), 1)


class Whole(Pair):
    """Takes both in one argument."""

    def forward(self, both: Any) -> Tensor:  # type: ignore[override]  # that is the point
        a, b = both.values() if isinstance(both, dict) else both
        return torch.cat((self.left(a), self.right(b)), 1)


A, B = torch.randn(12, 4), torch.randn(12, 5)
CLASSES, QUANTITIES = torch.arange(12) % 3, torch.randn(12, 1)


def losses(data: Any, model: nn.Module, **options: Any) -> list[float]:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.uniform_(parameter)
    made = TrainingEngine(model, data, epochs=2, batch_size=4, device="cpu", **options)
    made.start().wait(60)
    found: list[float] = made.history["loss"].tolist()
    return found


@pytest.mark.parametrize("inputs", [(A, B), {"a": A, "b": B}, {"b": B, "a": A}, (A.numpy(), B.numpy())])
def test_inputs_in_a_tuple_or_by_name_go_where_the_model_takes_them(inputs: Any) -> None:
    expected = losses((A, B, CLASSES), Sum())
    assert losses((inputs, CLASSES), Sum()) == expected
    net = Sum()
    graph = pn.from_module(net, (A[:2], B[:2]))
    made = TrainingEngine(graph, (inputs, CLASSES), (inputs, CLASSES), epochs=1, device="cpu")
    made.start().wait(60)
    assert made.evaluate((inputs, CLASSES))["loss"] == pytest.approx(made.history["val_loss"][-1])


def combined(output: Any, target: Any) -> Tensor:
    return nn.functional.cross_entropy(output[0], target[0]) + nn.functional.mse_loss(output[1], target[1])


def named(output: Any, target: Any) -> Tensor:
    return combined(output, (target["c"], target["r"]))


def test_several_inputs_with_several_targets() -> None:
    expected = losses((A, B, (CLASSES, QUANTITIES)), Pair(), loss=combined, metrics=())
    assert losses(((A, B), (CLASSES, QUANTITIES)), Pair(), loss=combined, metrics=()) == expected
    by_name = ({"a": A, "b": B}, {"c": CLASSES, "r": QUANTITIES})
    assert losses(by_name, Pair(), loss=named, metrics=()) == expected
    with pytest.raises(
        TargetError,
        match=r"F\.cross_entropy\(output\['c'\], target\['c'\]\) \+ F\.mse_loss\(output\['r'\], target\['r'\]\)",
    ):
        losses(by_name, Pair())


class Rows(Dataset[Any]):
    """Examples whose inputs are in a tuple or a dict."""

    def __init__(self, inputs: Any) -> None:
        self._inputs = inputs

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        parts = self._inputs
        inside = {key: part[index] for key, part in parts.items()} if isinstance(parts, dict) else (A[index], B[index])
        return inside, CLASSES[index]


@pytest.mark.parametrize("inputs", [(A, B), {"a": A, "b": B}])
@pytest.mark.parametrize("model", [Sum, Whole])
def test_a_dataset_of_nested_examples_trains_as_its_arrays_do(inputs: Any, model: type[Pair]) -> None:
    expected = losses((A, B, CLASSES), Sum(), shuffle=False)
    assert losses((inputs, CLASSES), model(), shuffle=False) == expected
    assert losses(Rows(inputs), model(), shuffle=False) == expected
    assert losses(DataLoader(Rows(inputs), 4), model()) == expected


def test_a_batch_by_name_is_the_only_argument_of_a_model_that_knows_no_such_names() -> None:
    examples = [{"a": A[place], "b": B[place], "label": CLASSES[place]} for place in range(12)]
    expected = losses((A, B, CLASSES), Sum(), shuffle=False)
    assert losses(examples, Whole(), shuffle=False) == losses(examples, Sum(), shuffle=False) == expected


def test_an_empty_batch_has_no_target() -> None:
    with pytest.raises(TrainingError, match="The data has no target for the loss"):
        as_batch([], wants_target=True, model=Sum())
