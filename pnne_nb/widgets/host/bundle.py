"""Finds the built front end: text files beside the package's Python."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "static"


def bundled(name: str) -> str:
    """Return the text of one built file, such as ``"controls.js"``.

    All widgets hold the same text: half a megabyte each would soon be much.

    Raises:
        FileNotFoundError: If the front end has not been built, in a checkout.
    """
    path = FOLDER / name
    try:
        return _text(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The front end is not built: {path} is missing. Run `npm ci && npm run build` in js/ (or `make front-end`)."
        ) from None


@lru_cache(maxsize=8)
def key_of(text: str) -> str:
    """Return a hash of a built file's text, by which a page knows whether it has loaded it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=8)
def _text(path: Path, _built: int) -> str:
    return path.read_text(encoding="utf-8")
