"""What cells do to the modes of a model in training, seen from the loop."""

from __future__ import annotations

import torch

from pnne_nb.runtime.loop.loop_events import Stepped, Waiting
from tests.runtime.loop.test_loop import loop


def losses(epochs: int) -> list[float]:
    return [event.frame.loss for event in loop().run(epochs) if isinstance(event, Stepped)]


def test_modes_that_a_running_cell_has_changed_stay_until_it_ends_and_no_step_is_made() -> None:
    trained, in_cell = loop(), [False]
    trained.disturbances.in_cell = lambda: in_cell[0]
    events, model = trained.run(2), trained.recipe.model
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
    events, model = trained.run(2), trained.recipe.model
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
