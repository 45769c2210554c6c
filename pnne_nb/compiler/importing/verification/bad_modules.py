"""Refuses modules that cannot be imported at all: they contain themselves, end the program, or never return."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import NoneType
from typing import Final, final

from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from pnne_nb.compiler.importing.draft.source_lines import line_of
from pnne_nb.compiler.importing.tracing.call_site import failed_at
from pnne_nb.errors import ArgumentError, CompileError, expect, shown

IMPORTER = "pnne_nb.compiler.importing.importer"
"""The module that calls the imported code: frames beyond it belong to the caller of the import."""

AGAIN = 1.0
"""Seconds after which code that has caught an interrupt is interrupted again."""


def refuse_cycles(net: nn.Module) -> None:
    """Refuse a module that is a part of itself.

    Raises:
        CompileError: If it is.
    """
    done: set[int] = set()
    pending: list[tuple[nn.Module, bool]] = [(net, False)]
    above: set[int] = set()
    while pending:
        module, leaving = pending.pop()
        if leaving:
            above.discard(id(module))
            done.add(id(module))
        elif id(module) in above:
            raise CompileError(f"{type(net).__name__} contains itself: a {type(module).__name__} is inside itself.")
        elif id(module) not in done:
            above.add(id(module))
            pending.append((module, True))
            pending += [(child, False) for child in module._modules.values() if child is not None]


_CALLED: Final = frozenset(
    ("apply", "buffers", "children", "eval", "forward", "get_buffer", "get_parameter", "get_submodule", "modules",
     "named_buffers", "named_children", "named_modules", "named_parameters", "parameters", "requires_grad_", "state_dict",
     "to", "train", "zero_grad")
)  # fmt: skip
"""Methods without which no module can be walked, trained or copied. A tensor ``self.half`` is no hindrance."""


def refuse_hidden(net: nn.Module) -> None:
    """Refuse a module that has something else under the name of a method that torch itself calls.

    Raises:
        CompileError: If it has, such as a list ``self.modules``.
    """
    pending = [net]
    while pending:
        module = pending.pop()
        pending += [child for child in module._modules.values() if child is not None]
        for name, value in vars(module).items():
            if name in _CALLED and not callable(value):
                raise CompileError(
                    f"{type(net).__name__} cannot be imported: in a {type(module).__name__}, self.{name} is a "
                    f"{type(value).__name__}, which hides torch's method {name}(). Give the attribute another name."
                )


def refuse_lazy(net: nn.Module) -> None:
    """Refuse a module with parameters that the first call makes.

    Raises:
        CompileError: If it has such.
    """
    for path, module in net.named_modules():
        tensors = [*module._parameters.values(), *module._buffers.values()]
        if any(isinstance(tensor, (UninitializedBuffer, UninitializedParameter)) for tensor in tensors):
            raise CompileError(
                f"{type(net).__name__} cannot be imported yet: the parameters of {path or 'it'}, a "
                f"{type(module).__name__}, have no shape before the first call. Call the module once, then import it."
            )


@contextmanager
def told_if_it_ends_or_hangs(net: nn.Module, seconds: float | None) -> Iterator[None]:
    """Raise an error if code of a module ends the program in this block, or runs longer than `seconds`.

    An interrupt by a person goes through.

    Raises:
        ArgumentError: If `seconds` is no time.
        CompileError: If the code ends the program or runs too long.
    """
    expect(seconds, (int, float, NoneType), "timeout", "a number of seconds, or None")
    if seconds is not None and not seconds > 0:
        raise ArgumentError(f"timeout must be a number of seconds above 0, or None, not {shown(seconds)}.")
    name = type(net).__name__
    limit = None if seconds is None else _Limit(min(seconds, threading.TIMEOUT_MAX))
    try:
        with limit or contextlib.nullcontext():
            yield
    except SystemExit as error:
        _, said = failed_at(error)
        raise CompileError(
            f"{name} cannot be imported: its code ends the program, and an import would end yours: SystemExit {said}. "
            "Raise an error instead."
        ) from error
    except KeyboardInterrupt:
        if limit is None or not limit.is_over:
            raise
        raise CompileError(
            f"{name} cannot be imported: after {seconds:g} seconds it still was at {limit.place or 'the comparison'}. If it "
            "does return, give it longer: pn.from_module(..., timeout=seconds), or timeout=None."
        ) from None


@final
class _Limit:
    """Interrupts the calling thread if a ``with`` block lasts too long.

    Attributes:
        is_over: Whether it has lasted too long.
        place: The line of a person's code that ran then; empty if it was none.
    """

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self.place = ""
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.get_ident()
        self._watch = threading.Thread(target=self._run, name="pnne_nb-import-limit", daemon=True)

    def __enter__(self) -> None:
        self._watch.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        while self._watch.is_alive():
            # An interrupt that comes this late finds the block at its end.
            with contextlib.suppress(KeyboardInterrupt):
                self._watch.join()

    def _run(self) -> None:
        seconds = self._seconds
        while not ended_within(seconds, self._ended):
            seconds, place = AGAIN, self._whereabouts()
            if not self.is_over:
                self.is_over, self.place = True, place
            elif not place:
                continue  # the stack unwinds, and clean-up code must not be interrupted
            interrupt(self._thread)

    def _whereabouts(self) -> str:
        frame = sys._current_frames().get(self._thread)
        while frame is not None and (home := str(frame.f_globals.get("__name__", ""))) != IMPORTER:
            if home.partition(".")[0] not in ("torch", "pnne_nb", "threading"):
                return line_of((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        return ""


def ended_within(seconds: float, ended: threading.Event) -> bool:
    """Wait at most that long, and return whether the event has come."""
    return ended.wait(seconds)


def interrupt(thread: int) -> None:
    """Raise ``KeyboardInterrupt`` in a thread: in the main one also out of a call that waits, such as ``time.sleep``."""
    is_main = thread == threading.main_thread().ident
    if is_main and hasattr(signal, "pthread_kill") and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
