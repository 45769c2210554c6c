"""One step: every optimizer of torch, norms, and skipped updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop.fault_replay import NotFiniteError
from pnne_nb.runtime.optim.optimizers import OPTIMIZERS
from pnne_nb.telemetry.frames import StepFrame
from tests.runtime.tasks import engine, images, network

TOKENS = torch.randint(0, 50, (96, 3), generator=torch.Generator().manual_seed(0)), images()[1]


class Bag(nn.Module):
    """Sparse gradients, as SparseAdam needs them."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 4, sparse=True)
        with torch.no_grad():
            self.bag.weight.copy_(torch.linspace(-1, 1, 200).reshape(50, 4))

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.bag(tokens)
        return scores


def matrices() -> nn.Module:
    """Only matrices, as Muon needs them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 8, bias=False), nn.ReLU(), nn.Linear(8, 4, bias=False))


def task(optimizer: str) -> tuple[nn.Module, Any]:
    if optimizer == "SparseAdam":
        return Bag(), TOKENS
    return (matrices() if optimizer in {"Muon", "LBFGS"} else network()), images()


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_learns_and_resumes_bit_identically(name: str, tmp_path: Path) -> None:
    model, data = task(name)
    # Batches that differ are not what LBFGS is made for.
    whole_data = {"batch_size": 96, "epochs": 24} if name == "LBFGS" else {"epochs": 4}
    whole = engine(model=model, train_data=data, optimizer=name, **whole_data)
    whole.step(9)
    whole.save_checkpoint(tmp_path / "a.ckpt")
    whole.resume()
    assert whole.wait(60)
    assert whole.history["train_loss"][-1] < whole.history["train_loss"][0]
    resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", task(name)[0], data)
    assert resumed.start().wait(60)
    assert resumed.history["loss"].tolist() == whole.history["loss"].tolist()


def test_lbfgs_makes_the_steps_of_a_loop_by_hand() -> None:
    pictures, classes = images()
    model, by_hand = matrices(), matrices()
    trained = engine(model=model, optimizer=("LBFGS", {"lr": 0.5}), batch_size=96, shuffle=False, epochs=3)
    assert trained.start().wait(60)
    optimizer = torch.optim.LBFGS(by_hand.parameters(), lr=0.5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(by_hand(pictures), classes)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert trained.history["loss"].tolist() == losses
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), by_hand.parameters(), strict=True))


def test_lbfgs_that_leaves_the_numbers_keeps_the_last_good_model() -> None:
    model = matrices()
    trained = engine(model=model, optimizer=("LBFGS", {"lr": 1e30}), batch_size=96)
    before = [parameter.clone() for parameter in model.parameters()]
    trained.start()
    with pytest.raises(NotFiniteError, match="The model is as it was before that step"):
        trained.wait(60)
    assert trained.progress.step == 0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


def test_lbfgs_and_scaled_gradients_do_not_go_together() -> None:
    with pytest.raises(TrainingError, match=r'LBFGS computes the loss several times in a step, .* "32" or "bf16"'):
        engine(optimizer="LBFGS", precision="16")


def test_the_norm_of_all_gradients_is_in_the_history() -> None:
    model = matrices()
    trained = engine(model=model, batch_size=16, shuffle=False, epochs=20)
    norms: dict[int, float] = {}

    def note(frame: StepFrame) -> None:
        gradients = [parameter.grad for parameter in model.parameters()]
        norms[frame.step] = float(nn.utils.get_total_norm([grad for grad in gradients if grad is not None]))

    trained.on("step", note)
    assert trained.start().wait(60)
    steps = trained.history.steps("gradient_norm").tolist()
    assert steps == [*range(1, 33), 48, 64, 80, 96, 112]
    assert trained.history["gradient_norm"].tolist() == [norms[step] for step in steps]


def test_clipping_gives_the_norm_of_every_step() -> None:
    trained = engine(grad_clip=0.5, epochs=8)
    assert trained.start().wait(60)
    assert len(trained.history["gradient_norm"]) == 48
    assert trained.history["gradient_norm"].max() > 0.5


class Overflows(nn.Module):
    """Loses its numbers in half precision at first: the scale must fall."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(36, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x.flatten(1) * 10)
        return scores


def test_skipped_steps_and_the_loss_scale_are_in_the_history() -> None:
    trained = engine(model=Overflows(), precision="16", loss=lambda out, y: nn.functional.cross_entropy(out, y) * 100)
    frames: list[StepFrame] = []
    trained.on("step", frames.append)
    assert trained.start().wait(60)
    skipped = [frame.step for frame in frames if frame.skipped]
    assert skipped
    assert trained.history.skipped_steps == len(skipped)
    assert trained.history.summary()["skipped_steps"] == len(skipped)
    scales = trained.history["loss_scale"].tolist()
    assert scales[0] > scales[-1]
    assert [frame.loss_scale for frame in frames] == scales


class Broken(nn.Module):
    """Its gradient is infinite, whatever it is scaled by."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(36, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x.flatten(1))
        scores.register_hook(lambda gradient: gradient * torch.inf)  # type: ignore[no-untyped-call]  # torch does not say
        return scores


def test_gradients_that_no_scale_makes_finite_stop_the_training_with_the_node() -> None:
    trained = engine(model=Broken(), precision="16", epochs=20)
    trained.start()
    with pytest.raises(NotFiniteError, match=r"stayed NaN or infinite while its scale fell to 6\.1.* 30 .*node 'fc'"):
        trained.wait(60)
    assert trained.history.skipped_steps == 29
    assert [frame.kind for frame in trained.history.anomalies] == ["nan-gradient"]
