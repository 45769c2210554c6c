"""What an engine does with a training in a process of its own: commands, edits, failures, and cells beside it."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop.fault_replay import NotFiniteError
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.training_process import training_process
from pnne_nb.runtime.training_process.process_messages import Pressed
from pnne_nb.runtime.training_process.process_server import server
from pnne_nb.runtime.training_process.training_process import TrainingProcess
from pnne_nb.telemetry.frames import HistogramFrame, MemoryFrame, NormsFrame, StateFrame, StepFrame, TimeFrame
from tests.runtime import tasks
from tests.runtime.distributed import groups
from tests.runtime.distributed.groups import at_step, state_of
from tests.runtime.training_process.same import assert_equal, assert_same

pytestmark = pytest.mark.timeout(300)

ENDLESS = 10**6


def pid_of(engine: TrainingEngine) -> int:
    """Number of the process that makes the steps."""
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    assert process.pid is not None
    return process.pid


def ended(engine: TrainingEngine) -> BaseException:
    """What has made a training fail, once it has."""
    with pytest.raises(BaseException) as raised:  # noqa: PT011  the test looks at it
        engine.wait(groups.SECONDS)
    assert state_of(engine) == "failed"
    return raised.value


@contextmanager
def cell() -> Iterator[None]:
    """A cell that runs in this thread."""
    cells.began()
    try:
        yield
    finally:
        cells.ended()


def run(**options: Any) -> TrainingEngine:
    """The task, trained in a thread."""
    engine = tasks.engine(**options)
    engine.start().wait()
    return engine


# Commands


def test_steps_are_counted_and_everything_is_told_before_a_halt() -> None:
    thread, engine = run(), tasks.engine()
    engine.start(process=True)
    engine.pause()
    made = engine.progress.step
    engine.step(3)
    assert state_of(engine) == "paused"
    assert engine.progress.step == len(engine.history["loss"]) == made + 3
    engine.step()
    assert engine.history.steps("loss").tolist() == list(range(1, made + 5))
    engine.resume()
    assert engine.wait(groups.SECONDS)
    assert_same(thread, engine)


def test_the_first_steps_may_be_asked_for_by_number() -> None:
    engine = tasks.engine()
    engine._execution.choose(process=True)
    engine.step(4)
    assert engine.history.steps("loss").tolist() == [1, 2, 3, 4]
    assert state_of(engine) == "paused"
    assert engine.in_process
    engine.stop()
    assert state_of(engine) == "stopped"


def test_steps_asked_for_of_a_training_that_runs_are_made_and_no_more() -> None:
    engine = tasks.engine(epochs=ENDLESS)
    engine.start(process=True)
    engine.step()
    made = engine.progress.step
    engine.resume()
    engine.step(2)
    assert engine.progress.step >= made + 2
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    assert not process.at_work
    engine.stop()


def test_a_training_goes_from_thread_to_process_and_back() -> None:
    whole, engine = run(epochs=4), tasks.engine(epochs=4)
    engine.step(5)
    engine.stop()
    at_step(engine, 10, lambda: engine.stop(wait=False))
    assert engine.start(process=True).wait(groups.SECONDS)
    assert state_of(engine) == "stopped"
    assert engine.progress.step == 10
    at_step(engine, 13, lambda: engine.stop(wait=False))
    assert engine.start().wait(groups.SECONDS)
    assert engine.start(process=True).wait(groups.SECONDS)
    assert_same(whole, engine)


def test_a_training_in_a_thread_is_not_moved_while_it_is_under_way() -> None:
    engine = tasks.engine()
    engine.step()
    with pytest.raises(TrainingError, match=r"is paused in a thread of the kernel: stop\(\) it"):
        engine.start(process=True)
    engine.stop()


@pytest.mark.parametrize("first", [True, False])
def test_a_model_has_one_training_at_a_time(first: bool) -> None:
    engine = tasks.engine(epochs=ENDLESS)
    other = tasks.engine(engine.module)
    engine.start(process=first)
    with pytest.raises(TrainingError, match="Another engine is training this model, or a part of it: stop it first"):
        other.start(process=not first)
    engine.stop()
    assert other.start(process=not first).wait(groups.SECONDS)


def test_every_start_but_the_first_takes_its_process_from_the_server_that_is_warm() -> None:
    pids = []
    for _ in range(2):
        engine = tasks.engine(epochs=ENDLESS)
        engine.start(process=True)
        engine.step()
        pids.append((server.pid, psutil.Process(pid_of(engine)).ppid(), pid_of(engine)))
        engine.stop()
    (first, parent, one), (second, other_parent, another) = pids
    assert first == second == parent == other_parent
    assert one != another
    groups.assert_gone([psutil.Process(pid) for pid in (one, another) if psutil.pid_exists(pid)])


def press(address: str) -> int:
    """What a page does when a button is pressed; the status of the answer."""
    try:
        with urlopen(Request(address, method="POST"), timeout=groups.SECONDS) as answer:
            status: int = answer.status
            return status
    except HTTPError as error:
        error.close()
        return error.code


def test_a_page_halts_a_process_without_the_kernel() -> None:
    engine = tasks.engine(epochs=ENDLESS)
    engine.start(process=True)
    engine.step()
    address = engine.direct_buttons
    assert address.startswith("http://127.0.0.1:")
    told: list[str] = []
    reached = {state: threading.Event() for state in ("running", "paused", "stopped")}

    def state_changed(frame: StateFrame) -> None:
        told.append(frame.state)
        reached[frame.state].set()

    engine.on("state", state_changed)
    engine.resume()
    assert press(address + "x/pause") == press(address + "/start") == 404
    assert press(address + "/pause") == 204
    assert reached["paused"].wait(groups.SECONDS)
    assert told == ["running", "paused"]
    engine.resume()
    assert press(address + "/stop") == 204
    assert reached["stopped"].wait(groups.SECONDS)
    engine.stop()
    assert engine.direct_buttons == ""


def test_what_a_page_has_asked_for_before_counts_less_than_what_the_kernel_was_told_since() -> None:
    engine = tasks.engine(epochs=ENDLESS)
    engine.start(process=True)
    engine.step()
    engine.resume()
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    process._take(Pressed("pause", engine._control.asked_at - 1.0))
    assert engine._control.steps_left is None
    engine.stop()


# Who looks at the training, and changes it


def halfway(engine: TrainingEngine, act: Callable[[], object], *, process: bool) -> TrainingEngine:
    """Train, and do something when the fifth step is made."""
    engine._execution.choose(process=process)
    engine.step(5)
    act()
    engine.resume()
    assert engine.wait(groups.SECONDS)
    return engine


def _freeze(engine: TrainingEngine) -> None:
    with engine.paused() as model:
        assert isinstance(model, nn.Sequential)
        model[0].requires_grad_(False)
        with torch.no_grad():
            cast("Tensor", model[5].weight).mul_(0.5)
    engine.set_optimizer(lr=0.01)


def _deepen(engine: TrainingEngine) -> None:
    blueprint = engine._session.live_source
    graph = cast("Any", blueprint)._graph
    graph.disconnect("flat.output", "fc.input")
    graph.add("Linear", name="more", in_features=64, out_features=64)
    graph.connect("flat", "more")
    graph.connect("more", "fc")


def _look(engine: TrainingEngine) -> None:
    engine.validate()
    assert engine.model is engine.module


@pytest.mark.parametrize(
    ("make", "act"),
    [
        (tasks.engine, _freeze),
        (lambda: tasks.engine(tasks.picture_graph()), _deepen),
        (lambda: tasks.engine(val_data=tasks.images(2)), _look),
    ],
)
def test_what_is_changed_between_two_steps_counts(
    make: Callable[[], TrainingEngine], act: Callable[[TrainingEngine], None]
) -> None:
    thread, process = make(), make()
    halfway(thread, lambda: act(thread), process=False)
    halfway(process, lambda: act(process), process=True)
    assert [frame.kind for frame in thread.history.anomalies] == [frame.kind for frame in process.history.anomalies]
    assert_same(thread, process)


def test_whoever_is_told_of_a_step_or_an_epoch_finds_the_model_there() -> None:
    seen: dict[bool, list[Any]] = {False: [], True: []}
    for process, told in seen.items():
        engine = tasks.engine()

        def look(frame: Any, engine: TrainingEngine = engine, found: list[Any] = told) -> None:
            found.append((frame.step, {name: value.clone() for name, value in engine.model.state_dict().items()}))

        engine.on("epoch", look)
        for step in (2, 9):
            at_step(engine, step, partial(look, StepFrame(step, 0, 0.0, 0.0, 0, 0.0)))
        assert engine.start(process=process).wait(groups.SECONDS)
    assert [step for step, _ in seen[True]] == [2, 6, 9, 12]
    assert_equal(seen[False], seen[True])


def test_what_a_listener_raises_fails_the_training_at_its_step() -> None:
    def fail() -> None:
        raise ValueError("enough")

    engine = tasks.engine()
    at_step(engine, 7, fail)
    engine.start(process=True)
    assert str(ended(engine)) == "enough"
    assert engine.history.steps("loss")[-1] == engine._loop.steps == 7


def test_checkpoints_are_those_of_a_thread(tmp_path: Path) -> None:
    paths = []
    for process in (False, True):
        directory = tmp_path / str(process)
        engine = tasks.engine(
            val_data=tasks.images(2), checkpoint_dir=directory, checkpoint_every=(5, "steps"), max_to_keep=None
        )
        assert engine.start(process=process).wait(groups.SECONDS)
        engine.save_checkpoint(tmp_path / f"{process}.ckpt")
        paths.append(sorted(path.name for path in directory.iterdir()))
    assert paths[0] == paths[1]
    for name in paths[0]:
        engines = [
            TrainingEngine.resume_from(tmp_path / str(process) / name, tasks.network(), tasks.images(), tasks.images(2))
            for process in (False, True)
        ]
        assert_same(*engines)


def test_probes_and_the_monitor_look_into_the_process() -> None:
    engine = tasks.engine(epochs=ENDLESS)
    inspector = Inspector(engine.module)
    inspector.watch("5", what=("activations",))
    inspector.attach(engine, budget=1.0, hz=1e9)
    told: list[Any] = []
    engine.start(process=True)
    while not {HistogramFrame, NormsFrame, MemoryFrame, TimeFrame, StateFrame, StepFrame} <= {type(f) for f in told}:
        assert engine.channel.wait(groups.SECONDS)
        told += engine.channel.drain()
    rss = next(frame.process for frame in told if isinstance(frame, MemoryFrame))
    engine.pause()
    assert rss == pytest.approx(psutil.Process(pid_of(engine)).memory_info().rss, rel=0.5)
    engine.stop()


# Cells


def test_a_cell_that_uses_the_model_neither_parks_nor_changes_the_training() -> None:
    thread, engine = run(epochs=200), tasks.engine(epochs=200)
    model, (pictures, classes) = engine.module, tasks.images()
    engine.start(process=True)
    with cell():
        while engine.progress.step < 100:
            torch.autograd.backward(nn.functional.cross_entropy(model(pictures), classes))
            model.eval()
            torch.manual_seed(0)
            torch.rand(3)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1.0)
            assert engine.waiting_for in {None, "a process to start"}
        assert engine.wait(groups.SECONDS)
    model.train()
    assert_same(thread, engine)


def test_of_a_layer_that_a_cell_exchanges_meanwhile_nobody_tells_that_it_is_not_trained() -> None:
    thread, engine, own = run(), tasks.engine(), nn.Linear(64, tasks.CLASSES)

    kept, sequence = engine.module.get_submodule("5"), cast("Any", engine.module)

    def exchange(frame: StepFrame) -> None:
        sequence[5] = own if frame.epoch == 1 else kept

    engine.on("step", exchange, waits=False)
    assert engine.start(process=True).wait(groups.SECONDS)
    assert [found.kind for found in engine.history.anomalies] == []
    assert_same(thread, engine)


def test_a_cell_that_gives_the_live_model_another_form_is_told_where_it_meets_what_was_trained() -> None:
    engine = tasks.engine(epochs=ENDLESS)
    model = engine.module
    assert isinstance(model, nn.Sequential)
    engine.start(process=True)
    engine.step(3)
    layer, model[5] = model[5], nn.Linear(64, 9)
    with pytest.raises(TrainingError, match="does not fit the live model any more: it was changed in the kernel"):
        _ = engine.model
    model[5] = layer
    assert engine.model is model
    engine.step()
    engine.stop()
    assert engine.error is None
    assert engine._loop.steps == 4


# What goes wrong


class _Unsound(nn.Module):
    """Fails in its fifth forward pass in train mode, as it is told to."""

    def __init__(self, fail: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network = tasks.network()
        self.fail = fail
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.training
        y: Tensor = self.network(x)
        return self.fail(y) if self.calls == 5 else y


class OwnError(Exception):
    """Of a notebook."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(f"{place} {number}")


