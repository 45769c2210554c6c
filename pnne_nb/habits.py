"""What to write instead of names of other libraries; `habits.toml` has the lines, each with the names that it stands for."""

from __future__ import annotations

import functools
import tomllib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final


@functools.cache
def _tables() -> dict[str, dict[str, str]]:
    text = Path(__file__).with_name("habits.toml").read_text(encoding="utf-8")
    return {
        table: {name: line for line, names in lines.items() for name in names.split()}
        for table, lines in tomllib.loads(text).items()
    }


@final
class Habits(Mapping[str, str]):
    """What to write, by name in other libraries; read when somebody first asks."""

    def __init__(self, *tables: str) -> None:
        self._names = tables

    @functools.cached_property
    def _lines(self) -> dict[str, str]:
        return {name: line for table in self._names for name, line in _tables()[table].items()}

    def __getitem__(self, name: str) -> str:
        return self._lines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __or__(self, other: dict[str, str]) -> Mapping[str, str]:
        return ChainMap(other, self)  # type: ignore[arg-type]  # nobody writes into it


FUNCTIONS: Final = Habits("module")
ARGUMENTS: Final = Habits("arguments")
