"""Cells that do to the live model whatever cells do, while a training runs."""

from __future__ import annotations

import copy
import io
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pnne_nb.errors import TrainingError
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


class Meeting:
    """A place in the training thread where it waits for a cell."""

    def __init__(self) -> None:
        self.wanted, self.reached, self.left = False, threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        if self.wanted and threading.current_thread() is not threading.main_thread():
            self.wanted = False
            self.reached.set()
            assert self.left.wait(60)


@pytest.mark.parametrize("in_step", [True, False])
def test_modes_that_a_cell_has_changed_last_until_it_ends(in_step: bool) -> None:
    model, meeting = network(), Meeting()
    trained = endless(model)
    if in_step:
        model.get_submodule("2").register_forward_pre_hook(meeting)
    else:
        trained.on("step", meeting)
    trained.step(3)
    meeting.wanted = True
    trained.start()
    assert meeting.reached.wait(60)
    with cell():
        model.eval()
        meeting.left.set()
        while waiting_for(trained) is None:  # for ever, if a step is made
            pass
        assert waiting_for(trained) == "a cell that uses the model"
        assert not any(layer.training for layer in model.modules())
        evaluated = network().eval()
        evaluated.load_state_dict(model.state_dict())
        assert torch.equal(model(PICTURES), evaluated(PICTURES))
    trained.stop()
    losses = trained.history["loss"].tolist()
    assert losses == trained_with([], len(losses))[0]


def test_a_cell_that_lets_training_go_on_gives_the_modes_back() -> None:
    model, meeting, made = network(), Meeting(), threading.Event()
    trained = endless(model)
    trained.on("step", meeting)
    trained.step(3)
    meeting.wanted = True
    trained.start()
    assert meeting.reached.wait(60)
    with cell():
        model.eval()
        meeting.left.set()
        while waiting_for(trained) is None:
            pass
        trained.on("step", lambda _: made.set())
        trained.resume()
        assert made.wait(60)
        assert all(layer.training for layer in model.modules())
    trained.stop()


class Frozen(nn.Module):
    """Changes a mode in each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network()

    def forward(self, x: Tensor) -> Tensor:
        self.layers[1].eval()
        scores: Tensor = self.layers(x)
        return scores


@pytest.mark.parametrize("own", ["forward", "listener"])
def test_a_cell_waits_for_a_training_whose_own_code_changes_modes(own: str) -> None:
    model = Frozen() if own == "forward" else network()
    trained = engine(model=model, epochs=3)
    if own == "listener":
        trained.on("step", lambda _: model.eval())
    with cell():
        assert trained.start().wait(60)
    with cell():
        trained.step(2)
        trained.stop()
    assert trained.progress.step == 20


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


LINE = r"with engine\.paused\(\) as model:"


def test_where_no_cell_runs_a_use_is_refused_with_the_line_to_write() -> None:
    model = network()
    trained = endless(model)
    trained.start()
    for part in (model, model.get_submodule("0")):
        with pytest.raises(TrainingError, match=LINE):
            part(PICTURES)
    with trained.paused() as held:
        backward(held, trained)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(held, PICTURES).result(60).requires_grad
    trained.pause()
    backward(model, trained)
    assert waiting_for(trained) is None
    trained.stop()
    model(PICTURES)


def test_a_snapshot_is_a_copy_as_of_the_last_step_and_nobodys() -> None:
    model = network()
    trained = endless(model)
    trained.step(3)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    copied = trained.snapshot()
    trained.start()
    copied.eval()
    backward(copied, trained)
    assert all(torch.equal(copied.state_dict()[name], tensor) for name, tensor in expected.items())
    assert not any(layer._forward_pre_hooks for layer in copied.modules())
    trained.step(2)
    trained.start()
    with cell():
        later = trained.snapshot()
        assert waiting_for(trained) is None
    trained.stop()
    assert not torch.equal(later.get_parameter("0.weight"), expected["0.weight"])


def test_a_thread_of_a_cell_has_the_model_until_the_cell_ends() -> None:
    model = network()
    trained = endless(model)
    trained.start()
    with ThreadPoolExecutor(1) as pool:
        with cell():
            pool.submit(backward, model, trained).result(60)
            assert waiting_for(trained) == "a cell that uses the model"
            kept = pool.submit(model, PICTURES).result(60)
        assert waiting_for(trained) is None
        with pytest.raises(TrainingError, match=LINE):
            pool.submit(model, PICTURES).result(60)
        with pytest.raises((TrainingError, RuntimeError), match=f"{LINE}|modified by an inplace operation"):
            pool.submit(kept.sum().backward).result(60)
    trained.stop()
    assert trained.error is None


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch asks for it itself
def test_compiled_code_in_a_thread_of_a_cell_has_the_model_until_the_cell_ends_also_when_it_is_not_new() -> None:
    model = network()
    trained = endless(model)
    trained.step()
    compiled = torch.compile(lambda x: model.get_submodule("5")(x).sum(), backend="eager")
    given = torch.randn(3, 64)
    trained.start()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            with cell():
                pool.submit(compiled, given).result(60).backward()
                assert waiting_for(trained) == "a cell that uses the model"
            assert waiting_for(trained) is None
    trained.stop()
    assert trained.error is None


class Elsewhere(torch.autograd.Function):
    """A backward pass that waits for a thread of its own, as autograd does for an accelerator."""

    work: Callable[[], object]

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        thread = threading.Thread(target=Elsewhere.work)
        thread.start()
        thread.join()
        return gradient


class Checkpointed(nn.Module):
    """Its backward pass runs a layer again, behind the thread of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Flatten(), network()
        Elsewhere.work = lambda: (torch.get_rng_state(), torch.seed(), self.second(PICTURES))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = checkpoint(self.second, x, use_reentrant=False)
        passed: Tensor = Elsewhere.apply(scores)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return passed


