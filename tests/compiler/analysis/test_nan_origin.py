from __future__ import annotations

import pytest

from pnne_nb.compiler.analysis.nan_origin import SourceLine


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("net.py", "net.py, line 4: return x / 0"),
        ("/var/ipykernel_10753/3572558807.py", "a cell, line 4: return x / 0"),
    ],
)
def test_a_line_is_named_by_its_file_or_as_one_of_a_cell(file: str, said: str) -> None:
    assert str(SourceLine(file, 4, "return x / 0")) == said


def test_a_line_that_cannot_be_read_is_named_without_it() -> None:
    assert str(SourceLine("net.py", 4, "")) == "net.py, line 4"
