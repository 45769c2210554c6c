"""Looking changes nothing: every public function and method that looks, on twenty nets, also when it fails or is interrupted."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from scripts import looking


def test_every_public_name_is_said_to_look_to_do_or_to_be_a_result() -> None:
    missing, unknown = looking.unplaced()
    assert not missing, f"Place {', '.join(sorted(missing))} in LOOKS, DOES or RESULTS of scripts/looking.py."
    assert not unknown


@pytest.mark.parametrize("name", looking.NETS)
def test_a_training_goes_on_as_if_nobody_had_looked(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third look at each net, with an ending that changes from look to look; `scripts/looking.py` runs all."""
    monkeypatch.chdir(tmp_path)
    place = list(looking.NETS).index(name)
    looked, other = looking.subject(name), looking.subject(name)
    try:
        for number, look in enumerate(looking.LOOKS, place):
            if number % (15 if look in looking.SLOW else 3) == 0:
                ending = looking.ENDINGS[number // 3 % 3]
                found, _ = looking.trial(look, looked, ending, at=1 + number // 9 % 5)
                assert not found, f"{look}, which {ending}, has changed {', '.join(found)}"
        assert looking.losses_ahead(looked) == looking.losses_ahead(other)
    finally:
        looked.engine.stop()
        other.engine.stop()


CHANGES: dict[str, Callable[[looking.Subject], object]] = {
    "weights": lambda one: next(one.net.parameters()).data.add_(1),
    "gradients": lambda one: one.net.zero_grad(),
    "modes": lambda one: one.net.eval(),
    "hooks of modules": lambda one: one.net.register_forward_hook(print),
    "hooks of weights": lambda one: next(one.net.parameters()).register_hook(print),  # type: ignore[no-untyped-call]  # torch does not say
    "optimizer": lambda one: one.engine.optimizer.param_groups[0].update(lr=1.0),
    "torch's random state": lambda _: torch.rand(1),
    "NumPy's random state": lambda _: np.random.rand(),  # noqa: NPY002  # the generator that models use
    "Python's random state": lambda _: random.random(),
    "place in the data": lambda one: list(one.loader),
    "attributes": lambda one: setattr(one.net, "seen", 1),
    "the graph": lambda one: one.graph.add("ReLU"),
}  # fmt: skip


def test_a_look_that_changes_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    one = looking.subject("mlp")
    for what, change in CHANGES.items():
        monkeypatch.setitem(looking.LOOKS, "made", change)
        assert what in looking.trial("made", one, "returns")[0]
    monkeypatch.setitem(looking.LOOKS, "made", lambda _: monkeypatch.setattr(F, "relu", print))
    assert looking.trial("made", one, "returns")[0] == ["functions of torch.nn.functional: relu"]
    one.engine.stop()