@pytest.mark.parametrize("in_cell", [False, True])
def test_a_thread_that_a_step_starts_belongs_to_the_step(in_cell: bool) -> None:
    trained = endless(Checkpointed())
    trained.start()
    ready = threading.Event()
    trained.on("step", lambda _: ready.set())
    with cell() if in_cell else nullcontext():
        assert ready.wait(60)
    trained.stop()
    assert trained.wait(60)
    assert trained.state == "stopped"


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
    assert witness.seen == "a block that looks at the model"
    assert waiting_for(trained) is None
    trained.stop()
    InferenceEngine(model, device="cpu")
    assert witness.seen is None


def everything() -> dict[tuple[str, str], int]:
    """The identity of each attribute of each loaded module, and of what torch calls for all modules."""
    found = {
        (module_name, name): id(value)
        for module_name, module in list(sys.modules.items())
        if not module_name.startswith(("pnne_nb", "tests", "_pytest", "pytest", "hypothesis", "xdist", "execnet"))
        for name, value in list(getattr(module, "__dict__", {}).items())
    }
    for kind in (nn.Module, nn.Linear, Tensor, threading.Thread, ThreadPoolExecutor, torch.Generator, random.Random):
        found |= {(kind.__qualname__, name): id(value) for name, value in vars(kind).items()}
    hooks = {name: value for name, value in vars(nn.modules.module).items() if name.startswith("_global_")}
    return found | {("hooks", name): len(value) for name, value in hooks.items() if isinstance(value, dict)}


def test_one_name_of_another_module_is_replaced_while_a_training_runs_and_none_afterwards() -> None:
    model, interval = network(), sys.getswitchinterval()
    trained = endless(model)
    trained.step(40)
    trained.stop()
    before = everything()
    trained.start()
    with cell():
        backward(model, trained)
        during = everything()
        assert sys.getswitchinterval() == interval
    trained.stop()
    changed = {place for place, value in before.items() if during.get(place) != value}
    assert changed == {("torch.random", "default_generator")}
    assert {place: value for place, value in everything().items() if place in before} == before
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert not any(parameter._backward_hooks for parameter in model.parameters())


def test_after_the_training_the_model_is_nobody_s() -> None:
    trained = engine(epochs=1)
    assert trained.start().wait(60)
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


def _through_data(model: nn.Module) -> None:
    model.get_parameter("0.weight").data[0] = 0


@pytest.mark.parametrize("write", [_write, _load, _optimize, _through_data])
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
