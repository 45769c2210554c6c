from __future__ import annotations

import pytest

from pnne_nb.process.byte_units import format_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (4 * 2**20, "4.0 MiB"),
        (3.6 * 2**40, "3.6 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_bytes_are_written_in_the_largest_unit_that_they_fill(count: float, text: str) -> None:
    assert format_bytes(count) == text
