"""Arguments as other libraries spell them."""

from __future__ import annotations

import inspect
import re
from typing import Any, cast

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.habits import ARGUMENTS


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("lr", 'optimizer=("AdamW", {"lr": 1e-3})'),
        ("loss_fn", 'loss="CrossEntropyLoss"'),
        ("validation_data", "val_data=(X, y)"),
        ("max_epochs", "epochs=5"),
        ("callbacks", 'engine.on("epoch", function)'),
        ("epoch", "Write epochs=5"),
    ],
)
def test_an_argument_of_another_library_is_answered_with_ours(name: str, written: str) -> None:
    with pytest.raises(TypeError, match=f"no argument '{name}'.*{re.escape(written)}"):
        pn.TrainingEngine(nn.Linear(2, 1), (torch.ones(3, 2), torch.ones(3, 1)), **{name: cast("Any", 3)})


def test_every_argument_that_is_proposed_exists_and_none_that_is_refused() -> None:
    known = set(inspect.signature(pn.TrainingEngine).parameters)
    assert not known & set(ARGUMENTS)
    for written in ARGUMENTS.values():
        proposed = re.match(r"(\w+)=", written)
        assert proposed is None or proposed[1] in known
