"""Cells that do to the live model whatever cells do, while a training runs."""

from __future__ import annotations

import collections
import copy
import io
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

import pytest
import torch
from torch import nn

from pnne_nb.inference.inference_engine import InferenceEngine
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.telemetry.frames import StepFrame
from tests.runtime.tasks import engine, images, network

Cell: TypeAlias = Callable[[nn.Module, TrainingEngine], object]

PICTURES, CLASSES = images(seed=3)


@contextmanager
def cell() -> Iterator[None]:
    cells.began()
    try:
        yield
    finally:
        cells.ended()


def forward(model: nn.Module, trained: TrainingEngine) -> None:
    model(PICTURES)


def backward(model: nn.Module, trained: TrainingEngine) -> None:
    nn.functional.cross_entropy(model(PICTURES), CLASSES).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped


def to_eval(model: nn.Module, trained: TrainingEngine) -> None:
    model.eval()
    model(PICTURES)


def a_layer_to_eval(model: nn.Module, trained: TrainingEngine) -> None:
    trained.model.get_submodule("4").eval()


def seed(model: nn.Module, trained: TrainingEngine) -> None:
    trained.model.get_parameter("0.weight")
    torch.manual_seed(0)
    torch.rand(100)


def read_state(model: nn.Module, trained: TrainingEngine) -> None:
    first = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    second = model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def copy_it(model: nn.Module, trained: TrainingEngine) -> None:
    copied = copy.deepcopy(model)
    copied.eval()
    copied.train()
    nn.functional.cross_entropy(copied(PICTURES), CLASSES).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert isinstance(copied.train(), nn.Sequential)


def save_it(model: nn.Module, trained: TrainingEngine) -> None:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert not loaded.eval().training
    loaded(PICTURES)


def interrupted(model: nn.Module, trained: TrainingEngine) -> None:
    model(PICTURES)
    raise KeyboardInterrupt


def waiting_for(trained: TrainingEngine) -> str | None:
    """Asked anew each time, whatever a type checker believes to know."""
    return trained.waiting_for


def state_of(trained: TrainingEngine) -> str:
    return trained.state


def draw(model: nn.Module, trained: TrainingEngine) -> None:
    """Leaves the model alone, and yet its random numbers are its own."""
    torch.manual_seed(5)
    first = [torch.rand(4).tolist(), nn.Linear(3, 3).weight.tolist(), nn.functional.dropout(torch.ones(9)).tolist()]
    torch.random.manual_seed(5)
    assert first == [
        torch.rand(4).tolist(),
        nn.Linear(3, 3).weight.tolist(),
        nn.functional.dropout(torch.ones(9)).tolist(),
    ]
    state = torch.get_rng_state()
    torch.seed()
    torch.set_rng_state(state)


HOSTILE: list[Cell] = [
    forward,
    backward,
    to_eval,
    a_layer_to_eval,
    seed,
    read_state,
    copy_it,
    save_it,
    draw,
    interrupted,
]


def endless(model: nn.Module) -> TrainingEngine:
    """A training that runs until it is stopped."""
    return engine(model=model, epochs=100_000)


