"""`load`: opens a package without running code from it."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from pnne_nb.compiler.weights import tensor_file
from pnne_nb.compiler.weights.weight_source import keep_given
from pnne_nb.errors import CompileError, Diagnostic, GraphFileError, expect, shown
from pnne_nb.export.formats.model_state import ModelState, make_model
from pnne_nb.export.package import manifest as names
from pnne_nb.export.package.archive import read_package
from pnne_nb.export.package.manifest import Manifest
from pnne_nb.export.package.recorded_batches import RecordedBatch, deviation, run
from pnne_nb.graph.document import NodeGraph


class Package(NamedTuple):
    """An open package.

    Attributes:
        graph: The document.
        model: Compiled from it, with the weights of the package.
        manifest: What the package says of itself.
        batches: The recorded ones.
    """

    graph: NodeGraph
    model: nn.Module
    manifest: Manifest
    batches: list[RecordedBatch]


def load(path: str | Path, *, verify: bool = False) -> tuple[NodeGraph, nn.Module]:
    """Open a package of `save`. Every byte is checked against the digests, and no code in it is run.

    The weights come with their element types, ties, frozen flags and modes (train or eval), on the CPU unless nodes have
    devices of their own.

    Args:
        path: Of the package: a file or a folder.
        verify: Whether the model is run on the recorded batches, and compared with the recorded outputs. That is done in
            any case if the graph has custom node types, whose code comes from elsewhere.

    Raises:
        GraphFileError: If the package is damaged, hostile, or from a newer version; the message names the part.
        CompileError: If node types of the graph are not registered here.
        ArgumentError: If `path` is no path.
    """
    package = open_package(path, verify=verify)
    return package.graph, package.model


def open_package(path: str | Path, *, verify: bool = False) -> Package:
    """Open a package as `load` does, and return it with its manifest and batches."""
    expect(path, (str, os.PathLike), "path", "the path of a package")
    place = shown(str(path), 400)
    manifest, parts = read_package(Path(path))
    for name in (names.GRAPH, names.STATE, names.WEIGHTS, names.BATCHES, names.CHECK):
        if name not in parts:
            raise GraphFileError(f"{place}: the part {name!r} is missing.")
    if parts[names.CHECK] != check_text() and hashlib.sha256(parts[names.CHECK]).hexdigest() not in _EARLIER_CHECKS:
        raise GraphFileError(f"{place}: {names.CHECK} is not the script that pnne_nb writes. Do not run it.")
    try:
        graph = NodeGraph.from_json(parts[names.GRAPH])
    except GraphFileError as error:
        raise GraphFileError(f"{place}: {names.GRAPH}: {error}") from error
    _require_types(graph, place)
    state = ModelState.from_json(parts[names.STATE], f"{place}: {names.STATE}")
    model = make_model(
        graph, _unpacked(parts[names.WEIGHTS], f"{place}: {names.WEIGHTS}"), state, f"{place}: {names.WEIGHTS}"
    )
    keep_given(graph, model, f"the package {Path(path).name}")
    batches = _batches(_unpacked(parts[names.BATCHES], f"{place}: {names.BATCHES}"), manifest)
    package = Package(graph, model, manifest, batches)
    if (verify or manifest.custom_types) and not manifest.record.random:
        _require_outputs(package, place)
    return package


def check_text() -> bytes:
    """Return the script that every package contains."""
    return resources.files(__package__ or "").joinpath("integrity.py").read_bytes()


_EARLIER_CHECKS: frozenset[str] = frozenset()
"""Digests of the scripts that earlier versions have written."""


def _require_types(graph: NodeGraph, place: str) -> None:
    found = [each for each in graph.diagnostics() if each.code == "unknown-type"]
    if found:
        types = sorted({graph[each.node].type for each in found if each.node})
        raise CompileError(
            f"{place} has nodes of types that are not registered here: {', '.join(map(repr, types))}. Register their classes "
            "with @pn.register_node, then load the package again.",
            [Diagnostic(code=each.code, message=each.message, node=each.node, hint=each.hint) for each in found],
        )


def _unpacked(content: bytes, place: str) -> dict[str, torch.Tensor]:
    try:
        return tensor_file.from_bytes(content)
    except tensor_file.TensorFileError as error:
        raise GraphFileError(f"{place} is no safetensors file: {shown(str(error))}.") from error


def _batches(tensors: Mapping[str, torch.Tensor], manifest: Manifest) -> list[RecordedBatch]:
    order = [one.name for one in manifest.inputs]
    found = []
    for index in range(min(manifest.record.batches, len(tensors))):
        given, made = (
            {name.split(".", 2)[2]: value for name, value in tensors.items() if name.startswith(f"{index}.{kind}.")}
            for kind in ("input", "output")
        )
        outputs = [made[number] for number in sorted(filter(str.isdecimal, made), key=int)]
        if sorted(given) != sorted(order) or not outputs:
            raise GraphFileError(f"{names.BATCHES}: the recorded batches are not of the inputs {', '.join(order)}.")
        found.append(RecordedBatch({name: given[name] for name in order}, outputs))
    return found


def _require_outputs(package: Package, place: str) -> None:
    modes = {path: module.training for path, module in package.model.named_modules()}
    package.model.eval()
    try:
        for index, batch in enumerate(package.batches):
            found = run(package.model, list(batch.inputs.values()))
            worst = max(
                (deviation(one, other) for one, other in zip(found, batch.outputs, strict=False)), default=math.inf
            )
            if len(found) != len(batch.outputs) or not worst <= package.manifest.record.tolerance:
                raise GraphFileError(
                    f"{place}: the model gives other outputs than were recorded, in batch {index + 1} by {worst:.2g} of the "
                    f"largest ({package.manifest.record.tolerance:.2g} allowed). Is a custom node type another one here?"
                )
    finally:
        for path, module in package.model.named_modules():
            module.training = modes[path]
