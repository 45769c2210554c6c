"""A format of one's own is checked, written, proved, offered and opened as the others are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import pnne_nb as pn
from pnne_nb.export.formats import FORMATS
from pnne_nb.export.formats.base import ExportRequest, WholeProgram, WrittenFile


class Program(pn.ExportFormat):
    name, suffixes, outputs_only = "program", (".program.pt2",), "the file keeps no names of nodes"
    factor = 1.0

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        inputs = [
            (each.name, each.dtype, [*tensor.shape])
            for each, tensor in zip(request.inputs, request.example, strict=True)
        ]
        said = {"metadata": dict(request.metadata), "inputs": inputs, "outputs": [(request.outputs[0], "float32", [])]}
        program = torch.export.export(request.model, request.example)
        torch.export.save(program, path, extra_files={"said": json.dumps(said)})
        return WrittenFile()

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> WholeProgram:
        kept = {"said": ""}
        module = torch.export.load(path, extra_files=kept).module()
        return WholeProgram(json.loads(kept["said"]), lambda x: self.factor * module(x), "The program fails")


def net() -> pn.NodeGraph:
    return pn.sequential(("Linear", {"out_features": 3}), input=(4, 8))


def test_a_format_in_a_module_is_proved_in_its_own_process(tmp_path: Path) -> None:
    pn.register_format(Program)
    x = torch.randn(4, 8)
    report = pn.export(net(), tmp_path / "net.program.pt2", data=x)
    assert report.ok, str(report)
    assert "compared on data: equal within rounding" in str(report)
    assert pn.InferenceEngine.load(tmp_path / "net.program.pt2").predict(x).shape == (4, 3)


def test_a_format_of_a_notebook_is_proved_in_the_kernel_and_a_wrong_file_is_found(tmp_path: Path) -> None:
    pn.register_format(Program)
    wrong = type("Wrong", (Program,), {"factor": 2.0, "__module__": "__main__"})
    pn.register_format(wrong)  # running a cell again replaces it
    with pytest.warns(UserWarning, match=r"differs from the model with data: y: .* instead of"):
        report = pn.export(net(), tmp_path / "net.program.pt2", data=torch.randn(4, 8))
    assert not report.ok
    assert [format.name for format in FORMATS].count("program") == 1


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"name": "onnx"}, "cannot have 'onnx', which is that of 'onnx'"),
        ({"suffixes": (".onnx",)}, "cannot have '.onnx', which is that of 'onnx'"),
        ({"name": ""}, "Odd needs a name and suffixes"),
    ],
)
def test_what_another_format_has_cannot_be_taken(attributes: dict[str, object], said: str) -> None:
    with pytest.raises(pn.ArgumentError, match=said):
        pn.register_format(type("Odd", (Program,), attributes))


def test_what_is_no_format_is_refused() -> None:
    with pytest.raises(pn.ArgumentError, match=r"Register a subclass of pn.ExportFormat, not 'npz'"):
        pn.register_format("npz")  # type: ignore[type-var]  # which is the point
    with pytest.raises(pn.ArgumentError, match="Half lacks open and write"):
        pn.register_format(type("Half", (pn.ExportFormat,), {"name": "half", "suffixes": (".half",)}))
