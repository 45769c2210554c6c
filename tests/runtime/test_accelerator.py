"""A GPU trains as the CPU does. Each test runs on the CPU too; without a GPU, the others say that they are skipped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.inference.inference_engine import InferenceEngine
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.setup.devices import DeviceManager
from pnne_nb.telemetry.frames import MemoryFrame, StepFrame
from tests.runtime.conftest import NEEDS_CUDA
from tests.runtime.tasks import CLASSES, Noisy, engine, images, network, picture_graph


def assert_close(found: Any, expected: Any, of: str = "") -> None:
    """Insist on numbers as near as float32 on a GPU is to the CPU: sums in another order, over a dozen steps."""
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=of)


def plain_network() -> nn.Sequential:
    """Without dropout: a GPU draws other numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))


def trained(model: nn.Module | None = None, **options: Any) -> TrainingEngine:
    made = engine(model=plain_network() if model is None else model, **options)
    assert made.start().wait(60)
    return made


def test_a_device_trains_as_the_cpu_does(device: str) -> None:
    expected = trained(val_data=images(2), grad_clip=1.0)
    found = trained(val_data=images(2), grad_clip=1.0, device=device)
    assert found.device.type == device
    assert {parameter.device.type for parameter in found.model.parameters()} == {device}
    for name in ("loss", "gradient_norm", "val_loss", "train_accuracy"):
        assert_close(found.history[name], expected.history[name], name)


@NEEDS_CUDA
def test_a_gpu_is_chosen_where_there_is_one() -> None:
    assert trained(device="auto").device.type == "cuda"
    assert DeviceManager().choose().type == "cuda"
    assert [found.name for found in DeviceManager().devices][:2] == ["cpu", "cuda:0"]
    assert DeviceManager()["cuda:0"].total > 2**30


def test_data_may_be_on_the_device_already(device: str) -> None:
    pictures, classes = images()
    found = trained(train_data=(pictures.to(device), classes), device=device)
    assert_close(found.history["loss"], trained().history["loss"])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_is_loaded_for_the_device(device: str, workers: int) -> None:
    alone = trained(train_data=Noisy(), num_workers=0)
    found = trained(train_data=Noisy(), num_workers=workers, device=device)
    assert_close(found.history["loss"], alone.history["loss"])


@pytest.mark.parametrize("precision", ["bf16", "16"])
def test_mixed_precision_learns(device: str, precision: str) -> None:
    found = trained(device=device, precision=precision, epochs=8)
    assert found.history["train_loss"][-1] < 0.7 * found.history["train_loss"][0]
    assert found.gradient_scale == (1.0 if precision == "bf16" else found.history["loss_scale"][-1])


class Overflowing(nn.Module):
    """Its gradients overflow in half precision until the scale has fallen."""

    def __init__(self) -> None:
        super().__init__()
        self.net = plain_network()

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x) * 300.0
        return scores


def test_steps_whose_gradients_overflow_are_skipped_and_told(device: str) -> None:
    found = trained(Overflowing(), device=device, precision="16")
    frames = [frame for frame in found.channel.drain() if isinstance(frame, StepFrame)]
    assert [frame.step for frame in frames if frame.skipped]
    assert found.history.skipped_steps == sum(frame.skipped for frame in frames) < len(frames)
    assert found.history["loss_scale"][-1] < 2.0**16


@pytest.fixture
def small_memory() -> Iterator[int]:
    """As little memory as some hundred MiB on the GPU."""
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(400 * 2**20 / torch.cuda.get_device_properties(0).total_memory)
    yield 400 * 2**20
    torch.cuda.set_per_process_memory_fraction(1.0)


