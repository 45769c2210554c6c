"""The small version of ``scripts/fault_trials.py``: one fault of every kind, in turn in each kind of model."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.loop.fault_replay import FiniteCheck, total_norm
from pnne_nb.runtime.loop.step import NORMS_AT_FIRST
from scripts.fault_trials import Trial, judge, trials
from tests.runtime.tasks import engine

ALL = {trial.name: trial for trial in trials(105)}
"""The first round; a trial makes its model when it runs."""
CHOSEN = [name for index, name in enumerate(ALL) if index % 3 == 0 or "drawn" in name]


@pytest.mark.parametrize("name", CHOSEN)
def test_step_node_operation_line_and_example_are_named(name: str) -> None:
    trial: Trial = ALL[name]
    verdict, told = judge(trial, back=2)
    assert all(answer is not False for answer in verdict), f"{verdict} of {trial}: {told}"


SPARSE = torch.tensor([1.0, 0.0, 2.0, 0.0]).to_sparse()
KINDS = {
    "float32": [torch.ones(3), -torch.ones(2, 2)],
    "float64": [torch.ones(3, dtype=torch.float64)],
    "bfloat16": [torch.ones(3, dtype=torch.bfloat16)],
    "mixed": [torch.ones(3), torch.ones(2, dtype=torch.float64)],
    "complex": [torch.ones(3, dtype=torch.complex64)],
    "sparse": [torch.ones(3), SPARSE],
    "not contiguous": [torch.ones(4, 4).t()[::2]],
    "one number": [torch.tensor(1.0)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_every_kind_are_looked_at_and_left_alone(kind: str) -> None:
    gradients = [grad.clone() for grad in KINDS[kind]]
    soundness = FiniteCheck(torch.device("cpu"))
    assert not soundness.of(gradients)
    assert all(torch.equal(a.to_dense(), b.to_dense()) for a, b in zip(gradients, KINDS[kind], strict=True))
    for bad in (math.nan, math.inf, -math.inf):
        assert soundness.of([gradients[0] * bad, *gradients[1:]])
        assert soundness.of([*gradients[:-1], gradients[-1] * bad])
    assert not soundness.of(gradients), "what was found once is forgotten"


def test_the_norm_is_of_all_gradients_together() -> None:
    assert total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])]).item() == 5.0
    assert total_norm([torch.tensor([2.0]), SPARSE]).item() == 3.0


class Branched(nn.Module):
    """The root of its last parameter has an infinite slope at 0, which nothing else in the model comes to feel."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(36, 4)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x.flatten(1)) + self.scale.abs().sqrt()
        return scores


def test_an_infinite_gradient_anywhere_stops_before_the_model_takes_it_in() -> None:
    model = Branched()
    trained = engine(model=model, epochs=100)
    trained.step(NORMS_AT_FIRST + 1)
    with trained.paused(), torch.no_grad():
        model.scale.zero_()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trained.resume()
    with pytest.raises(TrainingError, match=r"A gradient became NaN or infinite at step 34 .* as it was before that"):
        trained.wait(60)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
