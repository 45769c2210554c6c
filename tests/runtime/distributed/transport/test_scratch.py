"""What a killed kernel leaves is found, told once, and then removed; what lives is left alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pnne_nb.runtime.distributed.transport.scratch import sweep, temporary_directory
from tests.runtime.distributed import groups


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Otherwise torch, once it needs one, puts the cache of this process into this test's directory.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def orphan(path: Path, checkpoints: int) -> Path:
    # No process is as old.
    (path / "owner").write_text(f"{(path / 'owner').read_text().split()[0]} 1.0")
    for number in range(checkpoints):
        (path / f"{number}-step-0.ckpt").touch()
    return path


def test_what_a_killed_process_has_left_is_removed(home: Path) -> None:
    mine = temporary_directory()
    assert mine.parent == home
    left, with_progress = orphan(temporary_directory(), 1), orphan(temporary_directory(), 2)
    in_use = orphan(temporary_directory(), 2)
    somebodys = home / "pnne-of-somebody"
    somebodys.mkdir()
    (home / "pnne-strange").mkdir()
    (home / "pnne-strange" / "owner").write_text("nobody")
    command = [sys.executable, "-c", "input()", str(in_use)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as torchrun:
        assert sweep() == [with_progress]
        assert not left.exists()
        assert sweep() == []
        assert in_use.exists()
        torchrun.communicate(b"\n")
    assert sweep() == [in_use]
    assert sweep() == []
    assert sorted(path.name for path in home.iterdir()) == sorted([mine.name, "pnne-of-somebody", "pnne-strange"])


def test_what_a_command_needs_is_swept_as_well(home: Path) -> None:
    command = groups.engine().launch_command(nproc=2)
    (packed,) = home.glob("pnne-*")
    assert str(packed) in command
    orphan(packed, 0)
    assert sweep() == []
    assert not packed.exists()
