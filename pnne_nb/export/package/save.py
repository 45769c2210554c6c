"""`save`: writes a graph and its model as a package without code, with checksums and recorded outputs."""

from __future__ import annotations

import json
import math
import os
import platform
import stat
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from pnne_nb.catalog.custom import is_custom
from pnne_nb.compiler import infer_shapes, to_source
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import CompileError, ExportError, GraphFileError, PnneError, answers_misuse, expect, shown
from pnne_nb.export.formats.base import TensorInfo, numbered_axes
from pnne_nb.export.formats.model_state import ModelState, make_model, read_state, require_closed
from pnne_nb.export.package import integrity as checking
from pnne_nb.export.package import manifest as names
from pnne_nb.export.package.archive import write_package
from pnne_nb.export.package.load import check_text, open_package
from pnne_nb.export.package.manifest import FORMAT, FORMAT_VERSION, Manifest, Record
from pnne_nb.export.package.recorded_batches import RecordedBatch, RecordedRun, record, run
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.process import __version__
from pnne_nb.process.atomic_file import file_at
from pnne_nb.telemetry.series import Curves

_ADVICE = "Give the model that pn.compile(graph) made, or pn.compile(graph, reuse=model) after an edit."


@runtime_checkable
class TrainingSource(Protocol):
    """A trained model's training, such as a ``TrainingEngine``."""

    @property
    def history(self) -> Curves: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...


