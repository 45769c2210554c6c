"""Formats numbers of bytes."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    """Return a number of bytes in binary units, with one decimal above a KiB: ``"512 B"``, ``"1.5 GiB"``."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        # What would be rounded up to the next unit is written in it: 1.0 MiB, not 1024.0 KiB.
        if size < (1024 if unit == "B" else 1023.95):
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
