"""A training on a device that is not the CPU, as far as a machine without a GPU can play it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis import layer_look
from pnne_nb.diagnosis.target_sample import BATCHES
from pnne_nb.errors import TargetError, TrainingError
from pnne_nb.runtime.data.sources import TensorSource
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime.tasks import CLASSES, Noisy, images, network
from tests.second_device import NAME, SecondDevice, waits


class Counting(nn.CrossEntropyLoss):
    """Counts its calls: on a GPU, one with a class that does not exist would be the last of the process."""

    calls = 0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(input, target)


class Trembling(nn.Module):
    """Gives other last digits each time, as kernels do that add in no fixed order."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.net, self._by, self._calls = network(), by, 0

    def forward(self, x: Tensor) -> Tensor:
        self._calls += 1
        scores: Tensor = self.net(x) * (1 + self._by * (self._calls % 3))
        return scores


class Recording(nn.Module):
    """Notes where it has run."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.seen = network(), set[str]()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(x.device.type)
        scores: Tensor = self.net(x)
        return scores


def engine(model: nn.Module | None = None, data: Any = None, **options: Any) -> TrainingEngine:
    settings: dict[str, Any] = {"loss": "CrossEntropyLoss", "epochs": 2, "batch_size": 16, "device": NAME, **options}
    return TrainingEngine(network() if model is None else model, images() if data is None else data, **settings)


def a_class_that_does_not_exist_is_told_before_the_device_meets_it() -> None:
    pictures, classes = images()
    loss = Counting()
    for data in ((pictures, classes + 1), (pictures, (classes + 1).to(NAME)), (pictures.to(NAME), classes - 1)):
        made = engine(data=data, loss=loss)
        with pytest.raises(TargetError, match=r"Counting cannot compare .* Target -?\d is out of bounds"):
            made.step()
    assert not loss.calls


def classes_of_a_dataset_are_looked_at_batch_by_batch() -> None:
    class Wrong(Noisy):
        def __getitem__(self, index: int) -> Any:
            picture, label = super().__getitem__(index)
            return picture, label * 0 + CLASSES if index == 40 else label

    made = engine(data=Wrong(), shuffle=False)
    made.step(2)
    with pytest.raises(TargetError, match="Target 4 is out of bounds"):
        made.step()
    made.stop()


def classes_to_ignore_are_no_classes() -> None:
    pictures, classes = images()
    classes[::3] = -100
    made = engine(data=(pictures, classes))
    made.step(2)
    made.stop()
    assert made.history["loss"].shape == (2,)


def a_rewind_says_that_it_is_not_bit_for_bit() -> None:
    made = engine(Trembling(1e-6), epochs=5)
    made.step(7)
    made.rewind(2)
    made.stop()
    (said,) = (frame.message for frame in made.history.anomalies if frame.kind == "rewound")
    assert "back 2 steps, to step 5, not bit for bit on this device (second): losses" in said
    assert "deterministic=True makes them equal" in said
    exact = engine(epochs=5)
    exact.step(7)
    exact.rewind(2)
    exact.stop()
    assert [frame.message for frame in exact.history.anomalies if frame.kind == "rewound"] == [
        "The training went back 2 steps, to step 5."
    ]


def a_rewind_refuses_what_no_rounding_explains() -> None:
    for options in ({"model": Trembling(0.1)}, {"model": Trembling(1e-6), "device": "cpu"}):
        made = engine(**options)
        made.step(7)
        with pytest.raises(TrainingError, match="a forward pass that is not the same each time"):
            made.rewind(2)
        made.stop()


def a_loss_is_chosen_on_the_device() -> None:
    model = Recording()
    made = TrainingEngine(model, images(), device=NAME)
    assert made.loss_choice.name == "CrossEntropyLoss"
    assert model.seen == {NAME}


def a_step_waits_for_the_device_once() -> None:
    rare = {*layer_look.STEPS, BATCHES}
    for options in ({}, {"precision": "16"}, {"grad_clip": 0.1}, {"optimizer": ("Adam", {"fused": True})}):
        seen: list[int] = []

        def count(_: object, seen: list[int] = seen) -> None:
            seen.append(len(waits))

        made = engine(epochs=12, data=tuple(part.to(NAME) for part in images()), metrics=("accuracy",), **options)
        made.rewind_memory = 0  # copies of the training's state are made in one step of twenty
        made.on("step", count)
        made.step(50)
        made.stop()
        # Between the last step of an epoch and the first of the next one, the epoch's metrics are computed.
        steps = [after - before for before, after in pairwise(seen)]
        # In a few steps, the training looks at its layers, and in one at the targets so far.
        inside = [count for place, count in enumerate(steps, 2) if place % 6 != 1 and place not in rare]
        assert all(steps[place - 2] == 2 for place in rare if 2 <= place < 50), (options, steps)
        assert set(inside) == {1}, (options, steps)


def losses_are_those_of_the_cpu() -> None:
    for options in ({}, {"precision": "bf16"}, {"grad_clip": 0.5, "accumulate": 2}, {"val_data": images(2)}):
        found = {}
        for device in ("cpu", NAME):
            made = engine(device=device, **options)
            assert made.start().wait(60)
            found[device] = made.history["loss"]
        torch.testing.assert_close(torch.tensor(found[NAME]), torch.tensor(found["cpu"]), rtol=1e-3, atol=1e-4)


def data_that_fit_are_copied_to_the_device_once() -> None:
    for options in ({"shuffle": True}, {"shuffle": False}, {"val_data": images(2)}):
        found = {}
        for device in ("cpu", NAME):
            made = engine(device=device, **options)
            source = made.recipe.train
            assert isinstance(source, TensorSource)
            assert (source.lives_on is None) == (device == "cpu")
            assert (f"data live on {NAME}" in repr(made)) == (device == NAME)
            assert {part.device.type for part in next(source.batches(1))} == {device}
            assert {part.device.type for part in source.tensors} == {"cpu"}
            assert made.start().wait(60)
            found[device] = made.history["loss"]
        torch.testing.assert_close(torch.tensor(found[NAME]), torch.tensor(found["cpu"]), rtol=1e-3, atol=1e-4)


def data_that_do_not_fit_stay_where_they_are() -> None:
    bytes = sum(part.nbytes for part in images())
    told = torch.accelerator.get_memory_info
    torch.accelerator.get_memory_info = lambda *_: (2 * bytes, 2**34)
    try:
        made = engine()
    finally:
        torch.accelerator.get_memory_info = told
    source = made.recipe.train
    assert isinstance(source, TensorSource)
    assert source.lives_on is None
    assert "data live" not in repr(made)
    assert {part.device.type for part in next(source.batches(1))} == {"cpu"}
    made_at: list[int] = []
    cut = source._cut

    def noted(epoch: int, start: int) -> Iterator[Any]:
        for batch in cut(epoch, start):
            made_at.append(len(waits))
            yield batch

    source._cut = noted  # type: ignore[method-assign]  # of this source alone
    made.step(4)
    # Each batch is made before the step before it waits for the device.
    assert made_at[0] == made_at[1]
    assert len(made_at) == 5
    assert made_at[4] == len(waits) - 1
    assert made.start().wait(60)
    alike = engine(device="cpu")
    assert alike.start().wait(60)
    torch.testing.assert_close(
        torch.tensor(made.history["loss"]), torch.tensor(alike.history["loss"]), rtol=1e-3, atol=1e-4
    )


def a_device_that_is_full_meanwhile_gets_batches() -> None:
    made = engine()
    source = made.recipe.train
    assert isinstance(source, TensorSource)

    def full(*_: object, **__: object) -> Tensor:
        raise torch.OutOfMemoryError

    first = source.tensors[0]
    first.to = full  # type: ignore[method-assign]  # of this tensor alone
    assert {part.device.type for part in next(source.batches(1))} == {"cpu"}
    assert source.lives_on is None


CASES: list[Callable[[], None]] = [
    a_class_that_does_not_exist_is_told_before_the_device_meets_it,
    classes_of_a_dataset_are_looked_at_batch_by_batch, classes_to_ignore_are_no_classes,
    a_rewind_says_that_it_is_not_bit_for_bit, a_rewind_refuses_what_no_rounding_explains, a_loss_is_chosen_on_the_device,
    a_step_waits_for_the_device_once, losses_are_those_of_the_cpu, data_that_fit_are_copied_to_the_device_once,
    data_that_do_not_fit_stay_where_they_are, a_device_that_is_full_meanwhile_gets_batches,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_on_a_second_device(second: SecondDevice, case: Callable[[], None]) -> None:
    second.run(case)
