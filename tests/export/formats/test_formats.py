"""Every format writes a file that its own runtime opens, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import pnne_nb as pn
from pnne_nb.export import formats
from tests.export.kinds import draw, linear, mlp

NOTES = {
    "onnx": "",
    "pt2": "Opening an exported program can run code",
    "safetensors": "pn.InferenceEngine.load makes the model again",
    "pt": "pn.InferenceEngine.load makes the model again",
    "torchscript": "its successors are 'pt2', and 'aoti' for C++",
}


@pytest.mark.parametrize("name", NOTES)
def test_what_is_written_is_proved_opened_and_loaded(name: str, tmp_path: Path) -> None:
    model = pn.compile(mlp())
    found = formats.find_format(name, "")
    path = tmp_path / f"net{found.suffixes[0]}"
    report = pn.export(model, path)
    assert report.ok
    assert report.format == name
    assert [each.what for each in report.comparisons] == ["N=1", "N=2", "N=7", "example"]
    assert str(report.sizes["N"]).startswith("N free")
    assert NOTES[name] in " ".join(report.notes)
    compared = [each.node for each in report.nodes.values() if each.difference is not None]
    assert compared == (["fc1", "act", "fc2"] if name in ("onnx", "pt2") else [])
    assert ("Only outputs were compared, because" in " ".join(report.notes)) == (not compared)
    opened = formats.open(path)
    x = torch.randn(4, 8)
    expected = model.eval()(x).detach()
    (y,) = opened.run({"x": x.numpy()}).values()
    torch.testing.assert_close(torch.from_numpy(y), expected)
    assert opened.inputs[0].name == "x"
    assert opened.outputs[0].name == "y"
    assert "pnne_nb.version" in opened.metadata
    opened.close()
    loaded = pn.InferenceEngine.load(path, device="cpu", trust=found.runs_code)
    torch.testing.assert_close(loaded.predict(x), expected)
    loaded.close()


@pytest.mark.parametrize("name", ["onnx", "pt2", "torchscript", "executorch"])
def test_a_foreign_file_is_refused(name: str, tmp_path: Path) -> None:
    found = formats.find_format(name, "")
    path = tmp_path / f"net{found.suffixes[0]}"
    path.write_bytes(b"something else")
    with pytest.raises(pn.ExportError, match=r"net\.\w+ is no "):
        formats.open(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(pn.ExportError, match="There is no file"):
        formats.open(tmp_path / "net.onnx")


def test_the_longest_end_wins() -> None:
    assert formats.find_format("auto", "net.pt2").name == "pt2"
    assert formats.find_format("auto", "NET.AOTI.PT2").name == "aoti"


def test_onnx_runtime_is_opened_without_torch_and_without_telemetry(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, pnne_nb.export.proof.run_file\n"
        "from pnne_nb.export.formats.onnx import OnnxModel\n"
        "try: OnnxModel(pathlib.Path('missing.onnx'))\n"
        "except Exception: sys.exit('torch' in sys.modules or 'onnxruntime' not in sys.modules)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    assert not list(tmp_path.iterdir())  # telemetry keeps a file there


def test_a_size_can_be_fixed_and_limited(tmp_path: Path) -> None:
    graph = draw("net", (("Input", "x", {"shape": ("N", "T", 8)}), linear("fc", 8, 2), ("Output", "y")), "x fc y")
    report = pn.export(graph, tmp_path / "net.pt2", sizes={"N": 4, "T": (2, 20)})
    assert formats.open(report.path).inputs[0].shape == (4, "T", 8)
    assert str(report.sizes["T"]) == "T free, from 2, up to 20"
    with pytest.raises(pn.ExportError, match="torch cannot run the exported program"):
        formats.open(report.path).run({"x": np.zeros((4, 30, 8), np.float32)})
