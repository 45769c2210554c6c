"""Whoever uses a part of the live model has it, in cells and in threads, for as long as it is needed."""

from __future__ import annotations

import concurrent.futures
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread import model_guard
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.live_models import live_models
from pnne_nb.runtime.thread.use_guard import guard_thread, unguard_thread
from pnne_nb.telemetry.frames import AnomalyFrame
from tests.runtime.tasks import engine, images, network

PICTURES, CLASSES = images(seed=3)
FEATURES = torch.randn(16, 64)
PATIENCE = 60


@pytest.fixture
def training() -> Iterator[TrainingEngine]:
    """One that runs until it is stopped."""
    made = engine(epochs=10**6)
    made.start()
    yield made
    made.stop()
    unguard_thread()


@contextmanager
def cell() -> Iterator[None]:
    cells.began()
    try:
        yield
    finally:
        cells.ended()


def goes_on(training: TrainingEngine) -> None:
    """Wait until the training has made two more steps."""
    reached, first = threading.Event(), training.progress.step
    remove = training.on("step", lambda frame: reached.set() if frame.step >= first + 2 else None)
    try:
        assert reached.wait(PATIENCE), training.waiting_for
    finally:
        remove()


def last(training: TrainingEngine) -> nn.Linear:
    """The last layer, which nobody reaches through the engine."""
    found: Any = training.module
    layer: nn.Linear = found[5]
    return layer


def waiting_for(training: TrainingEngine) -> str | None:
    return training.waiting_for


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise RuntimeError("on purpose")


scaled: Callable[[Tensor, Tensor], Tensor] = Scaled.apply
failing: Callable[[Tensor], Tensor] = Failing.apply
OVERRIDES: Any = torch.overrides


def differentiate(output: Tensor) -> None:
    output.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped


USES: dict[str, Callable[[nn.Linear], object]] = {
    "a part": lambda layer: layer(FEATURES),
    "its backward pass": lambda layer: differentiate(layer(FEATURES)),
    "a weight": lambda layer: F.linear(FEATURES, layer.weight),
    "a view of it": lambda layer: layer.weight.detach().view(-1).sum(),
    "its gradient": lambda layer: layer.weight.grad,
    "its numbers": lambda layer: layer.weight.tolist(),
    "a write": lambda layer: layer.weight.requires_grad_(True),
    "an autograd function": lambda layer: scaled(FEATURES, layer.weight),
    "torch.autograd.grad": lambda layer: torch.autograd.grad(layer(FEATURES).sum(), [layer.weight]),
    "its state": lambda layer: layer.state_dict(),
    "functional_call": lambda layer: torch.func.functional_call(
        layer, {"weight": torch.zeros(4, 64), "bias": torch.zeros(4)}, (FEATURES,)
    ),
    "vmap over a weight": lambda layer: torch.func.vmap(lambda row: row.sum())(layer.weight),
    "a trace": torch.fx.symbolic_trace,
    "torch.compile": lambda layer: torch.compile(layer, backend="eager")(FEATURES),
    "a compiled function": lambda layer: torch.compile(lambda x: layer(x).sum(), backend="eager")(FEATURES),
}


@pytest.mark.parametrize("name", USES)
def test_a_use_of_a_part_in_a_cell_parks_the_training_until_the_cell_ends(training: TrainingEngine, name: str) -> None:
    layer = last(training)
    with cell():
        USES[name](layer)
        assert waiting_for(training) == "a cell that uses the model"
        before = training.progress.step
        USES[name](layer)
        assert training.progress.step == before
    goes_on(training)


@pytest.mark.parametrize("name", USES)
def test_a_use_of_a_part_in_a_thread_has_it_and_lets_go(training: TrainingEngine, name: str) -> None:
    layer = last(training)
    thread = threading.Thread(target=lambda: [USES[name](layer) for _ in range(5)])
    thread.start()
    thread.join(PATIENCE)
    goes_on(training)
    assert training.error is None


def test_the_mode_of_a_layer_without_tensors_parks_the_training(training: TrainingEngine) -> None:
    activation = next(part for part in training.module.modules() if isinstance(part, nn.ReLU))
    with cell():
        activation.eval()
        assert waiting_for(training) == "a cell that uses the model"
    goes_on(training)
    assert activation.training


def test_the_mode_of_a_layer_without_tensors_of_another_model_parks_nothing(training: TrainingEngine) -> None:
    activation = nn.ReLU()
    with cell():
        activation.eval()
        assert waiting_for(training) is None


