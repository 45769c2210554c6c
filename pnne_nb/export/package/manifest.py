"""The manifest of a package: versions, inputs, outputs, classes, and the digest of every part."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pnne_nb.errors import GraphFileError, shown
from pnne_nb.export.formats.base import TensorInfo

MANIFEST = "manifest.json"
GRAPH = "graph.json"
WEIGHTS = "weights.safetensors"
STATE = "weights.json"
BATCHES = "batches.safetensors"
METRICS = "metrics.json"
CARD = "README.md"
PICTURE = "graph.svg"
SOURCE = "model.py"
CHECK = "check.py"
ONNX = "model.onnx"

FORMAT = "pnne-package"
FORMAT_VERSION = 1


class PartDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Size in bytes and SHA-256 in hexadecimal digits of a part."""

    bytes: int
    sha256: str


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The description of the recorded batches.

    Attributes:
        batches: How many recorded batches there are.
        random: Whether the outputs depend on random numbers, so that another runtime cannot have the same.
        tolerance: The largest deviation, relative to the largest output, that another runtime may have.
    """

    batches: int
    random: bool
    tolerance: float


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The description of a package.

    Attributes:
        name: Of the graph.
        versions: Of the packages that it was written with.
        inputs: In the order of ``forward``.
        outputs: In the order of the results.
        classes: Names of the classes that the scores of the output belong to, or None.
        custom_types: Node types that must be registered before the package is opened.
        config: What the person says, and the plain arguments of the training.
        record: About the recorded batches.
        parts: Digests by name; the manifest itself is not among them.
    """

    format: str
    format_version: int
    name: str
    versions: dict[str, str]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    record: Record
    classes: tuple[str, ...] | None = None
    custom_types: tuple[str, ...] = ()
    config: dict[str, Any] = {}
    parts: dict[str, PartDigest] = {}

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON, the same text for equal manifests."""
        text = json.dumps(msgspec.to_builtins(self), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode()

    @classmethod
    def from_bytes(cls, content: bytes, place: str) -> Manifest:
        """Read the result of `to_bytes`.

        Raises:
            GraphFileError: If it is something else, or from a newer version; `place` says where it stands.
        """
        try:
            head = msgspec.json.decode(content)
            version = head.get("formatVersion") if isinstance(head, dict) and head.get("format") == FORMAT else None
        except (msgspec.DecodeError, RecursionError) as error:
            raise GraphFileError(f"{place} is no JSON: {shown(str(error))}.") from error
        if isinstance(version, bool) or not isinstance(version, int):
            raise GraphFileError(f"{place} is no manifest of a package: it does not say {FORMAT!r}.")
        if version > FORMAT_VERSION:
            raise GraphFileError(
                f"{place}: the package has format version {shown(version)}, and this pnne_nb reads up to {FORMAT_VERSION}. "
                "Install a newer pnne_nb."
            )
        try:
            return msgspec.convert(head, cls)
        except msgspec.ValidationError as error:
            raise GraphFileError(f"{place}: {error}.") from error
