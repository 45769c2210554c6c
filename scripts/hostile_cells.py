"""Run hostile cells beside a training in a real kernel, and compare every loss with an undisturbed run's.

    python scripts/hostile_cells.py [CELLS] [SEED] [--process]

Takes the cells of tests/runtime/hostile_cells.py in a random order, a tenth of them interrupted after a moment. After each
cell, the kernel must answer and the training must go on. Exits with 1 if a cell crashed the kernel, hung it or the training,
if one loss differs in one bit, if nobody is told of a cell that changes a training by torch, or somebody of one that does not.
What docs/explanation/threads.md names as unseen is counted, and may differ. With --process, the training is in a process
of its own, and no cell may change it.
"""

from __future__ import annotations

import contextlib
import queue
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.runtime.hostile_cells import CELLS, FOUND, FRESH, INTERRUPTED, SETUP, SILENT, TOLD, UNSEEN  # noqa: E402  found by the line above

SECONDS = 90.0
"""After which a cell, or a training that makes no step, counts as hung."""


class Kernel:
    """A kernel with a training in it."""

    def __init__(self, setup: str) -> None:
        self.manager = KernelManager()
        self.manager.start_kernel(cwd=str(ROOT))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(60)
        self.run(setup)

    def run(self, code: str, interrupt_after: float | None = None) -> tuple[str, str]:
        """How a cell has ended (ok, error, hung, dead), and what it has printed or raised."""
        asked = self.client.execute(code)
        began = time.monotonic()
        text = ""
        interrupts = lost = 0
        while True:
            now = time.monotonic() - began
            # Python only prints an interrupt that comes in a destructor, any library's: a person presses again.
            if interrupt_after is not None and now > interrupt_after and interrupts <= lost:
                self.manager.interrupt_kernel()
                interrupts += 1
            if now > SECONDS:
                return "hung", text
            try:
                message = self.client.get_iopub_msg(timeout=0.02)
            except queue.Empty:
                if not self.manager.is_alive():
                    return "dead", text
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            content: dict[str, Any] = message["content"]
            match message["msg_type"]:
                case "stream":
                    text += content["text"]
                    lost = text.count("\nKeyboardInterrupt")
                case "execute_result":
                    text += content["data"]["text/plain"]
                case "error":
                    text += f"{content['ename']}: {content['evalue']}"
                    lost += text.startswith("Error in callback")  # IPython prints it, and runs the cell
                case "status" if content["execution_state"] == "idle":
                    return self.reply(asked), text

    def reply(self, asked: str) -> str:
        """How a cell has ended, or "error" if the interrupt came after its end: the kernel forgets its reply then."""
        with contextlib.suppress(queue.Empty):
            while (reply := self.client.get_shell_msg(timeout=5))["parent_header"]["msg_id"] != asked:
                pass
            return str(reply["content"]["status"])
        return "error"

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


PROGRESS = "if e.state == 'paused': e.resume()\nprint(e.progress.step, e.state, e.error, e.waiting_for)"
"""An interrupted cell may leave the training halted, as it was told to."""


def goes_on(kernel: Kernel) -> tuple[int, str]:
    """The step of the training after a cell, and what is wrong with it, if anything."""
    began, first = time.monotonic(), None
    while time.monotonic() - began < SECONDS:
        how, text = kernel.run(PROGRESS)
        if how != "ok":
            return 0, f"asked for its progress, the kernel is {how}: {text}"
        step, state, *rest = text.split(maxsplit=2)
        first = first if first is not None else int(step)
        if state not in {"running", "paused"}:
            return 0, f"the training is {state}: {rest}"
        if int(step) > first:
            return int(step), ""
    return 0, f"the training makes no step: {text}"


SAVE = """
e.pause()
state = {name: tensor.numpy() for name, tensor in e.model.state_dict().items()}
np.savez(PATH, losses=e.history["loss"], **state)
e.stop()
"""


def undisturbed(setup: str, steps: int, path: Path) -> None:
    """Save losses and weights after so many steps in a process where nothing else happens."""
    code = f"{setup}\ne.step({steps})\n{SAVE.replace('PATH', repr(str(path)))}".replace("e.start()", "")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def difference(found: Path, expected: Path, ended: list[tuple[int, str]]) -> str:
    """Where two trainings differ, if they do: the step, and the cells that ran then."""
    with np.load(found) as one, np.load(expected) as other:
        steps = np.flatnonzero(one["losses"] != other["losses"])
        if len(steps):
            first = int(steps[0]) + 1
            number = sum(step < first for step, _ in ended)
            ran = [name for _, name in ended[max(0, number - 1) : number + 1]]
            return f"different from step {first} on, which was made in {' or after '.join(reversed(ran))}"
        names = [name for name in one if not np.array_equal(one[name], other[name])]
        return f"different in {', '.join(names)}" if names else ""


