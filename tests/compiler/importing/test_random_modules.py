"""No import of a random module computes something else in silence."""

from __future__ import annotations

import pytest

from tests.compiler.importing.random_modules import outcome_of, source_of

FOUND = (
    185,
    211,
    218,
    243,
    258,
    284,
    334,
    1077,
    21779,
    101012,
    101019,
    101023,
    102010,
    102137,
    102174,
    102193,
    110000,
    110068,
)
"""Seeds of modules that were once drawn otherwise than they are."""


def test_a_seed_makes_one_module() -> None:
    assert source_of(3) == source_of(3) != source_of(4)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", [*range(40), *FOUND])
def test_an_import_computes_what_the_module_does_or_refuses(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.kind in ("open", "closed"), f"{outcome}\n{source_of(seed)}"
