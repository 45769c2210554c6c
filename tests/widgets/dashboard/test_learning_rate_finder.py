"""The search for a learning rate is drawn while it measures, leaves no trace, and its handle sets the rate."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

import pnne_nb as pn
from pnne_nb.widgets.dashboard import learning_rate_finder
from pnne_nb.widgets.dashboard.learning_rate_finder import LearningRateFinder
from tests.runtime.test_learning_rate import _engine, _state


def test_it_ends_with_the_suggestion_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning_rate_finder, "EVERY", 0.0)
    engine = _engine()
    engine.step(3)
    before = _state(engine)
    with closing(pn.LearningRateFinder(engine, steps=40)) as finder:
        found = finder.wait(60)
        assert _state(engine) == before
        assert found.suggestion == pn.find_learning_rate(engine, steps=40).suggestion
        assert f"over {len(found.losses)} seeds" in finder._said.value
        assert repr(finder).startswith(f"LearningRateFinder: Learning rate {found.suggestion:.2g}")
        assert finder._curves.y.shape == (4, max(map(len, found.losses)))
        assert finder._spread.x[:, 0].tolist() == pytest.approx(found.spread)
        assert f"engine.set_optimizer(lr={found.suggestion:.2g})" in finder._line.value
        assert finder._stop.disabled
    engine.stop()


def test_the_handle_and_the_field_move_each_other_along_the_curve_and_the_button_sets_the_rate() -> None:
    engine = _engine()
    with closing(pn.LearningRateFinder(engine, steps=40)) as finder:
        found = finder.wait(60)
        finder._handle.x = np.array([found.rates[5]])
        rate = float(f"{found.rates[5]:.2g}")
        assert finder._field.value == rate
        assert finder._handle.y[0] == pytest.approx(np.mean([losses[5] for losses in found.losses]), rel=1e-2)
        finder._field.value = 0.003
        assert finder._handle.x[0] == 0.003
        assert "engine.set_optimizer(lr=0.003)" in finder._line.value
        finder._set.click()
        assert engine.optimizer.param_groups[0]["lr"] == 0.003
        assert "goes on at a learning rate of 0.003" in finder._said.value


def test_a_schedule_that_would_replace_the_rate_refuses_it_in_words() -> None:
    engine = _engine(scheduler=lambda made: LambdaLR(made, lambda epoch: epoch / 10))
    with closing(pn.LearningRateFinder(engine, steps=40)) as finder:
        finder.wait(60)
        finder._set.click()
        assert "LambdaLR sets lr itself" in finder._said.value


def test_stopped_in_the_middle_it_suggests_by_what_there_is_or_says_that_there_is_nothing() -> None:
    shown: list[LearningRateFinder] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        if shown and sum(map(len, seen)) > 2:
            shown[0].stop()
        seen.append([1])
        return nn.functional.cross_entropy(output, target)

    seen: list[list[int]] = []
    engine = _engine(loss=loss)
    before = _state(engine)
    shown.append(pn.LearningRateFinder(engine, steps=40))
    with closing(shown[0]) as finder, pytest.raises(pn.TrainingError, match="falls at no learning rate from 1e-07 to"):
        finder.wait(60)
    assert _state(engine) == before


def test_what_it_does_not_take_is_refused_and_leaves_no_widget() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'step'"):
        pn.LearningRateFinder(_engine(), step=40)
    with closing(pn.LearningRateFinder(torch.nn.Linear(2, 2))) as finder:  # type: ignore[arg-type]  # on purpose
        with pytest.raises(pn.ArgumentError, match="engine must be a TrainingEngine"):
            finder.wait(60)
        assert "engine must be a TrainingEngine" in finder._said.value
