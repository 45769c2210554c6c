"""What a test may leave behind, counted before and after it: whatever opens, closes, and switches are set back."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

GRACE = 30.0
"""Seconds that a closed thread or process has for ending."""

# Threads of the libraries, which live as long as the process.
LIBRARY_THREADS = (
    "IPythonHistorySavingThread",
    "asyncio_",
    "pytest_timeout",
    "Dummy-",
    "Thread-IOPub",
    "IOPub",
    "tqdm_monitor",
)
# Processes that serve all tests: the server of trainings, the standard library's and torch's helpers.
LIBRARY_PROCESSES = ("pnne_nb.server", "resource_tracker", "forkserver", "compile_worker")
# Files of libraries that stay for later tests.
LIBRARY_FILES = ("torchinductor_", "torchelastic_", "pymp-", "pytest-of-")
# Set by libraries when they are first used, by pytest, and to keep ONNX Runtime from sending telemetry.
LIBRARY_VARIABLES = (
    "PYTEST_CURRENT_TEST", "CUBLAS_WORKSPACE_CONFIG", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "ORT_DISABLE_TELEMETRY",
    "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",
)  # fmt: skip
# The rooms whose hooks are only for a while; those of a compiled model are a part of it.
WATCHING = ("pnne_nb.inspector", "pnne_nb.runtime", "pnne_nb.widgets", "pnne_nb.inference")
# What stands between torch's `register_…` and its caller where a cell is watched.
PASSING_ON = ("pnne_nb.runtime.thread.cell_mode", "torch.overrides", "torch._tensor", "torch._dynamo.eval_frame")

_hooks: list[tuple[weakref.ref[Any], int, str]] = []
"""Of each hook that one of the watching rooms has registered in this test: where it is kept, its key, and who did it."""
_generators: dict[str, tuple[Any, Any]] = {}
"""Torch's default generator, in both places, when it was first looked at."""


