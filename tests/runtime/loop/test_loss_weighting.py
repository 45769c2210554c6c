"""A batch in parts says what it would have said as a whole, whatever its loss divides by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.data.batches import Batch
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop.loss_weighting import counts_for_nothing, shares
from pnne_nb.runtime.setup.recipe import Recipe
from tests.runtime import tasks

_WEIGHTS = torch.tensor([1.0, 5.0, 0.2, 0.0])
_LOSSES: dict[str, Any] = {
    "mean": nn.CrossEntropyLoss(),
    "weights of classes": nn.CrossEntropyLoss(weight=_WEIGHTS),
    "smoothed": nn.CrossEntropyLoss(weight=_WEIGHTS, ignore_index=1, label_smoothing=0.1),
    "ignored": nn.CrossEntropyLoss(ignore_index=2),
    "sum": nn.CrossEntropyLoss(reduction="sum"),
    "function": nn.functional.cross_entropy,
}


class _Peers:
    """The other one of two processes has said what `others` holds."""

    def __init__(self, others: Sequence[float] | None = None) -> None:
        self.rank, self.count = 0, 2
        self.present = True
        self.said: list[float] = []
        self._others = others

    def sum(self, values: Sequence[float]) -> list[float]:
        """What both have said; alone for the first time."""
        self.said = list(values)
        return self.said if self._others is None else [a + b for a, b in zip(values, self._others, strict=True)]

    def total(self, value: float) -> float:
        """Likewise of one value."""
        return self.sum([value])[0]

    def any(self, fact: bool) -> bool:
        """Likewise of a fact."""
        return self.sum([float(fact)])[0] > 0


def _recipe(loss: Any, peers: _Peers) -> Recipe:
    made = tasks.engine()._loop.recipe
    return type(made)(
        **{name: getattr(made, name) for name in made.__struct_fields__ if name not in {"loss", "peers"}},
        loss=loss,
        peers=peers,
    )


@pytest.mark.parametrize("name", _LOSSES)
@pytest.mark.parametrize("trailing", [(), (3,)])
def test_two_processes_with_two_batches_each_weigh_their_parts(name: str, trailing: tuple[int, ...]) -> None:
    loss = _LOSSES[name]
    generator = torch.Generator().manual_seed(3)
    outputs = [torch.randn(count, 4, *trailing, generator=generator) for count in (7, 4)]
    targets = [torch.randint(0, 4, (count, *trailing), generator=generator) for count in (7, 4)]
    targets[0][5:] = 2
    whole = sum(loss(output, target) * len(target) / 11 for output, target in zip(outputs, targets, strict=True))
    parts = [[slice(0, 5), slice(0, 1)], [slice(5, None), slice(1, None)]]

    def batches(rank: int) -> list[Batch]:
        return [
            Batch((), {}, target[part], len(target[part])) for target, part in zip(targets, parts[rank], strict=True)
        ]

    def said(rank: int) -> list[float]:
        peers = _Peers()
        shares(_recipe(loss, peers), batches(rank), [0, 1])
        return peers.said

    found = torch.zeros(())
    for rank in range(2):
        counting, examples = shares(_recipe(loss, _Peers(said(1 - rank))), batches(rank), [0, 1])
        assert examples == 11
        for share, output, target, part in zip(counting, outputs, targets, parts[rank], strict=True):
            found += loss(output[part], target[part]) * share if share else 0.0
    torch.testing.assert_close(found, whole)


class _Cramped(nn.Module):
    """Has no memory for more than so many examples."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        return x


