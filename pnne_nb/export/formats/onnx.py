"""Defines the ONNX format, which ONNX Runtime and many others run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.errors import Diagnostic, ExportError
from pnne_nb.export.formats.base import (
    METADATA_PREFIX,
    ExportFormat,
    ExportRequest,
    NodeTensor,
    TensorInfo,
    WrittenFile,
    summary,
)

_DTYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(bfloat16)": "bfloat16",
    "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(int16)": "int16", "tensor(int8)": "int8",
    "tensor(uint8)": "uint8", "tensor(bool)": "bool", "tensor(complex64)": "complex64",
}  # fmt: skip


_OPERATOR = re.compile(r"(?:Name:|node with name )'([^']*)'")
"""How ONNX Runtime names the operator that failed, or that it has no code for."""


@final
class OnnxFormat(ExportFormat):
    """ONNX, by torch's dynamo exporter."""

    name = "onnx"
    suffixes = (".onnx",)
    extra = "onnx"
    packages = ("onnx", "onnxscript", "onnxruntime")

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        from pnne_nb.export.formats.onnx_writer import write_onnx  # noqa: PLC0415  # a process that proves needs no torch

        _without_telemetry()  # torch's exporter may import ONNX Runtime
        return write_onnx(request, path)

    def node_tensors(self, path: Path) -> tuple[NodeTensor, ...]:
        import onnx  # noqa: PLC0415  # an extra

        from pnne_nb.export.formats.traced_program import Operation, leaving  # noqa: PLC0415  # as above

        graph = onnx.load(str(path)).graph
        operations = [Operation(_node(each), each.input, each.output) for each in graph.node]
        return tuple(leaving(operations, [value.name for value in graph.output]))

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> OnnxModel:
        return OnnxModel(path, watched, given)


@final
class OnnxModel:
    """An ONNX file in ONNX Runtime, on the CPU."""

    def __init__(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> None:
        _without_telemetry()
        import onnxruntime  # noqa: PLC0415  # an extra

        self._path = path
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what fails is raised as well
        model, added = _instrumented(path, watched, given) if watched or given else (str(path), 0)
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            foreign = f"{path.name} is no ONNX file that ONNX Runtime can run: {summary(error)}"
            raise self._failure(error) or ExportError(foreign) from error
        outputs = self._session.get_outputs()
        self.metadata: Mapping[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        self.inputs = tuple(map(_info, self._session.get_inputs()))
        self.outputs = tuple(map(_info, outputs[: len(outputs) - added]))

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        try:
            values = self._session.run(None, {info.name: inputs[info.name] for info in self.inputs})
        except Exception as error:
            raise self._failure(error) or ExportError(f"ONNX Runtime cannot run the file: {summary(error)}") from error
        return {value.name: found for value, found in zip(self._session.get_outputs(), values, strict=True)}

    def _failure(self, error: Exception) -> ExportError | None:
        """Return ONNX Runtime's error about an operator, at its node; None if it names no operator."""
        import onnx  # noqa: PLC0415  # an extra

        named = _OPERATOR.search(str(error))
        if named is None:
            return None
        operators = onnx.load(str(self._path), load_external_data=False).graph.node
        node = next((_node(each) for each in operators if each.name == named[1]), "")
        message = f"ONNX Runtime cannot run the file{f' at node {node!r}' if node else ''}: {summary(error)}"
        return ExportError(message, [Diagnostic("not-runnable", message, node or None)])

    def close(self) -> None:
        del self._session


def _without_telemetry() -> None:
    """Keep ONNX Runtime from starting telemetry, which uses the network, when it is imported.

    ``disable_telemetry_events`` comes too late: the import has left a file by then. A value that the user set is kept.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def _instrumented(path: Path, watched: Sequence[str], given: Sequence[str]) -> tuple[bytes, int]:
    """Return the file with further outputs and with some of its tensors as inputs, and the number of added outputs."""
    import onnx  # noqa: PLC0415  # an extra

    model = onnx.load(str(path))
    graph = model.graph
    known = {value.name: value for value in graph.value_info}
    present = {value.name for value in graph.output}
    added = [name for name in watched if name not in present]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in added)
    for name in given:
        maker = next(each for each in graph.node if name in each.output)
        graph.node.remove(maker)
        graph.input.append(known[name])
    return model.SerializeToString(), len(added)


def _node(operator: Any) -> str:
    return next((entry.value for entry in operator.metadata_props if entry.key == f"{METADATA_PREFIX}node"), "")


def _info(value: Any) -> TensorInfo:
    return TensorInfo(
        value.name, _DTYPES.get(value.type, value.type), tuple("" if s is None else s for s in value.shape)
    )
