"""Random gestures in two views while code edits the same graph: nothing breaks, and all agree at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.monkey import ALSO_IN_PYTHON, Monkey, comparable, saved

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.workbench import Workbench

GESTURES = 60


def test_random_gestures_beside_edits_from_python(
    workbench: Workbench, baseline_errors: frozenset[str], tmp_path: Path
) -> None:
    run(workbench, baseline_errors, tmp_path, GESTURES, seed=5)


def run(workbench: Workbench, known: frozenset[str], folder: Path, gestures: int, seed: int) -> None:
    """Play, and say what is not as it should be."""
    views = workbench.open_views(2, "chain('Linear', 'ReLU', 'Linear', out_features=4)", "height=430")
    before, seen = workbench.state(), len(workbench.notebook.console_errors)
    workbench.execute(ALSO_IN_PYTHON.replace("{seed}", str(seed)))
    monkey = Monkey(workbench, views, seed)
    try:
        monkey.play(gestures)
    finally:
        workbench.execute("enough.set(); editing.join(); enough.clear()")
    workbench.page.keyboard.press("Escape")
    for view in views:
        workbench.in_step(view)
    errors = [error for error in workbench.notebook.console_errors[seen:] if error not in known]
    assert errors == [], "\n".join(monkey.log[-30:])
    truth = comparable(workbench.value("__import__('json').loads(graph.to_json())"))
    for place, view in enumerate(views):
        assert comparable(saved(view, folder / f"view{place}.json")) == truth
    assert workbench.state() == before
