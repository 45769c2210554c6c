"""The two stacks of undo and redo, against a list with a place in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.errors import GraphError
from pnne_nb.graph.edits.undo_stack import Step, UndoStack


@given(st.lists(st.sampled_from(["record", "undo", "redo"]), max_size=40))
def test_it_is_a_list_with_a_place_in_it(moves: list[str]) -> None:
    history = UndoStack()
    steps: list[Step] = []
    place = 0
    for number, move in enumerate(moves):
        if move == "record":
            step = Step(f"step {number}", (), ())
            history.record(step)
            steps, place = [*steps[:place], step], place + 1
        elif move == "undo" and place:
            assert history.last_done() is steps[place - 1]
            history.took_back()
            place -= 1
        elif move == "redo" and place < len(steps):
            assert history.last_undone() is steps[place]
            history.brought_back()
            place += 1
        assert history.done == tuple(steps[:place])
        assert history.undo_label == (steps[place - 1].label if place else None)
        assert history.redo_label == (steps[place].label if place < len(steps) else None)


def test_an_empty_stack_says_so() -> None:
    with pytest.raises(GraphError, match=r"There is nothing to undo\."):
        UndoStack().last_done()
    with pytest.raises(GraphError, match=r"There is nothing to redo\."):
        UndoStack().last_undone()
