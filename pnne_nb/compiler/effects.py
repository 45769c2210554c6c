"""What a call does beside giving a result, as far as its name tells: changes in place."""

from __future__ import annotations

from pnne_nb.compiler.operators import SETITEM
from pnne_nb.compiler.program import Argument, Call, Constant, Layer


def changes_in_place(call: Call) -> bool:
    """Whether a call of a function or method changes its first argument: ``add_``, ``inplace=True``, ``x[0] = y``."""
    if call.target == SETITEM:
        return True
    return (call.target.endswith("_") and not call.target.endswith("__")) or _says_so(call.keywords)


def is_inplace_layer(layer: Layer) -> bool:
    """Whether a layer changes its input: ``ReLU(inplace=True)``."""
    return _says_so(layer.construction.keywords)


def _says_so(keywords: tuple[tuple[str, Argument], ...]) -> bool:
    return any(name == "inplace" and isinstance(value, Constant) and bool(value.value) for name, value in keywords)
