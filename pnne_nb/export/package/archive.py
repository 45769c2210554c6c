"""Reads and writes the parts of a package, in a zip file or a folder, and detects every changed bit.

A zip file ends in its comment, the SHA-256 of all bytes before it; so its own records are covered too. Parts are stored
as they are, without compression: what is read cannot be larger than the file. Nothing is ever extracted, so names of
parts lead nowhere. In a folder, a file ``manifest.sha256`` has the digest of the manifest, which has those of all parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from pnne_nb.errors import ExportError, GraphFileAccessError, GraphFileError, GraphFileNotFoundError, shown
from pnne_nb.export.package.manifest import MANIFEST, Manifest, PartDigest
from pnne_nb.process.atomic_file import written_beside

SEAL = f"{Path(MANIFEST).stem}.sha256"
"""Holds the digest of the manifest in a folder; in a zip file, the comment covers all."""

_DIGEST = 64  # hexadecimal digits
_MAX_MANIFEST = 16 * 2**20
_MAX_PARTS = 1000
_CHUNK = 2**20


def write_package(path: Path, manifest: Manifest, parts: Mapping[str, bytes], check: Callable[[Path], None]) -> None:
    """Write a package atomically.

    Args:
        path: A name with a suffix becomes a zip file, one without a folder; what is there is replaced.
        manifest: Describes the parts; their digests are filled in.
        parts: Contents by name.
        check: Called with the finished package under a temporary name; if it raises, nothing is left.

    Raises:
        ExportError: If it cannot be written.
    """
    digests = {name: _part_digest(part) for name, part in parts.items()}
    head = msgspec.structs.replace(manifest, parts=digests).to_bytes()
    try:
        with written_beside(path) as temporary:
            if path.suffix:
                _write_zip(temporary, {MANIFEST: head, **parts})
            else:
                seal = f"{hashlib.sha256(head).hexdigest()}\n".encode()
                _write_folder(temporary, {MANIFEST: head, SEAL: seal, **parts})
            check(temporary)
            _put(temporary, path)
    except OSError as error:
        if isinstance(error, GraphFileError):
            raise
        raise ExportError(f"{shown(str(path), 400)} cannot be written: {error.strerror or error}.") from error


def _part_digest(part: bytes) -> PartDigest:
    return PartDigest(len(part), hashlib.sha256(part).hexdigest())


def _put(temporary: Path, path: Path) -> None:
    """Move a complete package to its path; only then is an earlier one removed."""
    if path.is_dir() and not path.is_symlink():
        before = temporary.with_name(f"{path.name}.before")
        path.rename(before)
        try:
            temporary.rename(path)
        except BaseException:
            before.rename(path)
            raise
        return
    temporary.replace(path)


def _write_zip(path: Path, parts: Mapping[str, bytes]) -> None:
    with path.open("w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, part in parts.items():
                entry = zipfile.ZipInfo(name)  # dated 1980: equal packages are equal files
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                archive.writestr(entry, part)
            archive.comment = b"0" * _DIGEST
        size = file.seek(0, os.SEEK_END)
        seal = _digest(file, size - _DIGEST)
        file.seek(size - _DIGEST)
        file.write(seal.encode())
        _sync(file)


def _write_folder(path: Path, parts: Mapping[str, bytes]) -> None:
    path.mkdir()
    for name, part in parts.items():
        with (path / name).open("wb") as file:
            file.write(part)
            _sync(file)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _digest(file: BinaryIO, count: int) -> str:
    """Return the SHA-256 of the first `count` bytes."""
    file.seek(0)
    digest = hashlib.sha256()
    while count > 0:
        chunk = file.read(min(count, _CHUNK))
        if not chunk:
            break
        digest.update(chunk)
        count -= len(chunk)
    return digest.hexdigest()


def read_package(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Return the contents of a package, after checking every byte against the digests.

    Raises:
        GraphFileNotFoundError: If there is nothing at `path`.
        GraphFileAccessError: If it cannot be read.
        GraphFileError: If it is no package, damaged, hostile, or from a newer version; the message names the part.
    """
    place = shown(str(path), 400)
    try:
        parts = _read_folder(path) if path.is_dir() else _read_zip(path)
    except FileNotFoundError as error:
        raise GraphFileNotFoundError(f"There is no package {place}.") from error
    except OSError as error:
        if isinstance(error, GraphFileError):
            raise
        raise GraphFileAccessError(f"{place} cannot be read: {error.strerror or error}.") from error
    manifest = Manifest.from_bytes(parts.pop(MANIFEST), f"{place}: {MANIFEST}")
    for name in manifest.parts:
        if name not in parts:
            raise GraphFileError(f"{place}: the part {shown(name)} is missing.")
    for name, part in parts.items():
        if name not in manifest.parts:
            raise GraphFileError(f"{place}: the manifest does not know the part {shown(name)}.")
        if _part_digest(part) != manifest.parts[name]:
            raise GraphFileError(
                f"{place}: {name} is damaged or was changed: it is not what the manifest says. {_AGAIN}"
            )
    return manifest, parts


_AGAIN = "Get the package again from where it comes."


