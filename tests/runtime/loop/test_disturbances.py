"""What cells do to the modes of a model in training, seen from the loop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch._dynamo.convert_frame import compile_lock

from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Stepped, Waiting
from tests.runtime.loop.test_loop import loop


def losses(epochs: int) -> list[float]:
    return [event.frame.loss for event in loop().events(epochs) if isinstance(event, Stepped)]


def is_held(trained: TrainingLoop) -> bool:
    """Asked anew each time, whatever a type checker believes to know."""
    return trained.disturbances.held


def test_modes_that_a_running_cell_has_changed_stay_until_it_ends_and_no_step_is_made() -> None:
    trained, in_cell = loop(), [False]
    trained.disturbances.in_cell = lambda: in_cell[0]
    events, model = trained.events(2), trained.recipe.model
    found = [event.frame.loss for event in [next(events)] if isinstance(event, Stepped)]
    in_cell[0] = True
    model.eval()
    state = trained.state_dict()["place"]
    for _ in range(3):
        assert isinstance(next(events), Waiting)
        assert not model.training
    assert trained.state_dict()["place"] == state
    in_cell[0] = False
    found += [event.frame.loss for event in events if isinstance(event, Stepped)]
    assert found == losses(2)


def test_a_step_in_which_a_cell_changes_a_mode_is_made_when_the_cell_has_ended() -> None:
    trained, in_cell = loop(), [False]
    trained.disturbances.in_cell = lambda: in_cell[0]
    events, model = trained.events(2), trained.recipe.model
    found = [event.frame.loss for event in [next(events)] if isinstance(event, Stepped)]

    def begin_cell(*_: object) -> None:
        handle.remove()
        in_cell[0] = True
        model.eval()

    handle = model.get_submodule("5").register_forward_pre_hook(begin_cell)
    statistics = model.get_buffer("1.running_mean").clone()
    assert isinstance(next(events), Waiting)
    assert not model.training
    assert torch.equal(model.get_buffer("1.running_mean"), statistics)
    in_cell[0] = False
    found += [event.frame.loss for event in events if isinstance(event, Stepped)]
    assert found == losses(2)


def test_no_update_is_made_while_a_cell_compiles_and_nothing_is_kept_from_compiling_afterwards() -> None:
    trained, in_cell = loop(), [True]
    trained.disturbances.in_cell = lambda: in_cell[0]
    events = trained.events(2)
    found = [event.frame.loss for event in [next(events)] if isinstance(event, Stepped)]
    with ThreadPoolExecutor(1) as compiling:
        assert compiling.submit(compile_lock.acquire, blocking=False).result(60)
        assert isinstance(next(events), Waiting)
        assert is_held(trained)
        compiling.submit(compile_lock.release).result(60)
        assert not is_held(trained)
        found += [event.frame.loss for event in events if isinstance(event, Stepped)]
        assert compiling.submit(compile_lock.acquire, blocking=False).result(60)
        compiling.submit(compile_lock.release).result(60)
    assert found == losses(2)
