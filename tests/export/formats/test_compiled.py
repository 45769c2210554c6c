"""Formats whose files a compiler makes: ExecuTorch, and AOTInductor in Python and C++."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

import pnne_nb as pn
from pnne_nb.export import formats
from pnne_nb.export.formats import executorch
from tests.export.kinds import cnn, mlp

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def one_thread() -> Iterator[None]:
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


@pytest.mark.usefixtures("one_thread")
def test_executorch_takes_more_samples_than_it_was_traced_with(tmp_path: Path) -> None:
    model = pn.compile(cnn())
    x = torch.randn(40, 1, 28, 28)
    report = pn.export(model, tmp_path / "net.pte", data=x)
    assert report.ok
    assert str(report.sizes["N"]) == "N free, up to 1024"
    opened = formats.open(report.path)
    torch.testing.assert_close(torch.from_numpy(opened.run({"x": x.numpy()})["y"]), model.eval()(x).detach())
    opened.close()
    loaded = pn.InferenceEngine.load(report.path, device="cpu")
    torch.testing.assert_close(loaded.predict(x), model(x).detach())
    loaded.close()


@pytest.mark.usefixtures("one_thread")
def test_executorch_tells_how_many_samples_the_program_has_memory_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executorch, "MANY", 1)  # as for a model that takes no more than a few samples at once
    report = pn.export(pn.compile(cnn()), tmp_path / "net.pte")
    assert report.ok
    assert str(report.sizes["N"]) == "N free, up to 15"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_aoti_in_python_and_in_the_example_in_c(tmp_path: Path) -> None:
    model = pn.compile(mlp())
    report = pn.export(model, tmp_path / "net.aoti.pt2")
    assert report.ok
    page = (Path(__file__).parents[3] / "docs" / "export.md").read_text(encoding="utf-8")
    example = re.search(r"```cpp\n(.*?)```", page, re.DOTALL)
    assert example is not None
    source, program = tmp_path / "run.cpp", tmp_path / "run"
    source.write_text(example[1], encoding="utf-8")
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    folders = cpp_extension.library_paths()
    command = ["g++", "-std=c++20", abi, str(source), "-o", str(program)]
    command += [f"-I{folder}" for folder in cpp_extension.include_paths()]
    command += [flag for folder in folders for flag in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    command += ["-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(command, check=True)
    done = subprocess.run([str(program), str(report.path)], check=True, capture_output=True, text=True)
    with torch.no_grad():
        expected = float(model.eval()(torch.ones(2, 8)).sum())
    assert float(done.stdout) == pytest.approx(expected, abs=1e-4)
