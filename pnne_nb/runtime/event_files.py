"""Scalars as event files, which TensorBoard reads; writing them needs no TensorBoard.

A file is a sequence of records (length, its checksum, content, its checksum), each content an ``Event`` in the wire
format of protocol buffers.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


def _table() -> tuple[int, ...]:
    made = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        made.append(byte)
    return tuple(made)


_CRC = _table()


def crc32c(content: bytes) -> int:
    """The Castagnoli checksum."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _masked(length) + content + _masked(content)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _field(number: int, kind: int, content: bytes) -> bytes:
    size = _varint(len(content)) if kind == _BYTES else b""
    return _varint(number << 3 | kind) + size + content


def _event(when: float, step: int, *rest: bytes) -> bytes:
    return _field(1, _DOUBLE, struct.pack("<d", when)) + _field(2, _VARINT, _varint(step)) + b"".join(rest)


def write_scalars(directory: Path, scalars: Iterable[tuple[str, int, float]]) -> Path:
    """Write one event file, whose curves readers show in the place of those of earlier files in the directory.

    Args:
        directory: Made if it is not there; a file in it is never overwritten.
        scalars: Tag, step and value of each; all of them get the time of now.

    Returns:
        The file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    when = time.time()
    number = 0
    while (path := directory / f"events.out.tfevents.{int(when)}.pnne.{number}").exists():
        number += 1
    with path.open("wb") as file:
        file.write(_record(_event(when, 0, _field(3, _BYTES, b"brain.Event:2"))))
        # A session starts at step 0: what was there of later steps, which this file holds as well, no longer counts.
        file.write(_record(_event(when, 0, _field(7, _BYTES, _field(1, _VARINT, _varint(1))))))
        for tag, step, value in scalars:
            with np.errstate(over="ignore"):
                single = np.float32(value)  # a number beyond its range is infinite in it
            said = _field(1, _BYTES, tag.encode()) + _field(2, _FLOAT, struct.pack("<f", single))
            file.write(_record(_event(when, step, _field(5, _BYTES, _field(1, _BYTES, said)))))
    return path
