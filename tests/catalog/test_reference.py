"""The reference page: complete, and as new as the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from pnne_nb.catalog import reference, specs
from pnne_nb.graph.schema.property_types import IntType
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property
from pnne_nb.graph.schema.structural import STRUCTURAL

PAGE = Path(__file__).parents[2] / reference.PAGE


def test_page_is_as_new_as_the_catalogue() -> None:
    written = PAGE.read_text(encoding="utf-8")
    fresh = reference.page([*STRUCTURAL, *specs()])

    # The texts are torch's: another version says other things.
    if f"torch {reference.version()}." in written:
        assert written == fresh, f"docs/nodes.md is stale. Run: {reference.COMMAND}"
    assert written.count("\n### ") > 600


def test_page_shows_ports_and_properties() -> None:
    spec = NodeSpec(
        type="thing",
        category="Things",
        kind="function",
        inputs=(Port("x"), Port("mask", optional=True), Port("tensors", variadic=True)),
        outputs=(Port("output"), Port("size", kind="value", when="k")),
        properties=(Property("k", IntType(1), default=2, doc="How many | at most."),),
        doc="Does a*b.",
    )

    text = reference.page([spec])

    assert "## Things\n\n### thing\n\nDoes a\\*b.\n" in text
    assert "- Inputs: `x`, `mask`?, `tensors…`\n" in text
    assert "- Outputs: `output`, (`size` (value), with `k`)\n" in text
    assert "| `k` | a whole number ≥ 1 | `2` | How many \\| at most. |" in text


def test_command_writes_or_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "nodes.md"

    reference.main([str(target)])
    reference.main([])

    assert target.read_text(encoding="utf-8") == capsys.readouterr().out
