"""What can be watched at a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pnne_nb.errors import ArgumentError, expect, near, shown
from pnne_nb.frames import Quantity

QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)

DEFAULT: tuple[Quantity, ...] = ("activations", "gradients")


def as_quantities(what: object) -> tuple[Quantity, ...]:
    """One quantity or several, in the order of `QUANTITIES`.

    Raises:
        ArgumentError: If one is unknown, or there is none.
    """
    expect(what, str | Sequence, "what", "a quantity or several", f"There are: {', '.join(map(repr, QUANTITIES))}.")
    asked = (what,) if isinstance(what, str) else tuple(what)  # type: ignore[arg-type]
    if not asked:
        raise ArgumentError(f"what names nothing to watch; there are {', '.join(map(repr, QUANTITIES))}.")
    for quantity in asked:
        if quantity not in QUANTITIES:
            # An abbreviation is too short to be near.
            begun = [known for known in QUANTITIES if known[:3] == str(quantity)[:3]]
            meant = near(quantity, QUANTITIES) or (f" Did you mean {begun[0]!r}?" if begun else "")
            raise ArgumentError(
                f"{shown(quantity)} cannot be watched.{meant} What can: {', '.join(map(repr, QUANTITIES))}."
            )
    return tuple(quantity for quantity in QUANTITIES if quantity in asked)