def _read_zip(path: Path) -> dict[str, bytes]:
    place = shown(str(path), 400)
    with _opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size < _DIGEST:
            raise GraphFileError(f"{place} is no package: it has {size} bytes.")
        file.seek(size - _DIGEST)
        seal, found = file.read(_DIGEST), _digest(file, size - _DIGEST)
        if seal != found.encode():
            file.seek(0)
            if other := _other_kind(file, place):
                raise GraphFileError(f"{place} is no package, but {other}.")
            raise GraphFileError(f"{place} is damaged, was changed, or is no package: {_damage(file)} {_AGAIN}")
        try:
            with zipfile.ZipFile(file) as archive:
                return {entry.filename: archive.read(entry) for entry in _entries(archive, size, place)}
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
            if isinstance(error, GraphFileError):
                raise
            raise GraphFileError(f"{place} is no package: {shown(str(error))}.") from error


def _other_kind(file: BinaryIO, place: str) -> str:
    """Return what else a file is, and the line that opens it; "" if it is nothing known."""
    head = file.read(_DIGEST)
    if head.lstrip().startswith(b"{"):
        return f"a graph file. Write pn.NodeGraph.load({place})"
    if head[8:9] == b"{":  # a safetensors file: the length of its header, then the header
        file.seek(8)
        if b'"pnne"' in file.read(min(int.from_bytes(head[:8], "little"), _MAX_MANIFEST)):
            return f"a checkpoint. Write pn.TrainingEngine.resume_from({place}, net, (X, y))"
        return f"a file of weights. Write pn.load_weights(graph, {place})"
    if place.strip("'\"").endswith((".onnx", ".pt2", ".pte", ".tflite")):
        return f"an exported file. Write pn.InferenceEngine.load({place})"
    with contextlib.suppress(Exception), zipfile.ZipFile(file) as archive:
        if any(name.endswith("/data.pkl") for name in archive.namelist()):
            return f"a file of weights by torch.save. Write pn.load_weights(graph, {place})"
    return ""


def _entries(archive: zipfile.ZipFile, size: int, place: str) -> list[zipfile.ZipInfo]:
    """Return the entries of a zip file, each of which must be an uncompressed part."""
    entries = archive.infolist()
    if len(entries) > _MAX_PARTS:
        raise GraphFileError(f"{place} has {len(entries)} parts; a package has at most {_MAX_PARTS}.")
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        where = f"{place}: the part {shown(name)}"
        if not _is_name(name) or name != entry.orig_filename:
            raise GraphFileError(f"{where} has a name that leads out of the package, or is no plain name.")
        if name in seen:
            raise GraphFileError(f"{where} is there twice.")
        seen.add(name)
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise GraphFileError(f"{where} is no plain file but a link or a device.")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 0x1:
            raise GraphFileError(f"{where} is compressed or encrypted; a package stores its parts as they are.")
        if entry.file_size != entry.compress_size:
            raise GraphFileError(f"{where} has two sizes, {entry.file_size} and {entry.compress_size} bytes.")
    if sum(entry.file_size for entry in entries) > size:
        raise GraphFileError(f"{place}: its parts overlap: together they are larger than the file.")
    if MANIFEST not in seen:
        raise GraphFileError(f"{place} is no package: it has no {MANIFEST}.")
    if archive.getinfo(MANIFEST).file_size > _MAX_MANIFEST:
        raise GraphFileError(f"{place}: {MANIFEST} has more than {_MAX_MANIFEST} bytes.")
    return entries


def _damage(file: BinaryIO) -> str:
    """Return a message with the damaged part of a zip file, as far as it can still be read."""
    with contextlib.suppress(Exception), zipfile.ZipFile(file) as archive:
        manifest = Manifest.from_bytes(archive.read(MANIFEST), MANIFEST)
        for name, wanted in manifest.parts.items():
            try:
                part = archive.read(name)
            except zipfile.BadZipFile:
                part = b""
            if hashlib.sha256(part).hexdigest() != wanted.sha256:
                return f"the part {name!r} differs from its digest."
    return "the records of the archive itself differ from their digest."


def _read_folder(path: Path) -> dict[str, bytes]:
    place = shown(str(path), 400)
    if not (path / MANIFEST).is_file():
        raise GraphFileError(f"The folder {place} is no package: it has no {MANIFEST}.")
    head = _read_file(path / MANIFEST, _MAX_MANIFEST)
    seal = _read_file(path / SEAL, _DIGEST + 1)
    if seal != f"{hashlib.sha256(head).hexdigest()}\n".encode():
        raise GraphFileError(f"{place}: {MANIFEST} differs from its digest in {SEAL}. {_AGAIN}")
    manifest = Manifest.from_bytes(head, f"{place}: {MANIFEST}")
    parts = {MANIFEST: head}
    for name, wanted in manifest.parts.items():
        if not _is_name(name):
            raise GraphFileError(f"{place}: the part {shown(name)} has a name that leads out of the package.")
        parts[name] = _read_file(path / name, wanted.bytes)
    return parts


def _read_file(path: Path, most: int) -> bytes:
    place = shown(str(path), 400)
    if path.is_symlink():
        raise GraphFileError(f"{place} is a link; a package holds its parts itself.")
    with _opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise GraphFileError(f"{place} has more than the {most} bytes that it should have.")
    return content


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file; opening a pipe or a device could block."""
    if path.exists() and not path.is_file():
        raise GraphFileError(f"{shown(str(path), 400)} is neither a file nor a folder.")
    with path.open("rb") as file:
        yield file


def _is_name(name: str) -> bool:
    """Return whether a name is valid for a part: a file name without a folder, on any system."""
    return (
        0 < len(name) <= 100
        and name.isascii()
        and all(letter.isalnum() or letter in "._-" for letter in name)
        and not name.startswith(".")
        and not name.endswith(".")
    )
