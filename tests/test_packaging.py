"""What is published: the wheel's and the sdist's contents and metadata, and the recipes for environments."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its types are a package of their own
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist; the browser bundle was built before."""
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--sdist",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    [path] = built.glob("*.whl")
    return zipfile.ZipFile(path)


def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_the_wheel_holds_the_package_and_its_bundle_alone(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"pnne_nb/py.typed", *(f"pnne_nb/widgets/static/{file}" for file in ("editor.js", "controls.js"))} <= names
    assert {name.partition("/")[0] for name in names} == {"pnne_nb", f"pnne_nb-{PROJECT['version']}.dist-info"}
    sources = {f"pnne_nb/{path.relative_to(ROOT / 'pnne_nb').as_posix()}" for path in (ROOT / "pnne_nb").rglob("*.py")}
    assert sources <= names
    assert not any("__pycache__" in name or name.endswith(".map") for name in names)


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    found = metadata(wheel)
    assert found["Author"] == "pnne_nb contributors"
    assert found["License-Expression"] == "MIT"
    assert found["Requires-Python"] == PROJECT["requires-python"]
    assert "Typing :: Typed" in found.get_all("Classifier", [])
    assert found.get_all("Project-URL") is None  # there is none to name yet
    assert set(found.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_the_sdist_holds_what_a_contributor_needs(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "CONTRIBUTING.md", "CHANGELOG.md", "README.md", "LICENSE", "Makefile", "Dockerfile", "environment.yml",
        ".devcontainer/devcontainer.json", ".importlinter", "docs/limits.md", "docs/hosts.md", "js/package.json",
        "scripts/check_wheel.py", "tests/test_packaging.py", "pnne_nb/py.typed",
    } <= names  # fmt: skip
    assert not any("node_modules" in name or "artifacts" in name for name in names)


def test_conda_installs_what_pip_installs() -> None:
    recipe = yaml.safe_load((ROOT / "environment.yml").read_text())
    named = {
        Requirement(line).name: Requirement(line).specifier for line in recipe["dependencies"] if isinstance(line, str)
    }
    assert named["python"] == SpecifierSet(PROJECT["requires-python"])
    [pip] = [part["pip"] for part in recipe["dependencies"] if isinstance(part, dict)]
    assert "-e .[lab]" in pip


def test_the_image_has_a_python_and_a_torch_that_are_allowed() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    steps = [line.partition(" ")[::2] for line in lines if line and not line.startswith(("#", " "))]
    assert steps[0][0] == "FROM"
    assert {step for step, _ in steps} <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "CMD"}
    image = re.fullmatch(r"python:([\d.]+)-slim", steps[0][1])
    assert image is not None
    assert Version(image[1]) in SpecifierSet(PROJECT["requires-python"])
    [torch] = [Requirement(line) for line in PROJECT["dependencies"] if Requirement(line).name == "torch"]
    assert f'"{torch}"' in "\n".join(lines)
    users = [value for step, value in steps if step == "USER"]
    assert users == ["person"]  # nothing runs as root
    command = json.loads(next(value for step, value in steps if step == "CMD"))
    assert (ROOT / command[-1]).exists()


@pytest.mark.timeout(1800)
def test_the_image_is_built_where_docker_is() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("Docker does not run here: the recipe is only read, by the tests beside this one.")
    subprocess.run([docker, "build", "--tag", "pnne_nb-tested", str(ROOT)], check=True)
    use = [docker, "run", "--rm", "pnne_nb-tested", "python", "-c", "import pnne_nb as pn; pn.GraphEditor()"]
    subprocess.run(use, check=True)


def test_the_devcontainer_is_made_of_the_image() -> None:
    folder = ROOT / ".devcontainer"
    container = json.loads((folder / "devcontainer.json").read_text())
    assert (folder / container["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / container["build"]["context"]).resolve() == ROOT
    assert container["remoteUser"] == "person"


@pytest.mark.parametrize("file", ["README.md", "Dockerfile", "environment.yml", ".devcontainer/devcontainer.json"])
def test_every_extra_that_is_named_exists(file: str) -> None:
    text = (ROOT / file).read_text()
    for names in re.findall(r"(?:pnne_nb|\.)\[([a-z,]+)\]", text):
        assert set(names.split(",")) <= set(PROJECT["optional-dependencies"])
