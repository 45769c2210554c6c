"""Memory that is too small for a batch."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.faults.oom_recovery import is_out_of_memory, pieces
from tests.runtime.tasks import engine, images


class Pair(NamedTuple):
    x: Tensor
    y: Tensor


class Cramped(nn.Module):
    """Has room for so many examples at once, as a full device would."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.largest = 0
        self.layer = nn.Linear(36, 4)
        nn.init.constant_(self.layer.weight, 0.01)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        self.largest = max(self.largest, len(x))
        scores: Tensor = self.layer(x.flatten(1))
        return scores


def test_a_batch_that_is_too_large_is_cut_and_means_the_same() -> None:
    whole, cut = (engine(model=Cramped(room), val_data=images(2)) for room in (99, 5))
    for trained in (whole, cut):
        assert trained.start().wait(60)
    model = cut.module
    assert isinstance(model, Cramped)
    assert model.largest == 4
    torch.testing.assert_close(cut.history["loss"], whole.history["loss"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(cut.history["val_loss"], whole.history["val_loss"], rtol=1e-5, atol=1e-6)
    for name in ("train_accuracy", "val_accuracy"):
        assert cut.history[name].tolist() == whole.history[name].tolist()
    said = [frame for frame in cut.history.anomalies if frame.kind == "out-of-memory"]
    assert [frame.step for frame in said] == [1, 1, 6, 6]
    assert "in the validation after step 6 with 16 examples at once: from here on, each of its" in said[2].message
    assert "4 pieces" in said[3].message
    assert any("Out of memory at step 1 with 16 examples at once" in frame.message for frame in said)


def test_what_is_not_the_same_in_pieces_is_named() -> None:
    said = []
    for model in (nn.Sequential(nn.BatchNorm2d(1), Cramped(8)), Cramped(8)):
        trained = engine(model=model, epochs=1)
        assert trained.start().wait(60)
        said += [each.message for each in trained.history.anomalies if each.kind == "out-of-memory"][:1]
    assert said[0].endswith("a step stays the same, except to batch norm ('0'), which sees the pieces one by one.")
    assert said[1].endswith("a step stays the same.")


def test_a_validation_that_is_asked_for_tells_of_it_too() -> None:
    trained = engine(model=Cramped(8), val_data=images(2))
    trained.validate()
    (said,) = trained.history.anomalies
    assert "Out of memory in the validation after step 0 with 16 examples at once" in said.message


def test_too_small_for_one_example_fails() -> None:
    trained = engine(model=Cramped(0))
    trained.start()
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        trained.wait(60)
    assert trained.state == "failed"
    (told,) = trained.history.anomalies
    assert "Out of memory while training on batch 1 of epoch 1, and no smaller pieces" in told.message
    assert told.hint is not None
    assert "bf16" in told.hint
    assert "bf16" in "".join(getattr(trained.error, "__notes__", ()))


class Hungry(torch.optim.SGD):
    """Needs memory of its own when it steps."""

    def step(self, closure: object = None) -> None:  # type: ignore[override]  # what is tested
        raise torch.OutOfMemoryError("no room for the moments")


def test_an_optimizer_without_room_is_not_tried_again() -> None:
    trained = engine(model=Cramped(99), optimizer=Hungry)
    trained.start()
    with pytest.raises(torch.OutOfMemoryError, match="no room for the moments"):
        trained.wait(60)
    assert [told.kind for told in trained.history.anomalies] == ["out-of-memory"]
    assert "no smaller pieces of a batch would help: OutOfMemoryError: no room" in trained.history.anomalies[0].message


def test_pieces_of_nested_batches() -> None:
    x, weight = torch.arange(5), torch.ones(3)
    cut = pieces({"x": [x], "pair": Pair(x, weight), "tuple": (x, "name")}, 2, 5)
    assert [piece["x"][0].tolist() for piece in cut] == [[0, 1], [2, 3, 4]]
    assert isinstance(cut[0]["pair"], Pair)
    assert cut[0]["pair"].y is weight
    assert cut[1]["tuple"][1] == "name"
    assert len(pieces((x, x), 8, 5)) == 5
    assert pieces(x, 2, 1) == [x]


class Spendthrift(nn.Module):
    """Asks the CPU for more memory than any machine has, unless the batch is small."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 5:
            torch.empty(2**50)
        scores: Tensor = self.net(x)
        return scores


@pytest.mark.parametrize("precision", ["32", "16"])
def test_the_cpu_says_it_in_other_words(precision: str) -> None:
    trained = engine(model=Spendthrift(), precision=precision)
    assert trained.start().wait(60)
    assert [frame.kind for frame in trained.history.anomalies] == ["out-of-memory"] * 2


def test_a_step_that_is_made_again_scales_its_gradients_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = engine(precision="16", grad_clip=1.0)
    told: list[int] = []

    def total_norm(gradients: object) -> Tensor:
        if not told:
            told.append(1)
            torch.empty(2**50)
        return torch.ones(())

    monkeypatch.setattr(nn.utils, "get_total_norm", total_norm)
    assert trained.start().wait(60)
    assert [frame.kind for frame in trained.history.anomalies] == ["out-of-memory"]


def test_what_is_said_about_memory_is_not_its_lack() -> None:
    assert is_out_of_memory(RuntimeError("[enforce fail] . DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(TrainingError("A worker has died. If the machine ran out of memory, use fewer."))


def test_packed_sequences_are_cut_between_sequences() -> None:
    sequences = [torch.arange(n, dtype=torch.float32) for n in (2, 4, 1, 3)]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    found = pieces((packed, torch.arange(4)), 2, 4)
    parts = [one for piece, _ in found for one in nn.utils.rnn.unpack_sequence(piece)]
    assert [part.tolist() for part in parts] == [one.tolist() for one in sequences]
    assert [numbers.tolist() for _, numbers in found] == [[0, 1], [2, 3]]
