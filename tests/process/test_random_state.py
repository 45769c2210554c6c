from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
import torch

from pnne_nb.process.random_state import preserved_random_state, private_random_state


def drawn() -> tuple[float, float, float]:
    return torch.rand(()).item(), random.random(), float(np.random.rand())  # noqa: NPY002  # the generator under test


@pytest.mark.parametrize(
    "block",
    [
        preserved_random_state,
        lambda: preserved_random_state([torch.device("cpu"), torch.device("meta")]),
        private_random_state,
    ],
    ids=["preserved", "preserved without accelerators", "private"],
)
def test_the_numbers_after_a_block_are_those_that_would_have_come_without_it(
    block: Callable[[], AbstractContextManager[None]],
) -> None:
    with preserved_random_state():
        expected = drawn()
    with block():
        drawn()
    assert drawn() == expected


def test_an_error_in_a_block_puts_the_state_back_as_well() -> None:
    def fail() -> None:
        with private_random_state():
            drawn()
            raise ZeroDivisionError

    with preserved_random_state():
        expected = drawn()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert drawn() == expected


def test_a_private_state_begins_at_its_seed_wherever_the_global_one_is() -> None:
    with private_random_state(3):
        first = drawn()
    drawn()
    with private_random_state(3):
        assert drawn() == first
        with private_random_state(4):
            inner = drawn()
    assert inner != first