def _own(y: Tensor) -> Tensor:
    raise OwnError("here", 3)


def _divided(y: Tensor) -> Tensor:
    del y
    raise ZeroDivisionError("nothing to divide by")


def _nan(y: Tensor) -> Tensor:
    return y * float("nan")


@pytest.mark.parametrize(("fail", "kind"), [(_divided, ZeroDivisionError), (_nan, NotFiniteError)])
def test_a_failure_is_that_of_a_thread(fail: Callable[[Tensor], Tensor], kind: type[Exception]) -> None:
    thread, process = (tasks.engine(_Unsound(fail), loss="CrossEntropyLoss") for _ in range(2))
    thread.start()
    before = ended(thread)
    process.start(process=True)
    error = ended(process)
    assert type(error) is type(before) is kind
    assert str(error) == str(before)
    assert error.__notes__ == before.__notes__
    assert "step.py" in str(error.__cause__)
    assert_same(thread, process)
    frames = [[f for f in engine.channel.drain() if isinstance(f, StateFrame)][-1] for engine in (thread, process)]
    assert frames[0] == frames[1]


def test_an_exception_that_cannot_be_made_again_is_told_in_words() -> None:
    engine = tasks.engine(_Unsound(_own))
    engine.start(process=True)
    error = ended(engine)
    assert isinstance(error, TrainingError)
    assert "OwnError: here 3" in str(error)


