"""What a cell changes of a training is found by name, and nothing else is."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.modules.module import register_module_forward_hook

from pnne_nb.inspector.inspector import Inspector
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.live_state import Belongings, LiveState, Surroundings
from pnne_nb.runtime.thread.use_guard import unguard_thread
from tests.runtime.tasks import engine, images, network
from tests.runtime.thread.test_model_guard import cell, waiting_for

_modules: Any = nn.modules.module

Training = tuple[nn.Sequential, torch.optim.AdamW, Tensor]


@pytest.fixture
def training() -> Training:
    """A model, its optimizer after a step, and data."""
    model, (pictures, classes) = network(), images()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    nn.functional.cross_entropy(model(pictures), classes).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    optimizer.step()
    return model, optimizer, pictures


def _belongings(training: Training) -> Belongings:
    return Belongings(training[1], {"the pictures": training[2]}, keeps_options=True)


def _weight(training: Training) -> Tensor:
    return training[0].get_parameter("0.weight")


def _own(weight: Any) -> Any:
    """What torch leaves untyped."""
    return weight


def _layer(training: Training, number: int) -> Any:
    return training[0][number]


def _state(training: Training) -> dict[str, Any]:
    return next(iter(training[1].state.values()))


CHANGES: dict[str, tuple[Callable[[Training], object], list[str]]] = {
    "nothing": (lambda t: None, []),
    "a look": (lambda t: (t[0](t[2]), t[0].state_dict(), _weight(t).data.norm(), repr(t[1])), []),
    "gradients": (lambda t: t[0].zero_grad(), []),
    "modes": (lambda t: t[0].eval(), []),
    "a weight": (lambda t: _weight(t).detach().mul_(2), ["0.weight"]),
    "other memory": (lambda t: setattr(_weight(t), "data", torch.zeros(4, 1, 3, 3)), ["0.weight"]),
    "frozen": (lambda t: _layer(t, 0).requires_grad_(False), ["0.weight", "0.bias"]),
    "a hook of a weight": (lambda t: _own(_weight(t)).register_hook(lambda gradient: gradient * 0), ["0.weight"]),
    "another layer": (lambda t: t[0].__setitem__(0, nn.Identity()), ["0"]),
    "a layer more": (lambda t: t[0].append(nn.ReLU()), ["6"]),
    "a hook": (lambda t: _layer(t, 2).register_forward_hook(lambda *_: None), ["the hooks of 2"]),
    "a hook of the model": (lambda t: t[0].register_full_backward_hook(lambda *_: None), ["the hooks of the model"]),
    "a forward": (lambda t: setattr(_layer(t, 2), "forward", torch.tanh), ["2.forward"]),
    "its own forward": (lambda t: setattr(_layer(t, 2), "forward", _layer(t, 2).forward), []),
    "an option": (lambda t: setattr(_layer(t, 4), "p", 0.9), ["4.p"]),
    "no option": (lambda t: setattr(_layer(t, 4), "note", 0.9), []),
    "a rate": (lambda t: t[1].param_groups[0].update(lr=1.0), ["lr of the optimizer"]),
    "a group": (
        lambda t: t[1].add_param_group({"params": [nn.Parameter(torch.zeros(1))]}),
        ["the parameters of group 1 of the optimizer"],
    ),
    "a state": (lambda t: _state(t)["exp_avg"].zero_(), ["the optimizer's state of 0.weight"]),
    "no state": (lambda t: _state(t).clear(), ["the optimizer's state of 0.weight"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_by_its_name(training: Training, name: str) -> None:
    change, expected = CHANGES[name]
    before = LiveState(training[0], _belongings(training))
    change(training)
    found = before.changed()
    assert set(expected) <= set(found)
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda weight: None, []),
        (lambda weight: weight.detach().numpy().flat.__setitem__(3, 1.0), ["0.weight"]),
        (lambda weight: ctypes.memset(weight.data_ptr(), 0, 4), ["0.weight"]),
    ],
)
def test_memory_that_was_lent_is_compared_bit_by_bit(
    training: Training, write: Callable[[Tensor], object], expected: list[str]
) -> None:
    before, weight = LiveState(training[0], _belongings(training)), _weight(training)
    before.lend(weight.untyped_storage()._cdata)
    write(weight)
    assert before.changed() == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t[0](t[2]), []),
        (lambda t: t[2].numpy().fill(0), ["the pictures"]),
        (lambda t: t[2].add_(1), ["the pictures"]),
        (lambda t: t[0]._modules.update({"2": nn.Identity()}), ["2"]),
        (lambda t: t[1].param_groups[0].update(lr=1.0), ["lr of the optimizer"]),
        (lambda t: t[1].step(), []),
    ],
)
def test_what_the_training_does_not_change_is_compared_while_it_goes_on(
    training: Training, change: Callable[[Training], object], expected: list[str]
) -> None:
    before = Surroundings(training[0], _belongings(training))
    change(training)
    assert before.changed() == expected


@pytest.mark.parametrize(
    ("change", "undo", "expected"),
    [
        (
            lambda: torch.set_float32_matmul_precision("medium"),
            lambda: torch.set_float32_matmul_precision("highest"),
            "torch's precision of float32 matrix products",
        ),
        (
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.set_default_dtype(torch.float32),
            "torch's default dtype",
        ),
        (
            lambda: register_module_forward_hook(lambda *_: None),
            _modules._global_forward_hooks.clear,
            "the hooks of all modules",
        ),
    ],
)
def test_what_torch_has_for_the_whole_process_is_compared(
    training: Training, change: Callable[[], object], undo: Callable[[], object], expected: str
) -> None:
    before = Surroundings(training[0], _belongings(training))
    try:
        change()
        assert before.changed() == [expected]
    finally:
        undo()
    assert before.changed() == []


def test_of_large_data_some_thousand_numbers_are_looked_at(training: Training) -> None:
    data = torch.ones(3, 1 << 20)
    for large in (data, data.t()):
        before = Surroundings(training[0], Belongings(training[1], {"data": large}, keeps_options=False))
        assert before.changed() == []
        large.numpy()[:] += 1
        assert before.changed() == ["data"]


# Beside a training


@pytest.fixture
def trained() -> Iterator[TrainingEngine]:
    """A training that has begun, and goes on until it is stopped."""
    made, begun = engine(epochs=10**6), threading.Event()
    made.on("step", lambda _: begun.set())
    made.start()
    assert begun.wait(60)
    yield made
    made.stop()
    unguard_thread()


def _told(trained: TrainingEngine) -> list[str]:
    return [frame.message for frame in trained.history.anomalies if "has changed" in frame.message]


def _double(trained: TrainingEngine) -> None:
    trained.module.get_parameter("0.weight").data.mul_(2)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_double, "0.weight"),
        (lambda trained: trained.module.get_parameter("0.weight").detach().numpy().fill(0), "0.weight"),
        (lambda trained: trained.module.__setitem__(2, nn.Identity()), "2"),
        (lambda trained: trained.module[4].register_forward_hook(lambda *_: None), "the hooks of 4"),
        (lambda trained: setattr(trained.module[2], "forward", torch.tanh), "2.forward"),
        (lambda trained: setattr(trained.module[4], "p", 0.9), "4.p"),
        (lambda trained: trained.recipe.train.tensors[0].mul_(2), "tensor 0 of the training data"),
        (lambda trained: trained.recipe.optimizer.param_groups[0].update(lr=0.5), "lr of the optimizer"),
        (
            lambda trained: next(iter(trained.recipe.optimizer.state.values()))["exp_avg"].data.zero_(),
            "the optimizer's state of 0.weight",
        ),
    ],
)
def test_a_cell_is_told_once_what_it_has_changed(
    trained: TrainingEngine, change: Callable[[TrainingEngine], object], name: str
) -> None:
    for _ in range(2):
        with cell():
            change(trained)
    (message,) = _told(trained)
    assert message.startswith(f"A cell has changed {name} during the training, which goes on with that: ")


@pytest.mark.parametrize(
    "change",
    [
        _double,
        lambda trained: setattr(trained.module[4], "p", 0.9),
        lambda trained: trained.module.append(nn.Identity()),
        lambda trained: trained.module[4].register_forward_hook(lambda *_: None),
        lambda trained: trained.recipe.train.tensors[0].mul_(2),
        lambda trained: next(iter(trained.recipe.optimizer.state.values()))["exp_avg"].mul_(2),
    ],
)
def test_a_change_waits_for_the_end_of_the_step(
    trained: TrainingEngine, change: Callable[[TrainingEngine], object]
) -> None:
    with cell():
        change(trained)
        assert waiting_for(trained) == "a cell that uses the model"


def test_a_use_while_something_is_traced_is_not_traced(trained: TrainingEngine) -> None:
    weight = trained.module.get_parameter("0.weight")

    def traced(x: Tensor) -> Tensor:
        return x * weight.shape[0] + (weight.sum() * 0).detach()

    with cell():
        graph = make_fx(traced)(torch.ones(2))
    names = [node.name for node in graph.graph.nodes if "clone" in node.name]
    assert names == []
    assert _told(trained) == []


def test_a_use_in_a_transform_is_not_transformed(trained: TrainingEngine) -> None:
    layer = trained.module.get_submodule("5")
    with cell():
        torch.func.jacrev(lambda x: layer(x).sum())(torch.ones(1, 64))
    # Batch norm refuses it, which would move its statistics in there.
    with cell(), pytest.raises(RuntimeError, match="in-place operation"):
        torch.func.grad(lambda x: trained.module(x).sum())(images()[0])
    assert _told(trained) == []


def test_a_use_in_a_transform_in_a_thread_lets_go(trained: TrainingEngine) -> None:
    with pytest.raises(RuntimeError, match="in-place operation"):
        torch.func.grad(lambda x: trained.module(x).sum())(images()[0])
    trained.step()
    trained.step()
    assert _told(trained) == []


def test_a_write_in_a_transform_is_told(trained: TrainingEngine) -> None:
    with cell():
        torch.func.vmap(lambda row: row.mul_(2))(trained.module.get_parameter("5.weight").data)
    (message,) = _told(trained)
    assert message.startswith("A cell has changed 5.weight")


def test_whoever_reads_the_data_does_not_wait(trained: TrainingEngine) -> None:
    data: Any = trained.recipe.train
    with cell():
        data.tensors[0].mean()
        data.tensors[0].numpy().sum()
        assert waiting_for(trained) is None
    assert _told(trained) == []


def test_what_a_thread_writes_is_told_at_once(trained: TrainingEngine) -> None:
    trained.pause()
    assert not cells.open_here()
    for _ in range(2):
        _double(trained)
    (message,) = _told(trained)
    assert message.startswith("The thread 'MainThread' has changed 0.weight during the training")


def test_what_is_written_in_a_paused_block_is_meant(trained: TrainingEngine) -> None:
    data: Any = trained.recipe.train
    for within in (suppress, cell):
        with within(), trained.paused():
            _double(trained)
            setattr(trained.module[4], "p", 0.9)  # type: ignore[index]  # noqa: B010  it is a sequence
            trained.set_optimizer(lr=0.02)
            data.tensors[0].mul_(2)
    assert _told(trained) == []


def test_an_inspector_changes_nothing(trained: TrainingEngine) -> None:
    with cell():
        inspector = Inspector(trained.module)
        inspector.watch("*")
        inspector.run_inspection(images()[0])
    assert _told(trained) == []


def test_buffers_that_a_cell_replaces_are_put_back(trained: TrainingEngine) -> None:
    norm: Any = trained.module.get_submodule("1")
    trained.pause()
    kept, values = norm.running_mean, norm.running_mean.clone()
    with cell():
        norm.running_mean = torch.ones(4)
        norm.running_var.data = torch.ones(4, dtype=torch.float64)
        del norm.num_batches_tracked
    assert norm.running_mean is kept
    assert torch.equal(kept, values)
    assert norm.running_var.dtype == torch.float32
    assert norm.num_batches_tracked == trained.progress.step
    assert _told(trained) == []


@pytest.mark.timeout(60)
def test_a_step_does_not_wait_for_itself_in_a_thread_that_it_has_started() -> None:
    calls: list[str] = []

    class Counted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            calls.append("")
            thread = threading.Thread(target=setattr, args=(self, "calls", len(calls)))
            thread.start()
            thread.join()
            return x

    trained = engine(model=nn.Sequential(Counted(), network()), epochs=1)
    trained.start()
    assert trained.wait(60)
    assert _told(trained) == []
    assert np.isfinite(trained.history["loss"]).all()
