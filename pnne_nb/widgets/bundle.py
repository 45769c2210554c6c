"""The built front end: text files beside the package's Python."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "static"


def bundled(name: str) -> str:
    """The text of one built file, such as ``"controls.js"``.

    Raises:
        FileNotFoundError: If the front end has not been built: this is a checkout, not an installed package.
    """
    path = FOLDER / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The front end is not built: {path} is missing. Run `npm ci && npm run build` in js/ (or `make build`)."
        ) from None
