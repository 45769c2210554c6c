"""`check_setup`: a first line that answers, and at each part that does not work what to do."""

from __future__ import annotations

import importlib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pnne_nb as pn
from pnne_nb.widgets.host import bundle, setup_check
from pnne_nb.widgets.host.setup_check import Checked, SetupReport, missing_packages

ROOT = Path(__file__).parents[3]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of JupyterLab, as the check sees it."""
    monkeypatch.setattr(setup_check, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    for variable in setup_check.UNTESTED.values():
        monkeypatch.delenv(variable, raising=False)


def part(what: str) -> Checked:
    return next(each for each in pn.check_setup().parts if each.what == what)


@pytest.mark.usefixtures("notebook")
def test_the_environment_of_the_tests_works() -> None:
    report = pn.check_setup()
    assert report.ok
    assert repr(report).startswith("Everything works here.\nworks  pnne_nb: ")
    assert [each.what for each in report.parts] == ["pnne_nb", "torch", "device", "widgets", "browser part", "extras"]
    assert "lab" in part("extras").found


def test_the_answer_counts_what_is_to_be_done() -> None:
    report = SetupReport((Checked("torch", "2.13.0"), Checked("widgets", "none", "Open a notebook.")))
    assert not report.ok
    assert repr(report) == (
        "1 of 2 parts need something done.\nworks  torch: 2.13.0\nto do  widgets: none\n       Open a notebook."
    )


def test_without_a_notebook_it_says_how_to_open_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_check, "get_ipython", lambda: None)
    assert part("widgets").todo.startswith("Open a notebook: `jupyter lab`.")


@pytest.mark.usefixtures("notebook")
def test_a_host_that_nobody_has_tested_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLAB_RELEASE_TAG", "1")
    assert part("widgets").found.startswith("Colab, in which they are not tested")
    assert "JupyterLab" in part("widgets").todo


@pytest.mark.usefixtures("notebook")
def test_an_old_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "6.31.0" if name == "ipykernel" else "99")
    assert part("widgets").todo == "pip install -U 'ipykernel>=7'"


def test_a_torch_that_cannot_be_imported_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise OSError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", broken)
    assert part("torch").found == "it cannot be imported: libcudart.so.13: cannot open shared object file"
    assert part("torch").todo == "pip install --force-reinstall torch"


@pytest.mark.parametrize(
    ("cuda", "words"), [("13.0", "made for CUDA 13.0 and finds no GPU; if there is one, nvidia-smi"), (None, "no CUDA")]
)
def test_a_device_is_named(cuda: str | None, words: str) -> None:
    torch = SimpleNamespace(
        __version__="2.13.0",
        accelerator=SimpleNamespace(is_available=lambda: False),
        version=SimpleNamespace(cuda=cuda),
        get_num_threads=lambda: 2,
    )
    _, device = setup_check._torch(torch)
    assert words in device.found
    assert not device.todo


def test_an_accelerator_is_named() -> None:
    torch = SimpleNamespace(
        __version__="2.13.0",
        accelerator=SimpleNamespace(
            is_available=lambda: True, current_accelerator=lambda: SimpleNamespace(type="cuda")
        ),
        cuda=SimpleNamespace(get_device_name=lambda: "H100"),
    )
    assert [each.found for each in setup_check._torch(torch)] == ["2.13.0", "cuda, H100"]


def test_a_browser_part_that_is_not_built_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    assert "make front-end" in part("browser part").todo


def test_packages_are_missing_or_too_old() -> None:
    installed = {"torch": "2.9.1+cpu", "numpy": "2.0.0", "onnx": "1.20"}

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    lines = ["torch>=2.11", "numpy>=1.26", "msgspec", "onnx>=1.18; extra == 'onnx'", 'voila>=0.5.8; extra == "voila"']
    assert missing_packages(lines, version) == {"": ["torch>=2.11", "msgspec"], "onnx": [], "voila": ["voila"]}


def test_templates_of_issues_ask_for_it_first() -> None:
    for template in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"):
        body = template.read_text(encoding="utf-8").split("---\n")[2].lstrip()
        assert body.startswith("**What `import pnne_nb as pn; pn.check_setup()` prints**"), template.name
