from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from pnne_nb.process.atomic_file import remove_unfinished, replace_file


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_file_is_replaced_and_the_old_one_kept_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "graph.pnne"
    replace_file(path, b"one", previous=tmp_path / "old")
    assert names(tmp_path) == {"graph.pnne"}
    replace_file(path, b"two", previous=tmp_path / "old")
    assert (path.read_bytes(), (tmp_path / "old").read_bytes()) == (b"two", b"one")
    replace_file(path, b"three")
    assert (path.read_bytes(), (tmp_path / "old").read_bytes()) == (b"three", b"one")
    assert names(tmp_path) == {"graph.pnne", "old"}


def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path: Path) -> None:
    path, other = tmp_path / "graph.pnne", tmp_path / "other"
    other.touch()
    replace_file(path, b"one")
    assert path.stat().st_mode == other.stat().st_mode
    path.chmod(0o640)
    replace_file(path, b"two")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_what_fails_leaves_the_old_file_alone_and_nothing_beside_it(
    operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.pnne"
    replace_file(path, b"one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if operation == "fsync" else Path, operation, full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"two")
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == {"graph.pnne"}


def test_what_was_left_unfinished_is_removed_but_not_what_is_being_written(tmp_path: Path) -> None:
    left, written, another = (tmp_path / name for name in (".a.ckpt-1", ".b.ckpt-2", ".c.pnne-3"))
    for path in (left, written, another):
        path.touch()
    with written.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_unfinished(tmp_path, "*.ckpt")
    assert names(tmp_path) == {".b.ckpt-2", ".c.pnne-3"}
