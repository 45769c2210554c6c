"""The blocks of Python on the pages that readers copy from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE: Final = {"/shared/run": "shared", 'backend="inductor"': 'backend="eager"'}
"""What a test writes otherwise: no directory of the machine, no C++ compiler."""


def blocks(page: str) -> list[tuple[int, str]]:
    """Return every block of a page, with the number of lines before it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for written, instead in ELSEWHERE.items():
        text = text.replace(written, instead)
    return [(text.count("\n", 0, block.start(1)), block.group(1)) for block in BLOCK.finditer(text)]
