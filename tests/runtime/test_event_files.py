"""Event files for TensorBoard, read again by a second implementation of their format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from pnne_nb.frames import EpochFrame, StepFrame
from pnne_nb.runtime.event_files import crc32c, write_scalars
from pnne_nb.runtime.history import History


def records(path: Path) -> Iterator[bytes]:
    content, at = path.read_bytes(), 0
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        body = content[at + 12 : at + 12 + length]
        for checked, place in ((content[at : at + 8], at + 8), (body, at + 12 + length)):
            (masked,) = struct.unpack_from("<I", content, place)
            rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
            assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == crc32c(checked)
        yield body
        at += 16 + length


def test_the_checksum_is_castagnoli_s() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_file_begins_with_its_version_and_holds_each_scalar(tmp_path: Path) -> None:
    path = write_scalars(tmp_path / "run", [("loss", 1, 0.5), ("loss", 300, -2.0)])
    first, start, one, other = records(path)
    assert b"brain.Event:2" in first
    assert start[9:] == b"\x10\x00" + b"\x3a\x02\x08\x01"
    assert path.name.startswith("events.out.tfevents.")
    # The time takes 9 bytes, then come the step, the summary and its only value.
    assert one[9:] == b"\x10\x01" + b"\x2a\x0d\x0a\x0b" + b"\x0a\x04loss" + b"\x15" + struct.pack("<f", 0.5)
    assert other[9:12] == b"\x10\xac\x02"
    assert other.endswith(struct.pack("<f", -2.0))


def test_a_number_that_is_too_large_for_the_format_is_infinite(tmp_path: Path) -> None:
    *_, last = records(write_scalars(tmp_path, [("loss", 1, 1e300)]))
    assert last.endswith(struct.pack("<f", float("inf")))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    paths = {write_scalars(tmp_path, []) for _ in range(3)}
    assert len(paths) == 3


def test_a_history_is_written_whole_without_what_was_not_measured(tmp_path: Path) -> None:
    history = History()
    history.record(StepFrame(1, 1, 0.5, 1e-3, 16, 0.1))
    history.record(EpochFrame(1, 1, {"train_loss": 0.5}))
    history.record(EpochFrame(1, 2, {"val_loss": 0.25}))
    bodies = list(records(history.to_tensorboard(tmp_path)))
    assert len(bodies) == 2 + 4
    assert sum(b"val_loss" in body for body in bodies) == 1