def open_widgets() -> dict[str, Any]:
    """The widgets of any library that are open, by their model's id."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    return module._instances if module is not None else {}


def note_hooks() -> Callable[[], None]:
    """From now on, note every hook that is registered; returns what ends that. Without torch, there are none."""
    if "torch" not in sys.modules:
        return lambda: None
    from torch.utils.hooks import RemovableHandle  # noqa: PLC0415  # as above

    original = RemovableHandle.__init__

    def noted(self: RemovableHandle, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        original(self, hooks_dict, extra_dict=extra_dict)
        # This function, torch's `register_…`, its caller.
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__") in PASSING_ON:
            frame = frame.f_back
        assert frame is not None
        name = frame.f_globals.get("__name__", "")
        if name.startswith(WATCHING):
            _hooks.append((self.hooks_dict_ref, self.id, f"{name}:{frame.f_lineno}"))

    RemovableHandle.__init__ = noted  # type: ignore[method-assign]  # for the time of the tests

    def end() -> None:
        RemovableHandle.__init__ = original  # type: ignore[method-assign]  # as above

    return end


class State(NamedTuple):
    """What there is at one moment."""

    threads: frozenset[threading.Thread]
    processes: frozenset[psutil.Process]
    files: frozenset[Path]
    variables: dict[str, str]
    switches: dict[str, object]
    widgets: frozenset[str]
    comms: frozenset[str]


def now() -> State:
    """What there is now; hooks are counted from now on."""
    _hooks.clear()
    files, variables = frozenset(Path(tempfile.gettempdir()).iterdir()), dict(os.environ)
    return State(
        frozenset(threading.enumerate()),
        _children(),
        files,
        variables,
        _switches(),
        frozenset(open_widgets()),
        _open_comms(),
    )


def _open_comms() -> frozenset[str]:
    """The lines to pages that this process has open; those of widgets are among them."""
    comm = sys.modules.get("comm")
    return frozenset(comm.get_comm_manager().comms) if comm is not None else frozenset()


def _children() -> frozenset[psutil.Process]:
    try:
        # To list processes takes milliseconds, and most tests have none.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    return frozenset(psutil.Process().children())


def _switches() -> dict[str, object]:
    """Torch's switches that count for the whole process, or for this thread, which runs every test."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    generators = torch.default_generator, torch.random.default_generator
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "deterministic algorithms": torch.get_deterministic_debug_mode(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "TF32 in cudnn": torch.backends.cudnn.allow_tf32,
        "TF32 in matmul": torch.get_float32_matmul_precision(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "torch functions seen": torch._C._is_torch_function_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        "number of threads": torch.get_num_threads(),
        "anomaly mode": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "default generator": generators == _generators.setdefault("first", generators),
        "hooks of all modules": [
            len(hooks)
            for name, hooks in vars(torch.nn.modules.module).items()
            if name.startswith("_global_") and hasattr(hooks, "keys")
        ],
    }


def left_since(before: State) -> list[str]:
    """What a test has left behind, in words; waits for what is about to end."""
    return [
        *_threads(before),
        *_processes(before),
        *_files(before),
        *_variables(before),
        *_leftover_hooks(),
        *_widgets(before),
    ] + [
        f"torch's {name} is {after}, and was {before.switches[name]}"
        for name, after in _switches().items()
        if before.switches and after != before.switches[name]
    ]


def _threads(before: State) -> Iterator[str]:
    def left() -> list[threading.Thread]:
        return [
            thread
            for thread in threading.enumerate()
            if thread not in before.threads
            and not thread.name.startswith(LIBRARY_THREADS)
            and thread is not threading.current_thread()
            and not isinstance(thread, threading._DummyThread)  # started by native code, e.g. autograd
        ]

    deadline = time.monotonic() + GRACE
    for thread in left():
        thread.join(max(0.0, deadline - time.monotonic()))
    frames = sys._current_frames()
    for thread in left():
        frame = frames.get(thread.ident or 0)
        where = (
            ""
            if frame is None
            else " < ".join(
                f"{call.name} ({Path(call.filename).name}:{call.lineno})"
                for call in reversed(traceback.extract_stack(frame))
            )
        )
        yield f"the thread {thread.name}, in {where}"


def _processes(before: State) -> Iterator[str]:
    def is_ours(process: psutil.Process) -> bool:
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            return False
        return not any(name in command for name in LIBRARY_PROCESSES)

    found = [process for process in _children() - before.processes if is_ours(process)]
    if found:
        _, alive = psutil.wait_procs(found, GRACE)
        yield from (f"the process {process}" for process in alive)


def _files(before: State) -> Iterator[str]:
    def left() -> set[Path]:
        found = set(Path(tempfile.gettempdir()).iterdir()) - before.files
        return {path for path in found if not path.name.startswith(LIBRARY_FILES)}

    if left():
        gc.collect()  # files that go with their owner
        yield from (f"the file {path}" for path in sorted(left()))


def _variables(before: State) -> Iterator[str]:
    now = dict(os.environ)
    if now != before.variables:
        names = {name for name, _ in now.items() ^ before.variables.items()} - {*LIBRARY_VARIABLES}
        yield from (f"another value of the environment variable {name}" for name in sorted(names))


def _widgets(before: State) -> Iterator[str]:
    """Widgets of any library, which ipywidgets keeps until they are closed, and comms that belong to none."""
    left = {id: widget for id, widget in open_widgets().items() if id not in before.widgets}
    if left:
        kinds = Counter(type(widget).__name__ for widget in left.values())
        yield f"open widgets ({', '.join(f'{count} {name}' for name, count in sorted(kinds.items()))})"
    loose = _open_comms() - before.comms - left.keys()
    if loose:
        yield f"{len(loose)} open comms of no widget"


def _leftover_hooks() -> Iterator[str]:
    def left() -> list[str]:
        return [place for kept_in, key, place in _hooks if key in (kept_in() or ())]

    if left():
        gc.collect()  # models in circles of references are gone for whoever uses them
    yield from (f"a hook, registered at {place}, on a model that lives" for place in left())
