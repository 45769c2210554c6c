"""Exported programs of torch (``torch.export``), which torch runs without the code of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.errors import ExportError
from pnne_nb.export.formats.base import (
    CONTENT,
    ExportFormat,
    ExportRequest,
    NodeTensor,
    WrittenFile,
    as_array,
    as_tensor,
    summary,
    tensor_infos,
)


@final
class Pt2Format(ExportFormat):
    """An exported program, by ``torch.export``."""

    name = "pt2"
    suffixes = (".pt2",)
    runs_code = True

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        from pnne_nb.export.formats.pt2_writer import write_pt2  # noqa: PLC0415  # torch is imported late

        return write_pt2(request, path)

    def node_tensors(self, path: Path) -> tuple[NodeTensor, ...]:
        _, content = _load(path)
        return tuple(NodeTensor(tensor, node) for tensor, node in content["nodes"])

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> Pt2Model:
        return Pt2Model(path, watched, given)


@final
class Pt2Model:
    """An exported program in torch, on the CPU."""

    def __init__(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> None:
        program, content = _load(path)
        self.metadata: Mapping[str, str] = content["metadata"]
        self.inputs = tensor_infos(content["inputs"])
        self.outputs = tensor_infos(content["outputs"])
        self._module = program.module()
        self._watched, self._given = frozenset(watched), frozenset(given)

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        import torch  # noqa: PLC0415  # this module is imported before it is known which runtime is needed

        arguments = [as_tensor(inputs[info.name], info.dtype) for info in self.inputs]
        values: dict[str, Any] = {}
        try:
            with torch.no_grad():
                if self._watched or self._given:
                    given = {name: torch.from_numpy(inputs[name]) for name in self._given}
                    found = _watching(self._module, self._watched, given, values, arguments)
                else:
                    found = self._module(*arguments)
        except Exception as error:
            raise ExportError(f"torch cannot run the exported program: {summary(error)}") from error
        outputs = torch.utils._pytree.tree_leaves(found)
        values.update(zip((info.name for info in self.outputs), outputs, strict=True))
        return {name: as_array(value) for name, value in values.items() if isinstance(value, torch.Tensor)}

    def close(self) -> None:
        del self._module


def _watching(
    module: Any, watched: frozenset[str], given: Mapping[str, Any], values: dict[str, Any], arguments: Sequence[Any]
) -> Any:
    """Run a program operation by operation, record watched tensors in `values`, and use given tensors instead of computing."""
    import torch  # noqa: PLC0415  # as above

    class Watching(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = given[n.name] if n.name in given else super().run_node(n)
            if n.name in watched:
                values[n.name] = value.clone() if isinstance(value, torch.Tensor) else value
            return value

    return Watching(module).run(*arguments)


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    import torch  # noqa: PLC0415  # as above

    extra = {CONTENT: ""}
    try:
        program = torch.export.load(path, extra_files=extra)
        return program, json.loads(extra[CONTENT])
    except Exception as error:
        raise ExportError(f"{path.name} is no exported program that pnne_nb wrote: {summary(error)}") from error