def wide_network() -> nn.Sequential:
    """Half a MiB of activations for each example."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 2**16), nn.ReLU(), nn.Linear(2**16, CLASSES))


@NEEDS_CUDA
@pytest.mark.usefixtures("small_memory")
def test_memory_that_is_too_small_is_eased() -> None:
    pictures, classes = images()
    data = (pictures.repeat(16, 1, 1, 1), classes.repeat(16))
    settings: dict[str, Any] = {"train_data": data, "batch_size": 1536, "optimizer": ("SGD", {"lr": 1e-3}), "epochs": 3}
    found = trained(wide_network(), device="cuda", **settings)
    said = [frame.message for frame in found.history.anomalies if frame.kind == "out-of-memory"]
    assert any("Out of memory at step 1 with 1536 examples at once" in message for message in said)
    assert_close(found.history["loss"], trained(wide_network(), **settings).history["loss"])


@NEEDS_CUDA
def test_the_memory_of_the_gpu_is_watched() -> None:
    made = engine(device="cuda")
    assert made.memory_needs.fits
    assert made.start().wait(60)
    frames = [frame for frame in made.channel.drain() if isinstance(frame, MemoryFrame)]
    assert frames
    used = frames[-1].devices["cuda:0"]
    assert 0 < used.allocated <= used.peak <= used.reserved
    assert made.history["memory"][-1] > 0
    assert made.history["process_memory"][-1] > 2**20


def test_a_resumed_training_goes_on_as_it_would_have(device: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "device": device,
        "precision": "16",
        "scheduler": ("StepLR", {"step_size": 1}),
        "metrics": ("accuracy", ("F1Score", {"task": "multiclass", "num_classes": CLASSES, "average": "macro"})),
    }
    expected = trained(network(), **settings)
    first = engine(**settings)
    first.step(8)
    first.save_checkpoint(tmp_path / "middle.ckpt")
    first.stop()
    resumed = TrainingEngine.resume_from(tmp_path / "middle.ckpt", network(), images())
    assert resumed.start().wait(60)
    for name in ("loss", "loss_scale", "train_accuracy", "train_F1Score"):
        np.testing.assert_allclose(resumed.history[name], expected.history[name], rtol=1e-4, err_msg=name)


@NEEDS_CUDA
def test_a_checkpoint_of_a_gpu_goes_on_without_one(tmp_path: Path) -> None:
    first = engine(device="cuda")
    first.step(4)
    first.save_checkpoint(tmp_path / "gpu.ckpt")
    first.stop()
    resumed = TrainingEngine.resume_from(tmp_path / "gpu.ckpt", network(), images(), device="cpu")
    assert resumed.start().wait(60)
    assert {parameter.device.type for parameter in resumed.model.parameters()} == {"cpu"}


@pytest.mark.parametrize("loss_on", ["cpu", "device"])
def test_a_graph_is_placed_on_two_devices(device: str, loss_on: str) -> None:
    expected = engine(model=picture_graph())
    graph = picture_graph()
    graph.set("conv1", device=device)
    graph.set("fc", device="cpu" if loss_on == "device" else device)
    placed = engine(model=graph, device="cpu" if loss_on == "cpu" else device)
    for each in (expected, placed):
        assert each.start().wait(60)
    assert_close(placed.history["loss"], expected.history["loss"])
    where = {name: parameter.device.type for name, parameter in placed.model.named_parameters()}
    assert where["conv1.weight"] == device


def test_inference_gives_complete_results(device: str) -> None:
    """A result that is on its way from the GPU while it is read would differ now and then."""
    model = plain_network().eval()
    pictures = torch.randn(4096, 1, 6, 6)
    with torch.inference_mode():
        expected = model(pictures)
    inference = InferenceEngine(model, device=device, batch_size=512)
    for _ in range(20):
        for index, found in enumerate(inference.stream(pictures)):
            assert found.device.type == "cpu"
            assert_close(found, expected[512 * index : 512 * index + 512])
    assert inference.top_k(pictures[:5], k=2).classes.shape == (5, 2)
    half = InferenceEngine(model, device=device, precision="bf16").predict(pictures[:64])
    torch.testing.assert_close(half.float(), expected[:64], rtol=0.1, atol=0.1)


def test_results_on_their_way_to_the_cpu_are_waited_for() -> None:
    """Without a GPU, at least what is asked of torch can be looked at."""
    asked: list[tuple[Any, bool]] = []

    class Told(Tensor):
        def to(self, device: Any, non_blocking: bool = False) -> Tensor:  # type: ignore[override]  # what is tested
            asked.append((device.type, non_blocking))
            return self

    value = torch.ones(1).as_subclass(Told)
    to_device({"x": [value]}, torch.device("cpu"))
    to_device((value,), torch.device("cuda"))
    assert asked == [("cpu", False), ("cuda", True)]


@NEEDS_CUDA
@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_group_of_one_gpu_trains_with_nccl(strategy: str) -> None:
    alone, group = (engine(model=picture_graph(), device="cuda", val_data=images(2)) for _ in range(2))
    assert alone.start().wait(60)
    group.launch(nproc=1, strategy=strategy)
    assert group.wait(200)
    for name in ("loss", "val_loss", "val_accuracy"):
        assert_close(group.history[name], alone.history[name], name)


def test_an_interrupt_ends_the_waiting_only(device: str) -> None:
    code = """
import signal, sys, threading; sys.path.insert(0, ".")
from tests.runtime.tasks import engine
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
ready = threading.Event()
made = engine(device=sys.argv[1], epochs=10**6)
made.on("step", lambda frame: ready.set())
made.start()
ready.wait()
try:
    print("training", flush=True)
    made.wait()
except KeyboardInterrupt:
    print("interrupted", made.state, flush=True)
made.step(3)
made.stop()
print(made.state)
"""
    process = subprocess.Popen([sys.executable, "-c", code, device], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "interrupted running\nstopped\n")


def test_a_target_that_is_no_class_is_explained(device: str) -> None:
    code = """
import sys; sys.path.insert(0, ".")
from tests.runtime.tasks import engine, images
pictures, classes = images()
made = engine(device=sys.argv[1], train_data=(pictures, classes + 1))
made.start()
try:
    made.wait()
except RuntimeError as error:
    print(type(error).__name__, made.state, error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, device], capture_output=True, text=True, timeout=100, check=False
    )
    # Before the device meets it, which would compute nothing more.
    assert ended.stdout.startswith("TargetError failed CrossEntropyLoss cannot compare"), ended.stderr
