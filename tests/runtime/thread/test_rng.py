from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from pnne_nb.runtime.thread import rng
from pnne_nb.runtime.thread.rng import PrivateRandomness, key_of, seeded_globals

CPU = torch.device("cpu")


def draw() -> tuple[float, float, float]:
    return torch.rand(()).item(), random.random(), float(np.random.rand())  # noqa: NPY002  datasets do


def private_draws(randomness: PrivateRandomness, count: int) -> list[tuple[float, float, float]]:
    drawn = []
    for _ in range(count):
        with randomness:
            drawn.append(draw())
        draw()
        torch.manual_seed(3)
    return drawn


def test_keys_of_near_places_are_unrelated() -> None:
    keys = {key_of(0, epoch, position) for epoch in range(20) for position in range(20)}
    assert len(keys) == 400
    assert all(0 <= key < 2**63 for key in keys)
    assert key_of(0, 1) == key_of(0, 1) != key_of(0, 2)


def test_private_numbers_depend_on_the_seed_and_on_nobody_else() -> None:
    first = private_draws(PrivateRandomness(1, CPU), 5)
    assert private_draws(PrivateRandomness(1, CPU), 5) == first
    assert private_draws(PrivateRandomness(2, CPU), 5) != first


def test_others_do_not_notice() -> None:
    with seeded_globals(9):
        expected = [draw() for _ in range(3)]
    with seeded_globals(9):
        found = []
        for _ in range(3):
            found.append(draw())
            with PrivateRandomness(1, CPU):
                draw()
    assert found == expected


def test_others_do_not_notice_an_exception_either() -> None:
    randomness = PrivateRandomness(1, CPU)
    before = torch.get_rng_state()
    try:
        with randomness:
            torch.rand(3)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), before)


def test_a_lost_device_does_not_hide_what_failed_in_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed assertion in a kernel, a GPU refuses to tell even the state of its generator."""
    device = torch.Generator()
    monkeypatch.setattr(rng, "_device_generators", lambda found: [device] if found.type == "cpu" else [])
    randomness = PrivateRandomness(1, CPU)
    first, read = private_draws(randomness, 1), rng._state_of

    def refuse(generator: torch.Generator) -> torch.Tensor:
        if generator is device:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return read(generator)

    def step() -> None:
        draw()
        monkeypatch.setattr(rng, "_state_of", refuse)
        raise KeyError("explanation")

    before = torch.get_rng_state()
    with pytest.raises(KeyError, match="explanation"), randomness:
        step()
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="device-side assert"), randomness:
        pass
    monkeypatch.undo()
    assert private_draws(randomness, 1) != first


def test_rewinding_begins_the_block_again() -> None:
    randomness = PrivateRandomness(1, CPU)
    with randomness:
        first = draw()
        randomness.rewind()
        assert draw() == first


def test_a_saved_state_continues() -> None:
    one, other = PrivateRandomness(1, CPU), PrivateRandomness(2, CPU)
    private_draws(one, 3)
    other.load_state_dict(one.state_dict())
    assert private_draws(other, 4) == private_draws(one, 4)
