from __future__ import annotations

from typing import Any

import pytest

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.setup.recipe import Every, as_every
from tests.runtime.tasks import engine


def test_choices() -> None:
    assert as_every("x", 3) == as_every("x", (3, "epochs")) == Every(3, "epochs")
    assert as_every("x", (500, "steps")) == Every(500, "steps")
    assert [step for step in range(1, 10) if Every(4, "steps").after_step(step)] == [4, 8]
    assert not Every(4, "steps").after_epoch(4)
    assert not as_every("x", None).after_epoch(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validate_every": 0}, "validate_every must be a whole number, at least 1, not 0"),
        ({"checkpoint_every": (5, "days")}, r"checkpoint_every must be a number of epochs, or a pair such as \(500"),
        ({"checkpoint_every": ("5", "steps")}, "checkpoint_every must be a whole number"),
        ({"shuffle": "x"}, "shuffle must be True or False, not 'x'"),
        ({"deterministic": 1}, "deterministic must be True or False, not 1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        engine(**options)
