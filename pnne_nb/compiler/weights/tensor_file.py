"""Converts a training's state to named tensors and a JSON text, and back, without anything that could run code."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from pnne_nb.errors import CheckpointError

_TAG = "$"
"""The key of an object in the JSON text that stands for something else than a dict with text keys."""


def pack(state: Mapping[str, Any]) -> tuple[str, dict[str, Tensor]]:
    """Split `state` into a JSON text and tensors.

    The tensors are on the CPU, each with memory of its own, by their place: ``"loop.model.conv1.weight"``.

    Args:
        state: Numbers, texts, None, tensors, and dicts, lists, tuples and sets of them.

    Raises:
        CheckpointError: Something else is in it; the message names the place.
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
                raise CheckpointError(f"A checkpoint cannot hold {place}, a {type(value).__name__}.")

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
            raise CheckpointError(f"A checkpoint cannot hold {place}, a tensor of layout {tensor.layout}.")
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
    raise CheckpointError(f"A checkpoint cannot hold {place}, a {type(value).__name__}.")


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
