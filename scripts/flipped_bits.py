"""Flips single bits of a package, one at a time and anywhere, and counts how many `pn.load` finds: all, or it fails.

    python scripts/flipped_bits.py [FLIPS] [SEED]

Half of the flips are in a package that is one file, half in one that is a folder; a quarter of those in the file are in the
zip file's own records.
"""

from __future__ import annotations

import random
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

import pnne_nb as pn


def main(flips: int = 1000, seed: int = 0) -> int:
    """Return 0 if every flipped bit was found."""
    draws = random.Random(seed)
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as directory:
        graph = pn.sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), input=("N", 8), name="net")  # it has buffers
        one = pn.save(graph, pn.compile(graph), Path(directory) / "net.pnne")
        folder = pn.save(graph, pn.compile(graph), Path(directory) / "net")
        lost = []
        for file, place in [*places(one, draws, flips // 2), *folder_places(folder, draws, flips - flips // 2)]:
            content = file.read_bytes()
            bit = draws.randrange(8)
            file.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            try:
                pn.load(one if file == one else folder)
                lost.append(f"{file.name}, byte {place}, bit {bit}")
            except pn.GraphFileError:
                pass
            file.write_bytes(content)
        pn.load(one)
        pn.load(folder)
    print(f"{flips - len(lost)} of {flips} flipped bits were found.", *lost, sep="\n")
    return int(bool(lost))


def places(file: Path, draws: random.Random, count: int) -> Iterator[tuple[Path, int]]:
    """Yield bytes of a zip file, a quarter of them in its records."""
    size = file.stat().st_size
    with zipfile.ZipFile(file) as archive:
        records = [
            place for entry in archive.infolist() for place in range(entry.header_offset, entry.header_offset + 30)
        ]
        records += range(archive.start_dir, size)
    for index in range(count):
        yield file, draws.choice(records) if index % 4 == 0 else draws.randrange(size)


def folder_places(folder: Path, draws: random.Random, count: int) -> Iterator[tuple[Path, int]]:
    """Yield bytes of the files of a folder, each file as often."""
    files = sorted(folder.iterdir())
    for index in range(count):
        file = files[index % len(files)]
        yield file, draws.randrange(file.stat().st_size)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
