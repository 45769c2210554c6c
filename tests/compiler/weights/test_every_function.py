"""A slice of the table of `every_function`; ``scripts/import_fuzz.py --functions`` tries all of it with many nets."""

from __future__ import annotations

import pytest

from tests.compiler.weights.every_function import (
    QUICK,
    Cell,
    cells,
    compiled_model,
    drawn_graph,
    edited,
    engine,
    freed,
    fresh,
    imported_graph,
    looks,
    optimizes,
    outcome,
    plain_module,
    predicts,
    quantizes,
    trains,
)


def a_third_of_the_table() -> list[Cell]:
    """Every function on everything that is given, in one of the three states."""
    return [cell for place, cell in enumerate(cells(QUICK)) if place % 3 == place // 3 % 3]


@pytest.mark.parametrize("cell", a_third_of_the_table(), ids=str)
def test_what_computes_computes_what_the_net_does(cell: Cell) -> None:
    takes_a_graph_only = cell.function not in (predicts, trains, looks)
    not_taken = cell.given is plain_module and cell.state is not fresh
    not_taken |= takes_a_graph_only and cell.given in (compiled_model, plain_module, engine)
    not_taken |= cell.function is looks and cell.given is engine
    assert outcome(cell, 11) == ("not taken" if not_taken else "right")


@pytest.mark.parametrize(
    "cell",
    [
        Cell(optimizes, imported_graph, edited),
        Cell(quantizes, imported_graph, freed),
        Cell(quantizes, drawn_graph, fresh),
    ],
    ids=str,
)
def test_what_changes_the_graph_keeps_its_weights(cell: Cell) -> None:
    assert outcome(cell, 5) == "right"
