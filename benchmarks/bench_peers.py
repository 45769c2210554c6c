"""The same frames from other tools: histograms of all activations and of all gradients, ten times a second.

Each tool watches the same training of the same CNN, in turns with the bare loop as `paired` says: a block is one frame, an
observed step and the steps until the next. Counted is the CPU time of the process, all its threads included, but not
wandb's own service process, nor its hooks between frames. The tools do different things with a frame: wandb and TensorBoard
write each to disk, torchlens keeps every intermediate result and has no gradients here, the inspector forgets it once it is
shown. The inspector's histograms are of samples (`SAMPLE_BUDGET`), those of wandb and TensorBoard of every element, as in
``pnne_nb, all``. So this says what watching costs, not which tool is better.

A tool that is not installed is left out, with the reason: ``pip install -e '.[bench]' -c constraints.txt``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from benchmarks.models import cnn
from benchmarks.paired import Block, Blocks, Cost, compare
from pnne_nb.inspector.capture import live
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.statistics.patterns import leaf_layers

SECONDS = 15.0
"""For each tool."""
FRAME = 0.1
"""Seconds between two frames."""
BATCH = 64

Frame = Callable[[int, Tensor], AbstractContextManager[None]]
"""Observes the step of that number, on that input, that runs inside of it."""


@contextmanager
def inspector(net: nn.Module, _every: int, _place: Path) -> Iterator[Frame]:
    probe = LiveProbe(net, {"*": ("activations", "parameter_gradients")})

    @contextmanager
    def frame(number: int, _x: Tensor) -> Iterator[None]:
        probe.open(number)
        yield
        probe.gradients_ready()
        probe.updated()
        probe.close()

    yield frame


@contextmanager
def wandb(net: nn.Module, every: int, place: Path) -> Iterator[Frame]:
    """``wandb.watch`` offline for the gradients, its histograms for the activations."""
    import wandb as tool  # noqa: PLC0415  # it may not be installed

    os.environ["WANDB_MODE"], os.environ["WANDB_SILENT"] = "offline", "true"
    run = tool.init(mode="offline", dir=str(place), project="bench", settings=tool.Settings(silent=True))
    run.watch(net, log="gradients", log_freq=every)
    seen: dict[str, Any] = {}

    def receive(name: str, value: Tensor) -> None:
        seen[f"activations/{name}"] = tool.Histogram(value.cpu())

    @contextmanager
    def frame(_number: int, _x: Tensor) -> Iterator[None]:
        seen.clear()
        with activations(net, receive):
            yield
        run.log(dict(seen))

    try:
        yield frame
    finally:
        run.unwatch(net)
        run.finish()


@contextmanager
def tensorboard(net: nn.Module, _every: int, place: Path) -> Iterator[Frame]:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # it may not be installed

    writer: Any = SummaryWriter(str(place))  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @contextmanager
    def frame(number: int, _x: Tensor) -> Iterator[None]:
        with activations(net, lambda name, value: writer.add_histogram(f"activations/{name}", value, number)):
            yield
        for name, parameter in net.named_parameters():
            writer.add_histogram(f"gradients/{name}", parameter.grad, number)

    try:
        yield frame
    finally:
        writer.close()


@contextmanager
def torchlens(net: nn.Module, _every: int, _place: Path) -> Iterator[Frame]:
    """A trace of one more forward pass: torchlens cannot look into the one that trains."""
    import torchlens as tool  # noqa: PLC0415  # it may not be installed

    trace = getattr(tool, "trace", None) or tool.log_forward_pass

    @contextmanager
    def frame(_number: int, x: Tensor) -> Iterator[None]:
        trace(net, x)
        yield

    yield frame


@contextmanager
def activations(net: nn.Module, receive: Callable[[str, Tensor], None]) -> Iterator[None]:
    """Forward hooks on every leaf layer."""
    with contextlib.ExitStack() as stack:
        for name, module in leaf_layers(net).items():

            def hook(_module: nn.Module, _args: object, output: Tensor, name: str = name) -> None:
                receive(name, output.detach())

            stack.callback(module.register_forward_hook(hook).remove)
        yield


class Training:
    def __init__(self, every: int | None = None) -> None:
        torch.manual_seed(0)
        self.net, self._x, self._y = cnn()
        self._criterion, self._optimizer = nn.CrossEntropyLoss(), torch.optim.AdamW(self.net.parameters())
        self._number = 0
        self.every = every or self._steps_in(FRAME)

    def block(self, frame: Frame | None) -> Block:

        def run() -> Cost:
            began = time.process_time()
            for index in range(self.every):
                self._step(frame if index == 0 else None)
            return {"cpu": (time.process_time() - began) / self.every}

        return run

    def _step(self, frame: Frame | None) -> None:
        self._number += 1
        start = self._number * BATCH % len(self._x)
        x, y = self._x[start : start + BATCH], self._y[start : start + BATCH]
        with nullcontext() if frame is None else frame(self._number, x):
            self._optimizer.zero_grad()
            self._criterion(self.net(x), y).backward()
            self._optimizer.step()

    def _steps_in(self, seconds: float) -> int:
        for _ in range(5):
            self._step(None)
        began, steps = time.thread_time(), 0
        while time.thread_time() - began < 5 * seconds:
            self._step(None)
            steps += 1
        return max(2, steps // 5)


@contextmanager
def unsampled(net: nn.Module, every: int, place: Path) -> Iterator[Frame]:
    """The same probe, with histograms of every element, as the other tools make them."""
    everything = {"LIVE_SAMPLE": sys.maxsize, "SAMPLE_BUDGET": sys.maxsize}
    with mock.patch.multiple(live, **everything), inspector(net, every, place) as frame:
        yield frame


TOOLS: dict[str, Callable[[nn.Module, int, Path], AbstractContextManager[Frame]]] = {
    "pnne_nb": inspector,
    "pnne_nb, all": unsampled,
    "wandb": wandb,
    "TensorBoard": tensorboard,
    "torchlens": torchlens,
}


def main() -> None:
    torch.set_num_threads(1)
    # torchlens says once that it runs the model; it is meant to.
    warnings.filterwarnings("ignore", module="torchlens")
    every = Training().every
    print(f"histograms of all activations and gradients, one frame in {every} steps, in CPU time of the process:")
    for name, tool in TOOLS.items():
        training = Training(every)
        with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
            try:
                frame = stack.enter_context(tool(training.net, every, Path(place)))
            except ImportError as error:
                print(f"  {name:12} left out: {error}. pip install -e '.[bench]' -c constraints.txt", flush=True)
                continue

            def make(training: Training = training, frame: Frame = frame) -> Blocks:
                return training.block(None), training.block(None), training.block(frame)

            found = compare(make, seconds=SECONDS)["cpu"]
        cost = (found.ratio.middle - 1) * found.bare * every
        print(f"  {name:12} watched / bare {found}, {found.rounds} rounds, {1e3 * cost:.1f} ms a frame", flush=True)


if __name__ == "__main__":
    main()