def _crash(y: Tensor) -> Tensor:
    ctypes.string_at(0)
    return y


def test_a_crash_leaves_the_kernel_alive_and_says_where_it_was() -> None:
    engine = tasks.engine(_Unsound(_crash))
    engine.on("step", lambda _: None)
    engine.start(process=True)
    message = str(ended(engine))
    assert "The training process has died (killed by SIGSEGV)." in message
    assert "in _crash" in message
    assert (
        "Step 4 was the last that it reported. The engine is at step 0, the last that it reported completely" in message
    )
    assert len(engine.history["loss"]) == engine.progress.step == 0


def test_a_process_that_is_killed_costs_the_steps_since_its_last_state(tmp_path: Path) -> None:
    whole = run(epochs=40)
    engine = tasks.engine(epochs=40, checkpoint_dir=tmp_path, checkpoint_every=(4, "steps"))
    at_step(engine, 30, lambda: os.kill(pid_of(engine), signal.SIGKILL))
    engine.start(process=True)
    message = str(ended(engine))
    assert "killed by SIGKILL" in message
    assert "Another program ended it, or the machine ran out of memory." in message
    assert "Step 30 was the last that it reported. The engine is at step 28" in message
    assert engine.history.steps("loss")[-1] == engine._loop.steps == 28
    assert engine.start(process=True).wait(groups.SECONDS)
    assert_same(whole, engine)