def test_what_tells_of_a_part_alone_parks_nothing(training: TrainingEngine) -> None:
    layer = last(training)
    with cell():
        assert (layer.weight.shape, layer.weight.dtype, layer.weight.requires_grad) == ((4, 64), torch.float32, True)
        assert sum(parameter.numel() for parameter in training.module.parameters()) > 0
        assert "Linear" in repr(training.module)
        assert layer.weight.device.type == "cpu"
        assert not layer.weight.is_cuda
        assert waiting_for(training) is None


def test_another_model_of_a_cell_parks_nothing(training: TrainingEngine) -> None:
    other = network()
    with cell():
        F.cross_entropy(other(PICTURES), CLASSES).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.autograd.grad(other(PICTURES).sum(), list(other.parameters()))
        assert waiting_for(training) is None


def test_the_optimizer_is_a_use(training: TrainingEngine) -> None:
    with cell():
        training.optimizer.step()
        assert waiting_for(training) == "a cell that uses the model"
    goes_on(training)
    assert training.error is None


def in_thread(work: Callable[[], object]) -> threading.Thread:
    """A thread that has begun `work`."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_no_step_is_made_between_a_forward_pass_of_a_thread_and_its_backward_pass(training: TrainingEngine) -> None:
    layer, halted = last(training), threading.Event()
    seen: list[tuple[int, int]] = []

    def work() -> None:
        for _ in range(20):
            output = layer(FEATURES)
            before = training.progress.step
            # The training would have time for many.
            halted.wait(0.01)
            seen.append((before, training.progress.step))
            differentiate(output)

    in_thread(work).join(PATIENCE)
    assert len(seen) == 20
    assert all(before == after for before, after in seen)
    goes_on(training)


def test_a_backward_pass_that_fails_lets_go(training: TrainingEngine) -> None:
    failed: list[str] = []

    def work() -> None:
        for output in (training.module(PICTURES), last(training)(FEATURES)):
            try:
                differentiate(failing(output))
            except RuntimeError as error:
                failed.append(str(error))
            # The output is kept.
            kept.append(output)

    kept: list[Tensor] = []
    in_thread(work).join(PATIENCE)
    assert failed == ["on purpose"] * 2
    goes_on(training)


def test_an_output_that_is_gone_lets_go(training: TrainingEngine) -> None:
    gone, done = threading.Event(), threading.Event()

    def work() -> None:
        output = last(training)(FEATURES)
        held.append(training.progress.step)
        del output
        gc.collect()
        gone.set()
        assert done.wait(PATIENCE)

    held: list[int] = []
    thread = in_thread(work)
    assert gone.wait(PATIENCE)
    try:
        goes_on(training)
    finally:
        done.set()
        thread.join(PATIENCE)


def test_a_thread_that_has_died_lets_go(training: TrainingEngine) -> None:
    kept: list[Tensor] = []
    in_thread(lambda: kept.append(last(training)(FEATURES))).join(PATIENCE)
    goes_on(training)
    assert kept


def test_an_output_that_a_thread_keeps_for_long_is_told_and_let_go(
    training: TrainingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_guard, "PATIENCE", 0.0)
    told: list[Any] = []
    remove = training.on("anomaly", told.append)
    begun, done, kept = threading.Event(), threading.Event(), list[Tensor]()

    def work() -> None:
        kept.append(last(training)(FEATURES))
        begun.set()
        assert done.wait(PATIENCE)

    thread = in_thread(work)
    assert begun.wait(PATIENCE)
    try:
        goes_on(training)
    finally:
        done.set()
        thread.join(PATIENCE)
        remove()
    (frame,) = [each for each in told if each.kind == "model-kept"]
    assert f"a result that the thread {thread.name!r} keeps" in frame.message
    assert "torch.no_grad()" in frame.hint


def test_a_thread_in_train_mode_leaves_the_statistics_of_batch_norm_alone(training: TrainingEngine) -> None:
    norm: Any = training.module.get_submodule("1")
    training.pause()
    before = norm.running_mean.clone()
    in_thread(lambda: [norm(torch.randn(8, 4, 3, 3) + 9) for _ in range(5)]).join(PATIENCE)
    goes_on_after(training)
    assert (norm.running_mean - before).abs().max() < 1


def goes_on_after(training: TrainingEngine) -> None:
    """Make two steps more, and halt."""
    training.step(2)


def test_threads_of_a_pool_that_is_older_than_the_training_are_seen() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result(PATIENCE)
        made = engine(epochs=10**6)
        made.start()
        try:
            assert pool.submit(lambda: (last(made)(FEATURES), made.waiting_for)[1]).result(PATIENCE) is not None
            list(pool.map(lambda _: differentiate(last(made)(FEATURES)), range(20)))
            goes_on(made)
        finally:
            made.stop()
            unguard_thread()


def told_of_arrays(training: TrainingEngine) -> list[AnomalyFrame]:
    with cell():
        pass
    return [found for found in training.history.anomalies if "shares its memory with the model" in found.message]


@pytest.mark.parametrize(
    "take",
    [
        lambda weight: weight.detach().numpy(),
        lambda weight: weight.data.view(-1).numpy()[3:],
        lambda weight: np.asarray(weight.detach()),
    ],
)
def test_an_array_that_shares_memory_with_a_weight_is_told_of_once_it_outlives_its_cell(
    training: TrainingEngine, take: Callable[[Tensor], object]
) -> None:
    with cell():
        kept = take(training.module.get_parameter("0.weight"))
    (found,) = told_of_arrays(training)
    assert found.kind == "model-kept"
    assert found.hint is not None
    assert "Keep a copy instead" in found.hint
    assert told_of_arrays(training) == [found]
    del kept


def test_of_an_array_of_its_own_or_one_that_is_gone_nobody_tells(training: TrainingEngine) -> None:
    with cell():
        weight = training.module.get_parameter("0.weight").detach()
        kept = [weight.numpy().copy(), np.asarray(weight, dtype=np.float64), torch.ones(3).numpy()]
        weight.numpy().sum()
    assert not told_of_arrays(training)
    del kept


@pytest.mark.parametrize("button", [TrainingEngine.resume, TrainingEngine.start])
def test_a_button_does_not_take_the_model_from_a_cell(
    training: TrainingEngine, button: Callable[[TrainingEngine], None]
) -> None:
    layer = last(training)
    with cell():
        output, before = layer(FEATURES), layer.weight.detach().clone()
        in_thread(lambda: button(training)).join(PATIENCE)
        assert torch.equal(layer.weight, before)
        assert waiting_for(training) == "a cell that uses the model"
        differentiate(output)
    goes_on(training)


def test_a_training_that_a_button_starts_waits_for_the_cell_that_has_begun_to_use_the_model() -> None:
    made = engine(epochs=10**6)
    with cell():
        layer = last(made)
        output, before = layer(FEATURES), layer.weight.detach().clone()
        in_thread(made.start).join(PATIENCE)
        assert waiting_for(made) == "a cell that uses the model"
        assert torch.equal(layer.weight, before)
        differentiate(output)
    goes_on(made)
    made.stop()


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_the_guard_leaves_the_modes_of_others_in_their_order() -> None:
    mode = Passing()
    try:
        with mode:
            guard_thread()
            assert OVERRIDES._get_current_function_mode() is mode
        with torch.device("meta"):
            assert torch.ones(1).device.type == "meta"
            unguard_thread()
            guard_thread()
            assert torch.ones(1).device.type == "meta"
        assert torch.ones(1).device.type == "cpu"
        torch.set_default_device("meta")
        assert torch.ones(1).device.type == "meta"
        torch.set_default_device(None)
        assert torch.ones(1).device.type == "cpu"
    finally:
        unguard_thread()
    assert OVERRIDES._len_torch_function_stack() == 0


class Parallel(nn.Module):
    """A model whose forward pass has threads of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor) -> Tensor:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            scores: Tensor = pool.submit(self.net, x + torch.rand(())).result(PATIENCE)
        return scores


def test_a_step_may_wait_for_threads_that_it_starts() -> None:
    made = engine(model=Parallel(), epochs=2)
    made.start()
    assert made.wait(PATIENCE)


def test_torch_is_as_it_was_when_the_training_has_ended() -> None:
    before = (
        nn.Module.train,
        torch.autograd.backward,
        torch.autograd.grad,
        concurrent.futures.ThreadPoolExecutor.submit,
    )
    made = engine(epochs=1)
    made.start()
    assert made.wait(PATIENCE)
    unguard_thread()
    after = (
        nn.Module.train,
        torch.autograd.backward,
        torch.autograd.grad,
        concurrent.futures.ThreadPoolExecutor.submit,
    )
    assert before == after


def test_a_view_that_autograd_refuses_is_of_no_model() -> None:
    base = torch.ones(2, requires_grad=True).clone()
    with torch.no_grad():
        view = base[0]
    base.mul_(2)
    with pytest.raises(RuntimeError, match="view was created in no_grad mode"):
        _ = view.grad_fn
    assert not list(live_models.just_before([view]))
