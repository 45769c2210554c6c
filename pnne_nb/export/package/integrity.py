"""Checks a package of pnne_nb: every digest, and the recorded outputs through ONNX Runtime.

    python check.py [PACKAGE]

PACKAGE is the package's file or folder; without it, the folder of this script. It needs numpy, and onnxruntime if the
package carries an ONNX file. It reads the package as data, and imports nothing from it. It ends with 0 if all is well.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_KINDS = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Check a package, and print what was found; return 0 if all is well, otherwise 1."""
    path = Path(arguments[0]) if arguments else Path(__file__).parent
    try:
        for line in checked(path):
            sys.stdout.write(f"{line}\n")
    except (Damaged, OSError, ValueError, KeyError, zipfile.BadZipFile, struct.error) as error:
        sys.stdout.write(f"NOT OK: {error}\n")
        return 1
    return 0


class Damaged(Exception):  # noqa: N818  # it says what the package is
    """The package is not what it says."""


def checked(path: Path) -> list[str]:
    """Return what was found, one line each.

    Raises:
        Damaged: If the package is not what it says.
    """
    parts = _parts(path)
    manifest = json.loads(parts["manifest.json"])
    for name, wanted in manifest["parts"].items():
        if name not in parts:
            raise Damaged(f"the part {name} is missing.")
        if hashlib.sha256(parts[name]).hexdigest() != wanted["sha256"]:
            raise Damaged(f"the part {name} differs from its digest.")
    lines = [f"OK: {len(manifest['parts'])} parts are what the manifest says."]
    if "model.onnx" not in parts:
        return [*lines, "The package carries no ONNX file, so the recorded outputs were not compared."]
    if manifest["record"]["random"]:
        return [*lines, "The model draws random numbers, so its recorded outputs were not compared."]
    return [*lines, _compared(parts, manifest["record"])]


def _parts(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        head = (path / "manifest.json").read_bytes()
        if (path / "manifest.sha256").read_text() != f"{hashlib.sha256(head).hexdigest()}\n":
            raise Damaged("manifest.json differs from its digest.")
        names = [name for name in json.loads(head)["parts"] if Path(name).name == name]
        return {
            "manifest.json": head,
            **{name: (path / name).read_bytes() for name in names if (path / name).is_file()},
        }
    content = path.read_bytes()
    if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
        raise Damaged("the file differs from the digest at its end.")
    with zipfile.ZipFile(path) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise Damaged("a part is compressed.")
        return {name: archive.read(name) for name in archive.namelist()}


def _compared(parts: dict[str, bytes], record: dict[str, Any]) -> str:
    onnxruntime = import_module("onnxruntime")  # needed only where there is an ONNX file

    session = onnxruntime.InferenceSession(parts["model.onnx"], providers=["CPUExecutionProvider"])
    tensors = tensors_of(parts["batches.safetensors"])
    worst = 0.0
    for index in range(record["batches"]):
        feed = {one.name: tensors[f"{index}.input.{one.name}"] for one in session.get_inputs()}
        found = session.run(None, feed)
        names = sorted(
            (name for name in tensors if name.startswith(f"{index}.output.")), key=lambda n: int(n.split(".")[2])
        )
        if len(names) != len(found):
            raise Damaged(f"the ONNX file has {len(found)} outputs, and {len(names)} were recorded.")
        worst = max([worst, *(deviation(one, tensors[name]) for one, name in zip(found, names, strict=True))])
    text = f"the ONNX file differs from the recorded outputs by {worst:.2g} of the largest, {record['tolerance']:.2g} allowed."
    if not worst <= record["tolerance"]:
        raise Damaged(text)
    return f"OK: {text}"


def deviation(found: Any, wanted: Any) -> float:
    """Return the largest difference of two arrays, relative to the largest magnitude of the second."""
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.size:
        return 0.0
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.where((found == wanted) | (np.isnan(found) & np.isnan(wanted)), 0.0, np.abs(found - wanted))
    finite = np.abs(wanted[np.isfinite(wanted)])
    return float(gap.max() / (float(finite.max()) if finite.size and finite.max() else 1.0))


def tensors_of(content: bytes) -> dict[str, Any]:
    """Return the arrays of a file in the safetensors format."""
    (size,) = struct.unpack("<Q", content[:8])
    head = json.loads(content[8 : 8 + size])
    arrays: dict[str, Any] = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _KINDS:
            raise Damaged(f"numpy has no element type {entry['dtype']}, which {name} has.")
        start, stop = (8 + size + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(content[start:stop], dtype=_KINDS[entry["dtype"]]).reshape(entry["shape"])
    return arrays


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
