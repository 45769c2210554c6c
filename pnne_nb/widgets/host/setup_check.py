"""`check_setup`: what works in this environment, and what to do about the rest, in words."""

from __future__ import annotations

import importlib
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType
from typing import Any, Final, final

from IPython import get_ipython

from pnne_nb.process import __version__
from pnne_nb.widgets.host.bundle import bundled

PARTS_OF_THE_PAGE: Final = ("editor.js", "controls.js")
UNTESTED: Final = {"VS Code": "VSCODE_PID", "Colab": "COLAB_RELEASE_TAG"}
"""Hosts in which nobody has tested the widgets, with the variable of the environment that tells them."""
FREE: Final = (7,)
"""The version of ipykernel from which on buttons answer while a cell runs."""
_REQUIREMENT: Final = re.compile(
    r"([\w.-]+)(?:\[[^]]*\])?[^;]*?(?:>=([\d.]+))?[^;]*(?:;.*extra == ['\"]([\w-]+)['\"])?"
)


@dataclass(frozen=True)
class Checked:
    """One thing that was looked at.

    Attributes:
        what: Its name.
        found: What there is, in words.
        todo: What to do about it; empty if it works.
    """

    what: str
    found: str
    todo: str = ""


@final
@dataclass(frozen=True)
class SetupReport:
    """What works in an environment.

    Attributes:
        parts: What was looked at, in the order of the report.
    """

    parts: tuple[Checked, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is to be done. An extra that is not installed is nothing wrong."""
        return not any(part.todo for part in self.parts)

    def __repr__(self) -> str:
        todo = sum(bool(part.todo) for part in self.parts)
        answer = "Everything works here." if self.ok else f"{todo} of {len(self.parts)} parts need something done."
        lines = [f"{'to do' if part.todo else 'works'}  {part.what}: {part.found}" for part in self.parts]
        advice = [f"\n       {part.todo}" if part.todo else "" for part in self.parts]
        return "\n".join([answer, *map(str.__add__, lines, advice)])


def check_setup() -> SetupReport:
    """Look at what `pnne_nb` needs here: torch, a device, widgets, the browser part, extras.

    Nothing is installed or changed. Paste what it prints into a report of a problem.

    Returns:
        A report that says in its first line whether everything works. ``report.ok`` is that as a value.
    """
    try:
        torch: ModuleType | ImportError | OSError = importlib.import_module("torch")
    except (ImportError, OSError) as error:  # a library of a GPU that is missing is an OSError
        torch = error
    missing = missing_packages(metadata.requires("pnne_nb") or (), metadata.version)
    parts = (_software(missing.pop("", [])), *_torch(torch), _widgets(get_ipython()), _page(bundled), _extras(missing))
    return SetupReport(parts)


def missing_packages(requirements: Iterable[str], version: Callable[[str], str]) -> dict[str, list[str]]:
    """Return the packages that each extra lacks, under its name, and those that are always needed under ``""``.

    Args:
        requirements: As the metadata of a package list them, e.g. ``"onnx>=1.18; extra == 'onnx'"``.
        version: Returns the version of an installed package, or raises `PackageNotFoundError`.
    """
    lacks: dict[str, list[str]] = {"": []}
    for line in requirements:
        if (found := _REQUIREMENT.fullmatch(line)) is None:
            continue
        name, least, extra = found.groups()
        needed = lacks.setdefault(extra or "", [])
        try:
            if _numbers(version(name)) < _numbers(least or ""):
                needed.append(f"{name}>={least}")
        except metadata.PackageNotFoundError:
            needed.append(name)
    return lacks


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])[:3]))


def _software(missing: list[str]) -> Checked:
    found = f"{__version__}, Python {platform.python_version()}, {platform.system()}"
    return Checked("pnne_nb", found, f"pip install {' '.join(map(repr, missing))}" if missing else "")


def _torch(torch: Any) -> Iterator[Checked]:
    if isinstance(torch, Exception):
        yield Checked("torch", f"it cannot be imported: {torch}", "pip install --force-reinstall torch")
        return
    yield Checked("torch", torch.__version__)
    if torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        name = f", {torch.cuda.get_device_name()}" if accelerator.type == "cuda" else ""
        yield Checked("device", f"{accelerator.type}{name}")
    elif torch.version.cuda is not None:
        why = f"this torch is made for CUDA {torch.version.cuda} and finds no GPU; if there is one, nvidia-smi must list it"
        yield Checked("device", f"the CPU, {torch.get_num_threads()} threads ({why})")
    else:
        yield Checked("device", f"the CPU, {torch.get_num_threads()} threads (this torch has no CUDA)")


def _widgets(shell: Any) -> Checked:
    host = next((host for host, variable in UNTESTED.items() if variable in os.environ), None)
    if "marimo" in sys.modules:
        return Checked("widgets", "marimo shows them; clicks wait for the end of a cell")
    if shell is None or not hasattr(shell, "kernel"):
        todo = "Open a notebook: `jupyter lab`. Without one, `to_svg()` and `to_html()` of a widget give pictures."
        return Checked("widgets", "Python runs without a notebook, which shows widgets", todo)
    if host is not None:
        todo = "If the dashboard stays empty, open the notebook in JupyterLab: there, every widget is tested."
        return Checked("widgets", f"{host}, in which they are not tested. It loads some of them from a server", todo)
    version = metadata.version("ipykernel")
    if _numbers(version) < FREE:
        return Checked(
            "widgets", f"ipykernel {version}: buttons wait for the end of a cell", "pip install -U 'ipykernel>=7'"
        )
    return Checked("widgets", f"Jupyter, ipykernel {version}: buttons answer while a cell runs")


def _page(bundled: Callable[[str], str]) -> Checked:
    try:
        size = sum(len(bundled(name)) for name in PARTS_OF_THE_PAGE)
    except FileNotFoundError as error:
        return Checked("browser part", "not built", str(error))
    return Checked("browser part", f"built, {size / 1000:.0f} kB")


def _extras(missing: dict[str, list[str]]) -> Checked:
    whole = sorted(extra for extra, lacks in missing.items() if not lacks)
    rest = sorted(extra for extra, lacks in missing.items() if lacks)
    advice = f'. Not installed: {", ".join(rest)} (pip install "pnne_nb[{rest[0]}]")' if rest else ""
    return Checked("extras", f"{', '.join(whole) or 'none'}{advice}")
