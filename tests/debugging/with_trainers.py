"""The callbacks against Lightning and Hugging Face's Trainer themselves: ``make test-trainers``.

They are extras, and large, so they have an environment of their own, and `make test` plays their part by hand
(`test_trainer_callbacks.py`). Here nothing is skipped: without the libraries the tests fail.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from tests.runtime import tasks

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),  # Lightning uses what torch has deprecated
    pytest.mark.filterwarnings(
        "ignore:invalid escape sequence"
    ),  # torchao, which transformers imports, compiled for the first time
]


def test_a_training_of_lightning_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Lightning sets it, and leaves it set.
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    lightning = importlib.import_module("lightning.pytorch")

    class Task(lightning.LightningModule):  # type: ignore[misc, name-defined]  # an extra, without types here
        def __init__(self) -> None:
            super().__init__()
            self.net = tasks.network()
            self.losses: list[float] = []

        def training_step(self, batch: Any, _: int) -> Tensor:
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val_loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tasks.images()), batch_size=16)
    monitor, task = pn.TrainingMonitor(), Task()
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[pn.lightning_callback(monitor)], default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(task, data, data)
    assert monitor.history["loss"].tolist() == pytest.approx(task.losses)
    assert len(monitor.history["val_loss"]) == 2
    assert set(monitor.history["learning_rate"].tolist()) == {0.05}
    assert not any(layer._forward_hooks for layer in task.modules())


def test_a_softmax_before_the_loss_is_found_in_lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    lightning = importlib.import_module("lightning.pytorch")

    class Task(lightning.LightningModule):  # type: ignore[misc, name-defined]  # an extra, without types here
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(tasks.network(), nn.Softmax(1))

        def training_step(self, batch: Any, _: int) -> Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    pictures, classes = tasks.images()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(1000 * pictures, classes), batch_size=16)
    monitor = pn.TrainingMonitor()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[pn.lightning_callback(monitor)], default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Task(), data)
    assert [finding.kind for finding in monitor.diagnose()][:2] == ["softmax-before-loss", "large-input"]


def test_a_training_of_transformers_is_recorded(tmp_path: Path) -> None:
    transformers = importlib.import_module("transformers")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tasks.network()

        def forward(self, pictures: Tensor, labels: Tensor) -> dict[str, Tensor]:
            scores = self.net(pictures)
            return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}

    pictures, classes = tasks.images()
    data = [{"pictures": x, "labels": y} for x, y in zip(pictures, classes, strict=True)]
    monitor = pn.TrainingMonitor()
    trainer = transformers.Trainer(
        model=Net(),
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=16, logging_steps=1, use_cpu=True,
            report_to=[], save_strategy="no", disable_tqdm=True, learning_rate=1e-3,
        ),
        train_dataset=data,
        callbacks=[pn.hugging_face_callback(monitor)],
    )  # fmt: skip
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert monitor.history["loss"].tolist() == logged
    assert monitor.steps == 12
    assert "transformers" in sys.modules