def test_a_process_that_is_killed_while_it_halts_is_told_of_by_whoever_wants_something() -> None:
    whole, engine = run(), tasks.engine()
    engine._execution.choose(process=True)
    engine.step(5)
    assert engine.model is engine.module
    os.kill(pid_of(engine), signal.SIGKILL)
    engine.resume()
    assert "The engine is at step 5," in str(ended(engine))
    engine.start().wait()
    assert_same(whole, engine)


class _Hanging(tasks.Noisy):
    """Stops giving examples in the second epoch, in a process of its own: in the middle of a batch that has drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.given, self.home = 0, os.getpid()

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.given += 1
        if self.given > tasks.EXAMPLES + 20 and os.getpid() != self.home:
            threading.Event().wait()
        return super().__getitem__(index)


@pytest.mark.parametrize("waits", [True, False])
def test_data_that_hangs_is_left_behind_with_everything_that_was_trained(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    monkeypatch.setattr(training_process, "_PATIENCE", groups.SECONDS)
    monkeypatch.setattr(training_process, "_GIVES_UP", 0.1)
    whole = run(train_data=tasks.Noisy(), metrics=())
    engine = tasks.engine(train_data=_Hanging(), metrics=())
    reached = threading.Event()
    engine.on("step", lambda frame: reached.set() if frame.step == 7 else None, waits=waits)
    engine.start(process=True)
    assert reached.wait(groups.SECONDS)
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    while not (waits or process.fetching):
        engine.channel.wait(0.1)
    if not waits:
        engine.pause(wait=False)
        assert engine.waiting_for == "pausing: waiting for the data, batch 2 of epoch 2"
    engine.stop()
    assert state_of(engine) == "stopped"
    assert engine._loop.steps == engine.progress.step == len(engine.history["loss"]) == 7
    assert engine.error is None
    assert not engine.history.anomalies
    assert engine.start().wait(groups.SECONDS)
    assert_same(whole, engine)


def test_what_a_listener_looks_at_ahead_of_what_was_told_leaves_no_hole_in_the_history() -> None:
    whole, engine = run(epochs=40), tasks.engine(epochs=40)
    looked: list[int] = []

    def look(frame: StepFrame) -> None:
        if frame.step in (2, 30):
            assert engine.model is engine.module
            looked.append(engine._loop.steps)
        if frame.step == 30:
            os.kill(pid_of(engine), signal.SIGKILL)

    engine.on("step", look, waits=False)
    engine.start(process=True)
    assert "killed by SIGKILL" in str(ended(engine))
    assert engine.history.steps("loss").tolist() == list(range(1, looked[-1] + 1))
    assert engine._loop.steps == engine.progress.step == looked[-1]
    assert engine.start().wait(groups.SECONDS)
    assert_same(whole, engine)


def test_a_listener_that_looks_at_the_model_at_the_end_is_told_of_the_last_steps() -> None:
    whole, engine = run(), tasks.engine()
    engine.on("step", lambda _: engine.model, waits=False)
    assert engine.start(process=True).wait(groups.SECONDS)
    assert_same(whole, engine)


def test_a_process_that_is_frozen_is_killed_when_it_shall_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_process, "_PATIENCE", 0.0)
    monkeypatch.setattr(training_process, "_TIMES_LONGEST", 0.0)
    engine = tasks.engine(epochs=ENDLESS)
    frozen = threading.Event()

    def freeze(frame: StepFrame) -> None:
        if frame.step >= 5 and not frozen.is_set():
            psutil.Process(pid_of(engine)).suspend()
            frozen.set()

    engine.on("step", freeze, waits=False)
    engine.start(process=True)
    assert frozen.wait(groups.SECONDS)
    engine.stop()
    assert state_of(engine) == "stopped"
    told = engine.history.anomalies[-1]
    assert told.kind == "process-killed"
    assert re.match(
        r"The training process did not stop \(it was .*\), and was killed. Step \d+ was the last that it reported. "
        r"The engine is at step 0, the last that it reported completely: start\(\) or start\(process=True\) goes on",
        told.message,
    )
    engine.start()
    engine.stop()


def test_a_process_that_is_frozen_while_it_halts_costs_what_it_had_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_process, "_STOPPING", 0.1)
    engine = tasks.engine()
    engine._execution.choose(process=True)
    engine.step(5)
    psutil.Process(pid_of(engine)).suspend()
    engine.stop()
    assert state_of(engine) == "stopped"
    told = engine.history.anomalies[-1]
    assert (told.kind, told.step, engine.progress.step) == ("process-died", 0, 0)
    assert (
        "hangs: no sign of life for 0.1 seconds. It was killed. Step 5 was the last that it reported." in told.message
    )


def test_a_process_without_a_sign_of_life_is_taken_to_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tasks.engine(epochs=ENDLESS)

    def freeze() -> None:
        psutil.Process(pid_of(engine)).suspend()
        monkeypatch.setattr(training_process, "_SILENCE", 0.1)

    at_step(engine, 5, freeze)
    engine.start(process=True)
    assert "The training process hangs: no sign of life for 0.1 seconds. It was killed." in str(ended(engine))


# What cannot be handed over


class _Locked(tasks.Noisy):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def _stepping(lock: Any) -> Callable[[nn.Module, Any], Tensor]:
    def step(model: nn.Module, batch: Any) -> Tensor:
        with lock:
            return nn.functional.cross_entropy(model(batch[0]), batch[1])

    return step


def _guarded() -> nn.Sequential:
    model = tasks.network()
    model[0].lock = threading.Lock()  # type: ignore[assignment]  # as people do
    return model


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: tasks.engine(train_data=_Locked()),
            r"train_data\.lock \(a lock\) cannot be handed to a process of its own: TypeError: cannot pickle '_thread\.lock'",
        ),
        (
            lambda: tasks.engine(step_function=_stepping(threading.Lock())),
            r"step_function, through lock \(a lock\) cannot",
        ),
        (lambda: tasks.engine(_guarded()), r"model\._modules\['0'\]\.lock \(a lock\) cannot be handed"),
    ],
)
def test_what_belongs_to_the_kernel_is_named_before_anything_starts(
    make: Callable[[], TrainingEngine], match: str
) -> None:
    engine = make()
    with pytest.raises(TrainingError, match=match):
        engine.start(process=True)
    assert state_of(engine) == "idle"
    assert engine.start().wait(groups.SECONDS)


def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.close()
    (tmp_path / "psutil.py").write_text("raise ImportError('this one is broken')")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        engine = tasks.engine()
        engine.start(process=True)
        message = str(ended(engine))
    assert "The server that starts the processes of trainings has ended (exit status 1)." in message
    assert "ImportError: this one is broken" in message
    assert engine.start(process=True).wait(groups.SECONDS)


def test_a_python_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server.close()
    engine = tasks.engine()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(TrainingError, match="No process for the training can be started"):
        engine.start(process=True)
    assert state_of(engine) == "idle"


# What opens, closes

_KERNEL = """
import os, signal
from tests.runtime import tasks
engine = tasks.engine(epochs=10**6)
engine.start(process=True)
engine.step()
print(engine._execution.executor.pid, flush=True)
engine.resume()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kernel_that_is_killed_leaves_no_process() -> None:
    kernel = subprocess.Popen([sys.executable, "-c", _KERNEL], stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    pid = int(kernel.stdout.readline())
    family = []
    try:
        worker = psutil.Process(pid)
        family = [worker, worker.parent()]
    except psutil.NoSuchProcess:
        # It was quicker than this test.
        pass
    kernel.wait(groups.SECONDS)
    kernel.stdout.close()
    groups.assert_gone(family)