class Cell(NamedTuple):
    """A cell to run.

    Attributes:
        interrupt_after: Seconds, or None.
        becomes: What is to become of a training of its own: ``told``, ``same``, ``any``, or an empty string if it has none.
    """

    name: str
    code: str
    interrupt_after: float | None = None
    becomes: str = ""


def cells_in_order(count: int, seed: int, *, process: bool) -> list[Cell]:
    """So many of all cells, each as often as the others."""
    draw, found = random.Random(seed), list[Cell]()
    while len(found) < count:
        some = [Cell(name, code) for name, code in CELLS.items()]
        some += [Cell(f"{name}, interrupted", code, draw.uniform(0.05, 0.4)) for name, code in INTERRUPTED.items()]
        some += [Cell(f"{name}, written", code, None, "same" if process else "told") for name, code in TOLD.items()]
        some += [Cell(f"{name}, past torch", code, None, "same" if process else "any") for name, code in SILENT.items()]
        some += [Cell(f"{name}, unseen", code, None, "same" if process else "any") for name, code in UNSEEN.items()]
        draw.shuffle(some)
        found += some
    return found[:count]


def of_its_own(kernel: Kernel, cell: Cell) -> str:
    """What is wrong after a cell that has a training of its own, if anything."""
    for part in (FRESH, cell.code, FOUND):
        how, text = kernel.run(part)
        if how != "ok":
            return f"{how}: {text}"
    if cell.becomes in {text.strip(), "any"}:
        return "unseen" if cell.name.endswith(", unseen") and text.strip() != "same" else ""
    return f"its training is {text.strip()}, and should be {cell.becomes}"


TELLINGS = "print(*[frame.message for frame in e.history.anomalies if 'has changed' in frame.message])"


def main(count: int, seed: int, *, process: bool) -> int:
    """Run so many cells; returns the exit status."""
    setup = SETUP.replace("e.start()", "e.start(process=True)") if process else SETUP
    kernel = Kernel(setup)
    began, ended, silent, unseen = time.monotonic(), list[tuple[int, str]](), 0, list[str]()
    harmless = 0
    for number, cell in enumerate(cells_in_order(count, seed, process=process), 1):
        if cell.becomes:
            how, text, step = "ok", "", 0
            wrong = of_its_own(kernel, cell)
            harmless += cell.name.endswith(", unseen")
            if wrong == "unseen":
                unseen.append(cell.name)
                wrong = ""
            if wrong.startswith("its training"):
                print(f"{number}: {cell.name}: {wrong}", flush=True)
                wrong, silent = "", silent + 1
        else:
            harmless += 1
            how, text = kernel.run(cell.code, cell.interrupt_after)
            wrong = f"{how}: {text}" if how in {"hung", "dead"} else ""
        if not wrong:
            step, wrong = goes_on(kernel)
        if wrong:
            print(f"{number}: {cell.name}: {wrong}", flush=True)
            kernel.close()
            return 1
        ended.append((step, cell.name))
        if how == "error" and cell.interrupt_after is None and "on purpose" not in text:
            print(f"{number}: {cell.name}: the cell itself failed: {text[:200]}", flush=True)
    tellings = kernel.run(TELLINGS)[1].strip()
    seconds = time.monotonic() - began
    with tempfile.TemporaryDirectory() as place:
        found, expected = Path(place) / "found.npz", Path(place) / "expected.npz"
        # The last of the interrupts may come only now.
        paused = kernel.run("e.pause(); late.join() if 'late' in globals() else None")
        saved = kernel.run(SAVE.replace("PATH", repr(str(found))))
        kernel.close()
        if saved[0] != "ok":
            print(f"after the last cell: {paused}, {saved}", flush=True)
            return 1
        with np.load(found) as file:
            steps = len(file["losses"])
        undisturbed(setup, steps, expected)
        differs = difference(found, expected, ended)
    if tellings:
        print(f"Told of cells that change nothing: {tellings}")
    print(f"Of {harmless} cells that mean to change nothing, {len(unseen)} have: {', '.join(unseen) or 'none'}")
    print(f"{count} cells in {seconds:.0f} s beside {steps} steps: {differs or 'bit-identical'}")
    return 1 if differs or tellings or silent else 0


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    sys.exit(main(*(numbers + [300, 1][len(numbers) :]), process="--process" in sys.argv))
