"""Look for words that the pages do without: ``python scripts/plain_language.py``. It prints each with what to write instead.

The words are those of ``plain_words.txt``. Read are the pages, the text of the notebooks and the meanings of message codes,
without code. The page of node types is left out: its sentences are torch's.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
WORDS: Final = Path(__file__).with_name("plain_words.txt")


def main() -> None:
    """Print what is found, and exit with 1 if there is anything."""
    found = list(findings())
    print("\n".join(found) or "Plain.")
    sys.exit(bool(found))


@functools.cache
def words() -> dict[str, str]:
    """Return what to write instead of each word, by the word in small letters."""
    lines = WORDS.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def findings() -> Iterator[str]:
    """Yield a line for each word of the list: file, line, word, and what to write instead."""
    for path in pages():
        for number, line in enumerate(prose(path).splitlines(), start=1):
            yield from (f"{path.relative_to(ROOT)}:{number}: {said}" for said in faults(line))


def faults(line: str) -> Iterator[str]:
    """Yield the words of the list that stand in a line."""
    known = "|".join(re.escape(word) for word in sorted(words(), key=len, reverse=True))
    for found in re.finditer(rf"(?<![\w-])({known})(?![\w-])", line, re.IGNORECASE):
        yield f"{found[0]!r}: write {words()[found[0].lower()]}"


def pages() -> list[Path]:
    """Return the files that a person reads."""
    notebooks = (ROOT / "notebooks").rglob("*.ipynb")
    meanings = (ROOT / "pnne_nb" / file for file in ("codes.toml", "diagnosis/kinds.toml"))
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *meanings]
    found = [path for path in [*texts, *notebooks] if ".ipynb_checkpoints" not in path.parts]
    return sorted(path for path in found if path.name != "nodes.md")


def prose(path: Path) -> str:
    """Return the text of a file; code in it becomes empty, so that lines keep their numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    blank = lambda found: "\n" * found[0].count("\n")  # noqa: E731  # one line, used twice
    return re.sub(r"`[^`]*`", blank, re.sub(r"^```.*?^```$", blank, text, flags=re.MULTILINE | re.DOTALL))


if __name__ == "__main__":
    main()