@answers_misuse('pn.save(graph, model, "net.pnne"); graph.save("net.pnne.json") keeps the graph alone')
def save(
    graph: NodeGraph,
    model: nn.Module,
    path: str | Path,
    *,
    data: Any = None,
    training: TrainingSource | Curves | None = None,
    classes: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    onnx: str | Path | None = None,
    sign: str | Path | None = None,
    overwrite: bool = False,
) -> Path:
    """Save a graph and its model as a package: data only, checked when it is written and when it is opened.

    The package has the graph, weights with ties, buffers and frozen flags, versions, recorded batches with the outputs
    that the model gives for them in eval mode, a model card with the picture of the graph, the model's source to be read,
    a script ``check.py`` that needs numpy and onnxruntime only, and the SHA-256 digest of each part.
    It is read back, compiled and run on the recorded batches before it takes its place.

    Args:
        graph: What the model was compiled from.
        model: It is not changed; while it is trained, halt the training (``with engine.paused():``).
        path: A name with a suffix, such as ``"net.pnne"``, is one file (a zip file without compression); one without is
            a folder.
        data: Batches to record from: arrays, a tuple of arrays in the order of the inputs, a mapping from their names, a
            Dataset or a DataLoader, whose target is left out; at most 2 batches of 8 examples are kept. None makes them
            from the shapes of the Input nodes.
        training: The engine, or its history: metrics and plain arguments are kept.
        classes: Names of the classes, in the order of the model's scores.
        config: What else is worth keeping, as JSON values.
        onnx: An ONNX file of the same model (`pn.export`), which the package carries, and ``check.py`` runs.
        sign: A private key in PEM format, with which OpenSSF model-signing signs the package, beside it, as
            ``<path>.sig``.
        overwrite: Whether a package that is there is replaced.

    Returns:
        Where the package is.

    Raises:
        ExportError: If something cannot be kept as data (opaque nodes are named), graph and model do not belong together,
            or the package cannot be written.
        CompileError: If the graph is unfinished.
        ArgumentError: If an argument is of another kind.
    """
    expect_graph(graph)
    expect(model, nn.Module, "model", "the model that was compiled from the graph")
    expect(path, (str, os.PathLike), "path", "the path of the package")
    expect(onnx, (str, os.PathLike, NoneType), "onnx", "the path of an ONNX file")
    target = Path(path)
    _require_place(target, overwrite=overwrite)
    if sign is not None:
        _require_signing(Path(sign))
    require_closed(graph)
    tensors, state = read_state(model)
    try:
        recorded = record(graph, model, data)
    except PnneError:
        _require_model_of(graph, tensors, state)
        raise
    inputs, outputs = _signature(graph, recorded.batches[0])
    source = _source(graph)
    metrics = _metrics(training)
    manifest = Manifest(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        name=graph.name,
        versions={"pnne_nb": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
        inputs=inputs,
        outputs=outputs,
        record=Record(len(recorded.batches), recorded.random, recorded.tolerance),
        classes=_checked_classes(classes, recorded.batches[0]),
        custom_types=_custom_types(graph),
        config=_checked_config(
            {**(training.arguments if isinstance(training, TrainingSource) else {}), **(config or {})}
        ),
    )
    last = {
        name: curve["values"][-1]
        for name, curve in metrics.items()
        if curve["values"] and curve["values"][-1] is not None
    }
    count = sum(tensor.numel() for tensor in tensors.values())
    card = write_card(manifest, last, count, has_source=source is not None, proved=onnx is not None)
    parts = {
        names.CARD: card.encode(),
        names.PICTURE: graph.to_svg(theme="light").encode(),
        names.GRAPH: graph.to_json().encode(),
        names.STATE: state.to_json().encode(),
        names.WEIGHTS: _packed(tensors),
        names.BATCHES: _packed(_named(recorded)),
        names.CHECK: check_text(),
        **({names.METRICS: json.dumps(metrics, sort_keys=True).encode()} if metrics else {}),
        **({names.SOURCE: source.encode()} if source is not None else {}),
        **({names.ONNX: _onnx(Path(onnx))} if onnx is not None else {}),
    }
    write_package(target, manifest, parts, lambda written: _prove(written, target, recorded, has_onnx=onnx is not None))
    if sign is not None:
        _sign(target, Path(sign))
    return target


def _require_model_of(graph: NodeGraph, tensors: Mapping[str, torch.Tensor], state: ModelState) -> None:
    try:
        make_model(graph, tensors, state, "The model")
    except GraphFileError as error:
        raise ExportError(f"Graph and model do not belong together. {error} {_ADVICE}") from error


def _require_place(path: Path, *, overwrite: bool) -> None:
    place = repr(str(path))
    try:
        found = file_at(path)
    except OSError as error:
        raise ExportError(f"{place} cannot be written: {error.strerror or error}.") from error
    if found is None:
        if not path.parent.is_dir():
            raise ExportError(f"There is no directory {shown(str(path.parent))} for {place}.")
        return
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise ExportError(f"{place} is a device or a pipe, and not replaced. Choose another path.")
    if not overwrite:
        raise ExportError(f"{place} is there already. Pass overwrite=True to replace it, or choose another path.")
    if stat.S_ISDIR(found.st_mode) and not (path / names.MANIFEST).is_file():
        raise ExportError(f"The folder {place} is no package, and is not replaced. Choose another path.")


def _signature(graph: NodeGraph, batch: RecordedBatch) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """Return the model's inputs and outputs from the document, or else from a recorded batch."""
    shapes = infer_shapes(graph)
    feeds = {edge.target: edge.source for edge in graph.edges}

    def info(name: str, value: torch.Tensor, port: str | None) -> TensorInfo:
        spec = shapes.get(port or "")
        if spec is not None:
            return TensorInfo(name, spec.dtype, spec.shape)
        return TensorInfo(name, str(value.dtype).removeprefix("torch."), ("?",) * value.dim())

    inputs = tuple(info(name, value, f"{name}.output") for name, value in batch.inputs.items())
    names = [node.name for node in graph.nodes.values() if node.type == "Output"]
    if len(names) != len(batch.outputs):
        names = [f"output_{index}" for index, _ in enumerate(batch.outputs)]
        feeds = {}
    pairs = zip(names, batch.outputs, strict=True)
    return inputs, tuple(info(name, value, feeds.get(f"{name}.input")) for name, value in pairs)


def _source(graph: NodeGraph) -> str | None:
    """Return the model's source for reading, unless a user's class has none."""
    try:
        return to_source(graph)
    except CompileError:
        return None


def _metrics(training: TrainingSource | Curves | None) -> dict[str, dict[str, list[Any]]]:
    if training is None:
        return {}
    history = training.history if isinstance(training, TrainingSource) else training
    found: dict[str, dict[str, list[Any]]] = {}
    for name in history:
        steps, values = history.points(name)
        numbers = [value if math.isfinite(value) else None for value in values.tolist()]
        found[name] = {"steps": steps.tolist(), "values": numbers}
    return found


def _checked_classes(classes: Sequence[str] | None, batch: RecordedBatch) -> tuple[str, ...] | None:
    if classes is None:
        return None
    found = tuple(classes)
    if isinstance(classes, str) or not all(isinstance(name, str) for name in found):
        raise ExportError(f"classes must be the names of the classes, not {shown(classes)}.")
    scores = batch.outputs[0]
    count = scores.shape[1] if scores.dim() > 1 else None
    if len(batch.outputs) != 1 or count is None or (count != len(found) and (count, len(found)) != (1, 2)):
        raise ExportError(
            f"There are {len(found)} classes, and the model gives "
            f"{f'scores for {count}' if count is not None else 'no scores of classes'}."
        )
    return found


def _checked_config(config: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in config.items():
        try:
            expect(name, str, "config", "values by name")
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ExportError(f"config[{shown(name)}] cannot be kept: {shown(value)} is no JSON value.") from error
    return json.loads(json.dumps(dict(config)))  # type: ignore[no-any-return]  # as it will be read


def _custom_types(graph: NodeGraph) -> tuple[str, ...]:
    """Return the user-registered node types of a graph, in order."""
    used = {node.type for inner in graph.state().graphs.values() for node in inner.nodes}
    specs = {name: registry.listed(name) for name in used}
    return tuple(sorted(name for name, spec in specs.items() if spec is not None and is_custom(spec)))


def _packed(tensors: Mapping[str, torch.Tensor]) -> bytes:
    try:
        return tensor_file.to_bytes(tensors)
    except tensor_file.TensorFileError as error:
        raise ExportError(f"The package cannot be written: {error}.") from error


def _named(recorded: RecordedRun) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for index, batch in enumerate(recorded.batches):
        found |= {f"{index}.input.{name}": value.contiguous() for name, value in batch.inputs.items()}
        found |= {f"{index}.output.{number}": value.clone() for number, value in enumerate(batch.outputs)}
    return found


def _onnx(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ExportError(f"The ONNX file {str(path)!r} cannot be read: {error.strerror or error}.") from error


def _prove(path: Path, target: Path, recorded: RecordedRun, *, has_onnx: bool) -> None:
    """Open the written package, and compare it with the model."""
    try:
        model = open_package(path).model.eval()
    except GraphFileError as error:
        raise ExportError(
            f"Graph and model do not belong together. {str(error).replace(str(path), target.name)} {_ADVICE}"
        ) from error
    for index, batch in enumerate(recorded.batches):
        found = difference(run(model, list(batch.inputs.values())), batch.outputs)
        if found:
            raise ExportError(
                f"The graph does not compute what the model does: in batch {index + 1}, {found}. {_ADVICE}"
            )
    if has_onnx:
        try:
            checking.checked(path)
        except ImportError as error:
            raise ExportError("An ONNX file is compared by onnxruntime: pip install 'pnne_nb[onnx]'") from error
        except PnneError:
            raise
        except Exception as error:  # onnxruntime's own errors derive from nothing in common
            raise ExportError(f"The ONNX file is not of this model: {error}") from error


def _require_signing(key: Path) -> None:
    """Raise an error if OpenSSF model-signing is not installed, or there is no such key."""
    if find_spec("model_signing") is None:
        raise ExportError(
            "sign needs OpenSSF model-signing, which is not installed: pip install model-signing pyopenssl"
        )
    if not key.is_file():
        raise ExportError(
            f"sign must be the path of a private key in PEM format, and there is no file {shown(str(key))}."
        )


def _sign(path: Path, key: Path) -> None:
    """Sign a package; `model_signing verify key PATH --signature PATH.sig --public_key ...` checks it."""
    try:
        config = import_module("model_signing.signing").Config()
        config.use_elliptic_key_signer(private_key=key).sign(path, path.with_name(f"{path.name}.sig"))
    except Exception as error:  # of a foreign package
        raise ExportError(f"{str(path)!r} was written, but cannot be signed: {error}") from error


def write_card(
    manifest: Manifest, metrics: Mapping[str, float], parameters: int, *, has_source: bool, proved: bool
) -> str:
    """Return the text of the card.

    Args:
        manifest: Of the package.
        metrics: The last value of each metric of the training.
        parameters: How many numbers the weights have.
        has_source: Whether the package has the model's source.
        proved: Whether the package carries an ONNX file.
    """
    lines = [
        f"# {_cell(manifest.name)}",
        "",
        f"![The graph of {_cell(manifest.name)}]({names.PICTURE})",
        "",
        f"A PyTorch model with {parameters:,} parameters, drawn with pnne_nb.",
        "",
        "## Inputs and outputs",
        "",
        "| | name | element type | shape |",
        "|---|---|---|---|",
        *(f"| input | {_cell(one.name)} | {one.dtype} | {_shape(one.shape)} |" for one in manifest.inputs),
        *(f"| output | {_cell(one.name)} | {one.dtype} | {_shape(one.shape)} |" for one in manifest.outputs),
        "",
    ]
    if fixed := numbered_axes(manifest.inputs):
        lines += [f"Fixed sizes: {_cell(', '.join(map(str, fixed)))}.", ""]
    if manifest.classes:
        lines += [f"Classes, in order: {', '.join(_cell(name) for name in manifest.classes)}.", ""]
    if metrics:
        lines += ["## Training", "", "| metric | last value |", "|---|---|"]
        lines += [*(f"| {_cell(name)} | {value:.6g} |" for name, value in metrics.items()), ""]
    if manifest.config:
        lines += ["## Configuration", "", "| | |", "|---|---|"]
        lines += [*(f"| {_cell(name)} | {_cell(str(value))} |" for name, value in manifest.config.items()), ""]
    lines += [
        "## Use",
        "",
        "```python",
        "import pnne_nb as pn",
        "",
        f'graph, model = pn.load("{manifest.name}.pnne")',
        "```",
        "",
    ]
    if manifest.custom_types:
        lines += [
            f"Not part of pnne_nb are the node types {', '.join(manifest.custom_types)}.",
            "Register them with `@pn.register_node` before.",
            "",
        ]
    if has_source:
        lines += [
            f"`{names.SOURCE}` is the model as plain PyTorch, to be read; opening the package does not run it.",
            "",
        ]
    compares = "the digests and the recorded outputs" if proved else "the digests; the package carries no ONNX file"
    lines += [
        "## Check",
        "",
        f"`python {names.CHECK}` in the unpacked folder, or `python {names.CHECK} PACKAGE`, compares {compares}.",
        "",
        "## Versions",
        "",
        ", ".join(f"{name} {version}" for name, version in manifest.versions.items()),
        "",
    ]
    return "\n".join(lines)


def _shape(shape: tuple[int | str, ...]) -> str:
    return _cell(f"({', '.join(map(str, shape))})")


def _cell(text: str) -> str:
    """Return a text escaped for a table cell."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    for letter in "\\|<>&`*_[]":
        plain = plain.replace(letter, f"\\{letter}")
    return plain
