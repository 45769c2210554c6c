"""The limits of containers, read from files as Linux writes them."""

from __future__ import annotations

from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest

from pnne_nb.compiler.machine import memory

MIB = 2**20
MACHINE = psutil.virtual_memory().total


def group(place: Path, version: int, limit: str, used: int, cache: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    (place / names[0]).write_text(f"{limit}\n")
    (place / names[1]).write_text(f"{used}\n")
    (place / "memory.stat").write_text(f"anon 1\nfile {cache + 5}\n{names[2]} {cache}\n")


def own(place: Path, *lines: str) -> Path:
    file = place / "own"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


@pytest.mark.parametrize(("version", "line"), [(2, "0::/"), (1, "4:cpu,memory:/docker/0123")])
def test_a_container_has_what_its_limit_leaves(tmp_path: Path, version: int, line: str) -> None:
    group(tmp_path / ("memory" if version == 1 else "."), version, str(8 * MIB), used=5 * MIB, cache=2 * MIB)
    assert memory(tmp_path, own(tmp_path, "3:cpuset:/", line)) == (8 * MIB, 5 * MIB)


def test_the_narrowest_of_the_groups_around_a_process_counts(tmp_path: Path) -> None:
    group(tmp_path / "user", 2, str(6 * MIB), used=5 * MIB, cache=0)
    group(tmp_path / "user/job", 2, str(4 * MIB), used=MIB, cache=0)
    assert memory(tmp_path, own(tmp_path, "0::/user/job")) == (4 * MIB, MIB)


def test_more_than_the_limit_taken_leaves_nothing(tmp_path: Path) -> None:
    group(tmp_path, 2, str(MIB), used=2 * MIB, cache=0)
    assert memory(tmp_path, own(tmp_path, "0::/")) == (MIB, 0)


@pytest.mark.parametrize("limit", ["max", str(2**63 - 4096), "what"])
def test_without_a_limit_it_is_the_machine_s(tmp_path: Path, limit: str) -> None:
    group(tmp_path, 2, limit, used=MIB, cache=0)
    found = memory(tmp_path, own(tmp_path, "0::/"))
    assert found.total == MACHINE
    assert 0 < found.free <= MACHINE


def test_where_there_are_no_groups_it_is_the_machine_s(tmp_path: Path) -> None:
    assert memory(tmp_path, tmp_path / "none").total == MACHINE
    assert memory(tmp_path, own(tmp_path, "0::/gone")).total == MACHINE