@pytest.mark.parametrize("name", ["weights of classes", "ignored", "sum"])
def test_a_batch_that_is_cut_for_lack_of_memory_trains_as_a_whole_one(name: str) -> None:
    def trained(most: int) -> TrainingEngine:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            model = nn.Sequential(nn.Flatten(), nn.Linear(36, tasks.CLASSES), _Cramped(most))
        pictures, classes = tasks.images()
        held_out, _ = tasks.images(seed=2)
        classes[:16] = 2  # in pieces of which nothing is left
        engine = tasks.engine(
            model, train_data=(pictures, classes), val_data=(held_out, classes), loss=_LOSSES[name], shuffle=False,
            accumulate=2, optimizer=("SGD", {"lr": 0.01}), metrics=(),
        )  # fmt: skip
        if name == "ignored":
            classes[0] = 0
        engine.start().wait()
        return engine

    whole, cut = trained(99), trained(5)
    # In halves, then in quarters: first in the training, then in its validation.
    assert [(frame.kind, "in the validation" in frame.message) for frame in cut.history.anomalies] == [
        ("out-of-memory", False), ("out-of-memory", False), ("out-of-memory", True), ("out-of-memory", True)
    ]  # fmt: skip
    for measured in ("loss", "val_loss", "gradient_norm"):
        np.testing.assert_allclose(whole.history[measured], cut.history[measured], rtol=1e-5)
    for one, other in zip(whole.model.parameters(), cut.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def _mean(output: Tensor, target: Tensor) -> Tensor:
    return (output - nn.functional.one_hot(target, tasks.CLASSES)).square().mean()


def _sum(output: Tensor, target: Tensor) -> Tensor:
    return _mean(output, target) * len(target)


_sum.reduction = "sum"  # type: ignore[attr-defined]  # functions take attributes


def _of_own(loss: Any, most: int, **options: Any) -> TrainingEngine:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = nn.Sequential(nn.Flatten(), nn.Linear(36, tasks.CLASSES), _Cramped(most))
    train, val = (tuple(tensor[:90] for tensor in tasks.images(seed)) for seed in (1, 2))
    engine = tasks.engine(
        model, train_data=train, val_data=val, loss=loss, accumulate=2,
        optimizer=("SGD", {"lr": 0.01}), metrics=(), **options,
    )  # fmt: skip
    engine.start().wait()
    return engine


@pytest.mark.parametrize(
    ("loss", "doubt"), [(_mean, "stays the same, if the loss is a mean over the examples"), (_sum, "")]
)
def test_the_parts_of_a_loss_of_one_s_own_are_weighed_by_what_it_says_to_be(loss: Any, doubt: str) -> None:
    whole, cut = _of_own(loss, 99), _of_own(loss, 9)
    assert {frame.kind for frame in cut.history.anomalies} == {"out-of-memory"}
    assert doubt in cut.history.anomalies[0].message
    for measured in ("loss", "val_loss", "gradient_norm"):
        np.testing.assert_allclose(whole.history[measured], cut.history[measured], rtol=1e-5)


def test_what_a_step_function_does_with_its_examples_is_not_known() -> None:
    def step(model: nn.Module, batch: Any) -> Tensor:
        pictures, classes = batch
        return _sum(model(pictures), classes)

    cut = _of_own("CrossEntropyLoss", 9, step_function=step)
    assert "so that a step stays the same, if the loss is a mean over the examples" in cut.history.anomalies[0].message


def test_a_drawn_loss_is_known_by_its_layer() -> None:
    graph = NodeGraph(name="drawn")
    graph.add("Dataset", name="data", source="variable", data="pictures")
    graph.add("DataLoader", name="load", batch_size=16)
    graph.add("Flatten", name="flat")
    graph.add("Linear", name="fc", in_features="auto", out_features=tasks.CLASSES)
    graph.add("CrossEntropyLoss", name="loss", ignore_index=2)
    graph.add("SGD", name="optimizer", lr=0.01)
    for source, target in (
        ("data.dataset", "load.dataset"),
        ("load.input", "flat.input"),
        ("flat.output", "fc.input"),
        ("fc.output", "loss.input"),
        ("load.target", "loss.target"),
    ):
        graph.connect(source, target)
    engine = TrainingEngine.from_graph(graph, {"pictures": tasks.images()}, device="cpu")
    classes = torch.tensor([2, 2, 0, 1, 2])
    batches = [Batch((), {}, (part,), len(part)) for part in (classes[:3], classes[3:])]
    assert shares(engine._loop.recipe, batches, [0, 0]) == ([0.5, 0.5], 5)


def test_what_counts_for_nothing_reaches_every_parameter() -> None:
    layer = nn.Linear(2, 2)
    nn.init.constant_(layer.bias, torch.inf)
    loss = counts_for_nothing({"a": [layer(torch.ones(3, 2))], "b": torch.ones(2)}, torch.tensor(torch.nan))
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert loss == 0
    assert [None if p.grad is None else p.grad.abs().sum().item() for p in layer.parameters()] == [0.0, 0.0]
