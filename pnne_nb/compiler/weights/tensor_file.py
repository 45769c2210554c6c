"""Reads and writes tensor files: tensors, JSON and a checksum in the safetensors format, without running code.

Checkpoints, weights, the parts of packages, fixed tables and the data of a group are such files. What is no tensor is in the
metadata: texts, or a state that `pack` takes apart. A sealed file has a BLAKE2 checksum of all of it under ``"checksum"``,
taken with zeros in its own place.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, final

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, shown
from pnne_nb.graph.document import NodeGraph

_DIGEST = 32
_UNSEALED = "0" * (2 * _DIGEST)
"""Stands where the checksum will, while it is computed."""


class TensorFileError(ValueError):
    """The bytes are no tensor file, or something cannot be in one; the message is a clause."""


def to_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None, *, seal: bool = False) -> bytes:
    """Return a file of tensors by name, each with memory of its own, and of texts by name.

    Raises:
        TensorFileError: An element type cannot be in a file.
    """
    if seal:
        return sealed(to_bytes(tensors, {**(metadata or {}), "checksum": _UNSEALED}))
    try:
        return safetensors.torch.save(dict(tensors), dict(metadata) if metadata else None)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        kinds = sorted({str(tensor.dtype) for tensor in tensors.values()})
        raise TensorFileError(f"tensors of the types {', '.join(kinds)} cannot be stored: {error}") from error


def write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write the same without a copy of the tensors in memory.

    Raises:
        TensorFileError: It cannot be written.
    """
    try:
        safetensors.torch.save_file(dict(tensors), path, dict(metadata) if metadata else None)
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise TensorFileError(str(error)) from error