def trained_with(
    hostile: list[Cell], steps: int, cells_at_least: int = len(HOSTILE)
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and final state of a training of `steps` steps, with cells in turn until it has made them, and some more."""
    model = network()
    trained = endless(model)
    reached = threading.Event()

    def stop_there(frame: StepFrame) -> None:
        if frame.step == steps:
            # Halted, not ended: what a cell does to the model of a training that is over, it means.
            trained.pause(wait=False)
            reached.set()

    trained.on("step", stop_there)
    trained.start()
    done = 0
    while (not reached.is_set() or done < cells_at_least) and hostile:
        try:
            with cell():
                hostile[done % len(hostile)](model, trained)
        except KeyboardInterrupt:
            pass
        done += 1
    assert reached.wait(60)
    trained.stop()
    return trained.history["loss"].tolist(), model.state_dict()


def test_hostile_cells_leave_a_seeded_run_bit_identical() -> None:
    expected, expected_state = trained_with([], 300)
    losses, state = trained_with(HOSTILE, 300)
    assert losses == expected
    assert all(torch.equal(state[name], tensor) for name, tensor in expected_state.items())


def test_two_hundred_mixed_hostile_cells_leave_a_seeded_run_bit_identical() -> None:
    order = random.Random(7)
    order_of_cells = [hostile for _ in range(20) for hostile in order.sample(HOSTILE, len(HOSTILE))]
    model = network()
    trained = endless(model)
    trained.start()
    ran: collections.Counter[str] = collections.Counter()
    for run in order_of_cells:
        made = trained.progress.step
        with suppress(KeyboardInterrupt), cell():
            ran[run.__name__] += 1
            run(model, trained)
        # The training goes on between two cells: each of them meets another state.
        while trained.progress.step == made and trained.state == "running":
            trained.wait(0.001)
    trained.stop()
    assert trained.state == "stopped"
    assert ran == {hostile.__name__: 20 for hostile in HOSTILE}
    assert ran.total() == 200
    steps = trained.progress.step
    assert steps >= 200
    undisturbed_losses, undisturbed = trained_with([], steps)
    assert trained.history["loss"].tolist() == undisturbed_losses
    state = model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in undisturbed.items())


def test_two_hundred_cells_that_only_draw_leave_a_run_with_dropout_bit_identical() -> None:
    expected, expected_state = trained_with([], 60)
    losses, state = trained_with([draw], 60, cells_at_least=200)
    assert losses == expected
    assert all(torch.equal(state[name], tensor) for name, tensor in expected_state.items())


@pytest.mark.parametrize("use", HOSTILE[:-2], ids=lambda use: use.__name__)
def test_each_use_of_the_model_parks_the_training_until_the_cell_ends(use: Cell) -> None:
    model = network()
    trained = endless(model)
    trained.start()
    with cell():
        use(model, trained)
        assert waiting_for(trained) == "a cell that uses the model"
        steps = trained.progress.step
        assert trained.state == "running"
        assert trained.progress.step == steps
    assert waiting_for(trained) is None
    trained.stop()


def test_a_cell_that_leaves_the_model_alone_does_not_park() -> None:
    trained = endless(network())
    trained.start()
    with cell():
        torch.rand(3)
        assert trained.progress is not None
        assert waiting_for(trained) is None
    trained.stop()


def test_an_exclusive_training_waits_for_every_cell() -> None:
    trained = endless(network())
    trained.exclusive = True
    assert trained.exclusive
    trained.start()
    ready = threading.Event()
    trained.on("step", lambda _: ready.set())
    assert ready.wait(60)
    with cell():
        assert waiting_for(trained) == "a cell that uses the model"
    assert waiting_for(trained) is None
    trained.stop()


@pytest.mark.parametrize("go_on", [TrainingEngine.wait, TrainingEngine.start, TrainingEngine.resume])
def test_a_cell_that_lets_training_go_on_gives_the_model_back(go_on: Callable[[TrainingEngine], object]) -> None:
    model = network()
    trained = engine(model=model, epochs=3)
    trained.step()
    with cell():
        model(PICTURES)
        trained.start()
        trained.model.eval()
        if trained.state == "running":
            go_on(trained)
        assert trained.wait(60)


def test_stepping_in_a_cell_that_uses_the_model() -> None:
    model = network()
    trained = engine(model=model)
    with cell():
        for expected in (1, 2, 3):
            trained.step()
            model(PICTURES)
            assert trained.progress.step == expected
    trained.stop()


def test_buttons_work_while_a_cell_holds_the_model() -> None:
    model = network()
    trained = endless(model)
    trained.start()
    with cell():
        model(PICTURES)
        trained.pause()
        assert state_of(trained) == "paused"
        trained.stop()
        assert state_of(trained) == "stopped"


def test_what_a_paused_block_does_to_buffers_stays() -> None:
    model = network()
    trained = endless(model)
    trained.step()
    with cell():
        model(PICTURES)
        with trained.paused() as held, torch.no_grad():
            held.get_buffer("1.running_mean").fill_(7.0)
        model(PICTURES)
    assert (model.get_buffer("1.running_mean") == 7.0).all()
    trained.stop()


def test_nested_cells_count_as_one() -> None:
    model = network()
    trained = endless(model)
    trained.start()
    with cell():
        with cell():
            model(PICTURES)
        assert waiting_for(trained) is not None
    assert waiting_for(trained) is None
    trained.stop()


def test_outside_a_cell_a_use_has_the_model_for_as_long_as_it_takes() -> None:
    model = network()
    trained = endless(model)
    trained.start()
    for _ in range(20):
        model.eval()
        model(PICTURES)
        model.state_dict()
        copy.deepcopy(model)
    with trained.paused():
        backward(model, trained)
    assert waiting_for(trained) is None
    trained.stop()


class Witness:
    """Sees whether the training waits while its model is copied."""

    def __init__(self) -> None:
        self.look: Callable[[], str | None] = lambda: None
        self.seen: str | None = None

    def __deepcopy__(self, memo: object) -> None:
        self.seen = self.look()


def test_inference_outside_a_cell_takes_the_model_between_two_steps() -> None:
    model, witness = network(), Witness()
    object.__setattr__(model, "witness", witness)
    trained = endless(model)
    trained.start()
    witness.look = lambda: waiting_for(trained)
    InferenceEngine(model, device="cpu")
    assert witness.seen == "a use of the model in another thread"
    assert waiting_for(trained) is None
    trained.stop()
    InferenceEngine(model, device="cpu")
    assert witness.seen is None


def test_a_backward_pass_outside_a_cell_never_meets_a_step() -> None:
    model = network()
    trained = endless(model)
    trained.start()
    refused = 0
    for _ in range(50):
        try:
            backward(model, trained)
        except RuntimeError as error:
            # A step came between forward and backward: torch notices, and nothing breaks.
            assert "modified by an inplace operation" in str(error)
            refused += 1
    reached = threading.Event()
    trained.on("step", lambda _: reached.set())
    model.eval()
    assert reached.wait(60)
    trained.stop()


def test_after_the_training_the_model_is_nobody_s() -> None:
    trained = engine(epochs=1)
    trained.start()
    assert trained.wait(60)
    with cell():
        assert trained.model is not None
        assert waiting_for(trained) is None


def _write(model: nn.Module) -> None:
    with torch.no_grad():
        model.get_parameter("0.weight").mul_(1.1)


def _load(model: nn.Module) -> None:
    model.load_state_dict(network().state_dict())


def _optimize(model: nn.Module) -> None:
    own = torch.optim.SGD(model.parameters(), 0.1)
    nn.functional.cross_entropy(model(PICTURES), CLASSES).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    own.step()


def _replace(model: nn.Module) -> None:
    model.get_submodule("0").weight = nn.Parameter(model.get_parameter("0.weight").detach().clone())


@pytest.mark.parametrize("write", [_write, _load, _optimize, _replace])
def test_weights_that_a_cell_writes_are_told_and_what_a_paused_block_writes_is_meant(
    write: Callable[[nn.Module], None],
) -> None:
    trained = engine(epochs=10**6)
    trained.start()
    with cell():
        forward(trained.module, trained)
        backward(trained.module, trained)
        trained.module.state_dict()
    with cell(), trained.paused() as model:
        write(model)
    with cell():
        forward(trained.module, trained)
        with trained.paused() as model:
            write(model)
    told = [frame for frame in trained.history.anomalies if "A cell has changed" in frame.message]
    assert told == []
    with cell():
        write(trained.module)
    trained.stop()
    told = [frame for frame in trained.history.anomalies if "A cell has changed" in frame.message]
    assert len(told) == 1
    assert "0.weight" in told[0].message
