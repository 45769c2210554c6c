"""A real JupyterLab and a headless Chromium, and the gestures of a person in a notebook."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, final

import nbformat
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--force-color-profile=srgb",
)  # fmt: skip
NO_CHROMIUM = (
    "The browser tests need Chromium, and none was found. Install it (sudo apt-get install chromium), "
    "or set PNNE_CHROMIUM to the path of a Chromium or Chrome."
)
START_SECONDS = 120.0
CELL_SECONDS = 120.0
PAGE_SECONDS = 60.0
"""Generous: CI machines are slow and shared, and the first shapes after an import take seconds."""

Theme = Literal["light", "dark"]

# The open notebook panel, as the rest of this file calls it.
PANEL = "const app = window.jupyterapp; const panel = app.shell.currentWidget; const notebook = panel.content;"


def chromium_path() -> str:
    """Return the path of the browser to test with; fail the test, never skip it, if there is none."""
    chosen = os.environ.get("PNNE_CHROMIUM")
    candidates = [chosen] if chosen else [shutil.which(name) for name in CHROMIUM_NAMES]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    pytest.fail(NO_CHROMIUM, pytrace=False)


@final
class LabServer:
    """A JupyterLab server on a free port, with settings and files of its own; a context manager.

    Args:
        directory: Where its notebooks live; settings and logs go to a hidden folder inside.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._private = directory / ".jupyter"
        self._log = self._private / "jupyter.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.token = ""

    def __enter__(self) -> LabServer:
        runtime = self._private / "runtime"
        runtime.mkdir(parents=True)
        self._write_setting("apputils-extension", "notification", {"fetchNews": "false"})
        if tuple(map(int, version("jupyterlab").split(".")[:2])) < (4, 6):
            # Older ones, 4.2 among them, take cells that are out of view off the page, where no test finds them.
            self._write_setting("notebook-extension", "tracker", {"windowingMode": "none"})
        environment = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(self._private / "config"),
            "JUPYTER_RUNTIME_DIR": str(runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(self._private / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self._private / "workspaces"),
            "IPYTHONDIR": str(self._private / "ipython"),
            "JUPYTER_PLATFORM_DIRS": "1",
        }
        ARTIFACTS.mkdir(exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0",
                    "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={self.directory}",
                    "--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True",
                    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                ],
                env=environment, cwd=self.directory, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not self.url:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                pytest.fail(f"JupyterLab did not start. It said:\n{self._log.read_text()}", pytrace=False)
            for file in runtime.glob("jpserver-*.json"):
                try:
                    info = json.loads(file.read_text())
                except ValueError:
                    continue  # being written
                self.url, self.token = info["url"], info["token"]
            time.sleep(0.05)
        return self

    def _write_setting(self, extension: str, plugin: str, values: dict[str, object]) -> None:
        folder = self._private / "settings" / "@jupyterlab" / extension
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{plugin}.jupyterlab-settings").write_text(json.dumps(values))

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@final
class Notebook:
    """One notebook, open in JupyterLab, driven as a person would; a context manager that closes its page.

    Args:
        server: The server that serves it.
        browser: The browser to open it in.
        path: Path inside the server's directory.
        size: Width and height of the window in CSS pixels.
        interface: ``"lab"`` for JupyterLab, ``"notebook"`` for Notebook 7, of the same server.
    """

    def __init__(
        self,
        server: LabServer,
        browser: Browser,
        path: str,
        size: tuple[int, int] = (1400, 1000),
        interface: Literal["lab", "notebook"] = "lab",
    ) -> None:
        self.path = path
        self.directory = server.directory
        self._context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(PAGE_SECONDS * 1000)
        self.console_errors: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.console_errors.append(str(error)))
        place = "lab/tree" if interface == "lab" else "notebooks"
        self.page.goto(f"{server.url}{place}/{path}?reset&token={server.token}")
        self._wait_until_open()

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(Error):  # the page may have gone already; the server ends the kernel when it stops
            self.screenshot(f"last-of-{Path(self.path).stem}")
            self.end_kernel()
        self._context.close()

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            place = message.location.get("url", "").partition("?")[0]
            is_named = not message.text.startswith("Failed to load resource")
            self.console_errors.append(message.text if is_named else f"{message.text}: {place}")

    def _evaluate(self, body: str, argument: object = None) -> Any:
        return self.page.evaluate(f"async (argument) => {{ {PANEL} {body} }}", argument)

    def _wait_until_open(self) -> None:
        self.page.wait_for_function(
            f"""(path) => {{
                if (!window.jupyterapp || !window.jupyterapp.shell.currentWidget) return false;
                {PANEL}
                const session = panel.sessionContext;
                return session !== undefined && panel.context.path === path && session.isReady
                    && notebook.widgets.length > 0 && session.session?.kernel?.status === 'idle';
            }}""",
            arg=self.path,
            timeout=START_SECONDS * 1000,
        )

    # Cells

    def run(self, code: str, *, wait: bool = True) -> int:
        """Append a cell with `code`, run it, and return its index; fail the test if it raises.

        Args:
            code: Python source.
            wait: Whether to wait until the cell has ended.
        """
        index: int = self._evaluate(
            """
            notebook.activeCellIndex = notebook.widgets.length - 1;
            const last = notebook.activeCell.model.sharedModel;
            if (last.getSource() !== '' || last.cell_type !== 'code')
                await app.commands.execute('notebook:insert-cell-below');
            notebook.activeCell.model.sharedModel.setSource(argument);
            return notebook.activeCellIndex;
            """,
            code,
        )
        self.run_cell(index, wait=wait)
        return index

    def write_cell(self, index: int, code: str) -> None:
        """Put other code into the cell at `index`."""
        self._evaluate(
            "notebook.widgets[argument.index].model.sharedModel.setSource(argument.code); return true;",
            {"index": index, "code": code},
        )

    def delete_cell(self, index: int) -> None:
        """Take the cell at `index` away."""
        self._evaluate("notebook.model.sharedModel.deleteCell(argument); return true;", index)

    def run_cell(self, index: int, *, wait: bool = True) -> None:
        """Run the cell at `index`; fail the test if it raises."""
        self._evaluate(
            """
            notebook.activeCellIndex = argument.index;
            const done = app.commands.execute('notebook:run-cell');
            if (argument.wait) await done;
            """,
            {"index": index, "wait": wait},
        )
        if wait:
            self.raise_error(index)

    def run_all(self) -> None:
        """Run every cell in order."""
        for index in range(self._evaluate("return notebook.widgets.length;")):
            self.run_cell(index)

    @contextmanager
    def busy_cell(self, then: str = "", *, meanwhile: str = "time.sleep(0.01)") -> Iterator[int]:
        """Keep the kernel busy for as long as the block takes, with a cell whose index it is given.

        For what is clicked meanwhile: with ipykernel 6, that waits for the end of the cell, and the test ends here.

        Args:
            then: What the cell does at its end.
            meanwhile: What it does again and again until then.
        """
        if int(version("ipykernel").partition(".")[0]) < 7:
            pytest.skip(
                "With ipykernel 6, clicks wait for the end of the cell (tests/widgets/host/test_comms.py shows it)."
            )
        busy = self.directory / "busy"
        cell = self.run(
            f"import os, time\nopen('busy', 'w').close()\nwhile os.path.exists('busy'): {meanwhile}\n{then}", wait=False
        )
        try:
            self.wait_until(busy.exists, "The cell has not begun.")
            yield cell
            assert self.is_running(cell), "The cell has ended before: this shows nothing."
        finally:
            busy.unlink(missing_ok=True)
        self.wait_for_cell(cell)

    def find_cell(self, text: str) -> int:
        """Return the index of the first cell that contains `text`."""
        index: int = self._evaluate(
            "return notebook.widgets.findIndex(cell => cell.model.sharedModel.getSource().includes(argument));", text
        )
        assert index >= 0, f"No cell contains {text!r}."
        return index

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """Return the outputs of a code cell as the file will hold them."""
        outputs: list[dict[str, Any]] = self._evaluate(
            "return notebook.widgets[argument].outputArea?.model.toJSON() ?? [];", index
        )
        return outputs

    def text(self, index: int) -> str:
        """Return what a cell has printed and its plain-text result."""
        parts = []
        for output in self.outputs(index):
            content = output.get("text") or output.get("data", {}).get("text/plain", "")
            parts.append(content if isinstance(content, str) else "".join(content))
        return "".join(parts)

    def raise_error(self, index: int) -> None:
        """Fail the test if the cell at `index` has raised."""
        for output in self.outputs(index):
            if output["output_type"] == "error":
                trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output["traceback"]))
                pytest.fail(f"Cell {index} raised {output['ename']}: {output['evalue']}\n{trace}", pytrace=False)

    def output_area(self, index: int) -> Locator:
        """Return the output area of a cell, brought into view."""
        self.scroll_to(index)
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")

    def scroll_to(self, index: int) -> None:
        """Bring a cell into view: JupyterLab takes cells far away out of the page."""
        self._evaluate("notebook.activeCellIndex = argument; await notebook.scrollToItem(argument, 'start');", index)

    # Kernel

    def is_running(self, index: int) -> bool:
        """Whether the cell at `index` is waiting or running.

        The kernel's own status does not tell: it is idle for a moment after each button that it answers meanwhile.
        """
        return bool(self._evaluate("return notebook.widgets[argument].model.executionState === 'running';", index))

    def wait_for_cell(self, index: int, seconds: float = CELL_SECONDS) -> None:
        """Wait until the cell at `index` has ended; fail the test if it raised."""
        self.page.wait_for_function(
            f"index => {{ {PANEL} return notebook.widgets[index].model.executionState !== 'running'; }}",
            arg=index,
            timeout=seconds * 1000,
        )
        self.raise_error(index)

    def end_kernel(self) -> None:
        """End the kernel; who opens the notebook afterwards gets another one."""
        self._evaluate("await panel.sessionContext.shutdown(); return true;")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a Python expression in the kernel, a literal; leaves no cell behind."""
        reply = self._evaluate(
            """
            const future = panel.sessionContext.session.kernel.requestExecute(
                {code: '', silent: true, store_history: false, user_expressions: {answer: `repr(${argument})`}});
            return (await future.done).content.user_expressions.answer;
            """,
            expression,
        )
        assert reply["status"] == "ok", f"{expression}: {reply.get('ename')}: {reply.get('evalue')}"
        return ast.literal_eval(ast.literal_eval(reply["data"]["text/plain"]))

    def wait_for(self, expression: str) -> Any:
        """Wait until a Python expression in the kernel is true; return its value."""
        return self.wait_until(lambda: self.evaluate(expression), f"{expression} is not true.")

    # Page

    def wait_until(self, condition: Callable[[], Any], otherwise: str, seconds: float = 2 * PAGE_SECONDS) -> Any:
        """Wait until something is true that only this process can tell; return it."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"{otherwise} ({seconds:.0f} seconds have passed.)"
            self.page.wait_for_timeout(50)
        return value

    def collapse_sidebar(self) -> None:
        """Hide the file browser."""
        self._evaluate("app.shell.collapseLeft(); return true;")

    def save(self) -> None:
        """Save the notebook."""
        self._evaluate("await app.commands.execute('docmanager:save'); return true;")

    def reload(self) -> None:
        """Save, reload the page, and wait until the notebook is there again; the kernel lives on."""
        self.save()
        self.page.reload()
        self._wait_until_open()

    def set_theme(self, theme: Theme) -> None:
        """Switch JupyterLab to its light or dark theme."""
        self._evaluate(
            "await app.commands.execute('apputils:change-theme', {theme: argument}); return true;",
            f"JupyterLab {theme.title()}",
        )
        light = "true" if theme == "light" else "false"
        self.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def screenshot(self, name: str, target: Locator | None = None) -> Path:
        """Keep a picture of `target`, or of the window, as ``tests/artifacts/<name>.png``."""
        path = ARTIFACTS / f"{name}.png"
        if target is None:
            self.page.screenshot(path=path)
        else:
            target.screenshot(path=path)
        return path


@contextmanager
def served(command: Sequence[str], folder: Path, *, ready: str) -> Iterator[str]:
    """Run the server of a Python module in `folder` until its log says that it is ready; give its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path, environment = folder / "server.log", os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with path.open("w") as log:
        run = [sys.executable, "-m", *command, f"--port={port}"]
        server = subprocess.Popen(run, cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            deadline = time.monotonic() + 120
            while ready not in (said := path.read_text()):
                assert server.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(20)


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of code cells."""
    document = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]  # nbformat leaves it untyped
        cells=[nbformat.v4.new_code_cell(source) for source in cells] or [nbformat.v4.new_code_cell("")],  # type: ignore[no-untyped-call]  # nbformat leaves it untyped
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(document, path)  # type: ignore[no-untyped-call]  # nbformat leaves it untyped
