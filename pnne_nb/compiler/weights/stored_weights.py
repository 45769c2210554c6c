"""Reads the tensors of a file of weights, whoever wrote it; no code in a file is run."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import ArgumentError, shown

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
        found = tensor_file.from_bytes(content)
    except tensor_file.TensorFileError as error:
        raise ArgumentError(f"This is no safetensors file: {shown(str(error))}.") from error
    own = {name.removeprefix(_CHECKPOINT): found[name] for name in found if name.startswith(_CHECKPOINT)}
    return own or found