def from_bytes(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of a file by name.

    Raises:
        TensorFileError: It is damaged, or none.
    """
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise TensorFileError(str(error)) from error


def read(path: str | Path, wanted: Collection[str] | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file, or those with the `wanted` names, and its texts.

    Raises:
        TensorFileError: It is missing, damaged, or none.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if wanted is None or name in wanted]  # noqa: SIM118  # it is no mapping
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise TensorFileError(str(error)) from error


def metadata_of(content: bytes) -> dict[str, Any] | None:
    """Return the texts in the header of a file, or None if there is no such header."""
    end = 8 + int.from_bytes(content[:8], "little")
    try:
        found = json.loads(content[8:end])["__metadata__"] if end <= len(content) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def sealed(content: bytes) -> bytes:
    """Return a file with its checksum in place of the zeros."""
    return _with_checksum(content, _UNSEALED, hashlib.blake2b(content, digest_size=_DIGEST).hexdigest())


def is_whole(content: bytes) -> bool | None:
    """Return whether a file matches its checksum; None if it has none."""
    found = (metadata_of(content) or {}).get("checksum")
    if not isinstance(found, str) or len(found) != len(_UNSEALED):
        return None
    return sealed(_with_checksum(content, found, _UNSEALED)) == content


def _with_checksum(content: bytes, old: str, new: str) -> bytes:
    # No text in the header can contain this: its quotation marks would be escaped.
    return content.replace(f'"checksum":"{old}"'.encode(), f'"checksum":"{new}"'.encode(), 1)


_TAG = "$"
"""The key of an object in the JSON text that stands for something else than a dict with text keys."""


def pack(state: Mapping[str, Any]) -> tuple[str, dict[str, Tensor]]:
    """Split `state` into a JSON text and tensors.

    The tensors are on the CPU, each with memory of its own, by their place: ``"loop.model.conv1.weight"``.

    Args:
        state: Numbers, texts, None, tensors, and dicts, lists, tuples and sets of them.

    Raises:
        TensorFileError: Something else is in it; the message names the place.
    """
    packer = _Packer()
    return json.dumps(packer.packed(state, "")), packer.tensors


def unpack(text: str, tensors: Mapping[str, Tensor]) -> Any:
    """Return the state that `pack` took apart.

    Raises:
        ValueError: The text is no such JSON.
        KeyError: It refers to a tensor that is not there.
    """
    return _unpacked(json.loads(text), tensors)


@final
class _Packer:
    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._known: dict[tuple[Any, ...], str] = {}

    def packed(self, value: Any, place: str) -> Any:
        match value:
            case None | bool() | str():
                return value
            case int():
                return int(value)
            case float():
                return float(value)
            case Tensor():
                return {_TAG: "tensor", "name": self._named(value, place)}
            case list() | tuple() | set() | frozenset():
                items = [self.packed(item, f"{place}.{index}") for index, item in enumerate(value)]
                return items if isinstance(value, list) else {_TAG: _kind(value, place), "items": items}
            case Mapping():
                return self._packed_mapping(value, place)
            case torch.dtype() | torch.device():
                return {_TAG: type(value).__name__, "name": str(value).removeprefix("torch.")}
            case _:
                raise TensorFileError(f"cannot hold {place}, a {type(value).__name__}")

    def _packed_mapping(self, value: Mapping[Any, Any], place: str) -> Any:
        if type(value) is dict and all(isinstance(key, str) for key in value) and _TAG not in value:
            return {key: self.packed(item, f"{place}.{key}" if place else key) for key, item in value.items()}
        items = [
            [self.packed(key, place), self.packed(item, f"{place}.{key}" if place else str(key))]
            for key, item in value.items()
        ]
        packed = {_TAG: _kind(value, place), "items": items}
        # A module's versions of its own format, which torch hangs on the state.
        versions = getattr(value, "_metadata", None)
        return packed if versions is None else {**packed, "versions": self.packed(dict(versions), place)}

    def _named(self, tensor: Tensor, place: str) -> str:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise TensorFileError(f"cannot hold {place}, a tensor of layout {tensor.layout}")
        # Tied weights are one tensor under several names.
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if tensor.numel() and key in self._known:
            return self._known[key]
        self._known[key] = place
        self.tensors[place] = tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)
        return place


_SEQUENCES = {"tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}


def _kind(value: Any, place: str) -> str:
    """Return the name of the nearest known type; a named tuple counts as a tuple."""
    for kind in type(value).__mro__:
        if kind.__name__ in {*_SEQUENCES, *_MAPPINGS}:
            return kind.__name__
    raise TensorFileError(f"cannot hold {place}, a {type(value).__name__}")


def _unpacked(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    match value:
        case list():
            return [_unpacked(item, tensors) for item in value]
        case dict() if _TAG not in value:
            return {key: _unpacked(item, tensors) for key, item in value.items()}
        case {"$": "tensor", "name": str(name)}:
            return tensors[name]
        case {"$": "dtype", "name": str(name)} if isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        case {"$": "device", "name": str(name)}:
            return torch.device(name)
        case {"$": str(kind), "items": list(items)} if kind in _SEQUENCES:
            return _SEQUENCES[kind](_unpacked(item, tensors) for item in items)
        case {"$": str(kind), "items": list(items)} if kind in _MAPPINGS:
            made: Any = _MAPPINGS[kind]({_unpacked(key, tensors): _unpacked(item, tensors) for key, item in items})
            if "versions" in value:
                made._metadata = OrderedDict(_unpacked(value["versions"], tensors))
            return made
        case dict():
            raise ValueError(f"there is no {value[_TAG]!r}")
        case _:
            return value


PACKAGED: Final = "weights.safetensors"
"""The part of a package that holds its weights."""

_CHECKPOINT: Final = "loop.model."
"""What the names of a model's tensors begin with in a checkpoint of a `TrainingEngine`."""

_WRAPPED: Final = ("state_dict", "model_state_dict", "model", "module", "net", "weights")
"""Keys under which programs keep a ``state_dict`` beside other things."""


def tensors_in(source: object) -> dict[str, Tensor]:
    """Return the tensors of a ``state_dict``, a module or a file by name.

    A file is one of safetensors, of ``torch.save`` (read with ``weights_only=True``), a package of `pn.save` or a
    checkpoint of a `TrainingEngine`. Mappings around a ``state_dict`` are opened.

    Raises:
        ArgumentError: If it is something else, cannot be read, or holds no tensors by name.
    """
    match source:
        case nn.Module():
            return named_tensors(source)
        case Mapping():
            found = _unwrapped(source)
        case str() | os.PathLike():
            found = _unwrapped(_read(Path(source)))
        case _:
            hint = " Give its model: engine.model." if hasattr(type(source), "model") else ""
            hint = (
                " Write pn.load_weights(graph, source): the graph is first." if isinstance(source, NodeGraph) else hint
            )
            raise ArgumentError(
                "Weights come from an nn.Module, a state_dict, or the path of a .safetensors or .pt file, a package or a "
                f"checkpoint, not {shown(source)}.{hint}"
            )
    if not found:
        raise ArgumentError(f"{said_of(source)} holds no tensors by name, as a state_dict does.")
    return found


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of a module under all of their names, in the order of its ``state_dict``."""
    held = {name: each for name, each in module.state_dict(keep_vars=True).items() if isinstance(each, Tensor)}
    named = module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)
    return held | {name: tensor for each in named for name, tensor in each}


def said_of(source: object) -> str:
    """Return a source of weights in words."""
    match source:
        case nn.Module():
            return f"the {type(source).__name__}"
        case str() | os.PathLike():
            return Path(source).name
        case _:
            return "the state_dict"


def _unwrapped(held: object) -> dict[str, Tensor]:
    if not isinstance(held, Mapping):
        return {}
    tensors = {str(name): value for name, value in held.items() if isinstance(value, Tensor)}
    if tensors:
        return tensors
    inner = next((held[key] for key in _WRAPPED if isinstance(held.get(key), Mapping)), None)
    transient = held.get("transient")  # buffers that no state_dict has, in a file of pn.export
    return {} if inner is None else {**_unwrapped(inner), **(_unwrapped(transient) if transient else {})}


def _read(path: Path) -> Any:
    try:
        if path.is_dir():
            return _safetensors((path / PACKAGED).read_bytes())
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # a path that no file system can hold is a ValueError
        reason = error.strerror if isinstance(error, OSError) else None
        raise ArgumentError(f"{shown(str(path), 300)} cannot be read: {reason or shown(str(error))}.") from error
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if PACKAGED in archive.namelist():
                return _safetensors(archive.read(PACKAGED))
    elif content[8:9] == b"{":
        return _safetensors(content)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of damaged bytes, torch raises anything
        raise ArgumentError(
            f"{path.name} is no file of weights: it is damaged, or holds objects other than tensors. Load a file that you "
            "trust yourself, and give its state_dict: torch.load(path, weights_only=False)."
        ) from error


def _safetensors(content: bytes) -> dict[str, Tensor]:
    try:
        found = from_bytes(content)
    except TensorFileError as error:
        raise ArgumentError(f"This is no safetensors file: {shown(str(error))}.") from error
    own = {name.removeprefix(_CHECKPOINT): found[name] for name in found if name.startswith(_CHECKPOINT)}
    return own or found
