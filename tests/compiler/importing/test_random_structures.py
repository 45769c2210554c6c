"""No import of a module with nested inputs computes something else in silence when the structure is another."""

from __future__ import annotations

import pytest

from tests.compiler.importing.random_structures import outcome_of, source_of


def test_a_seed_makes_one_module() -> None:
    assert source_of(3) == source_of(3) != source_of(4)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(40))
def test_an_import_takes_a_structure_as_the_module_does_or_refuses_it(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.kind in ("open", "refuses others"), f"{outcome}\n{source_of(seed)}"
