"""Modules that end the program, never return, or fail: told in words, and the module as it was."""

from __future__ import annotations

import copy
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.compiler.importing.tracing import observed_calls
from pnne_nb.compiler.importing.verification import bad_modules

X = torch.linspace(-1, 1, 8).reshape(2, 4)

begun = threading.Event()
"""Set by a forward that does not return."""


class Base(nn.Module):
    """Changes what it has, as far as it comes."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4).eval()
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0
        self.seen: list[int] = []
        self.fc.register_forward_hook(lambda _module, _args, _result: self.seen.append(1))
        self.fc(X).sum().backward()

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        self.seen.append(2)
        self.count += 1
        torch.rand(3)
        self.train(not self.training)
        return self.ends(self.norm(self.fc(x)))

    def ends(self, x: Tensor) -> Any:
        raise NotImplementedError


class Exiting(Base):
    def ends(self, x: Tensor) -> Any:
        sys.exit("no licence")


class Interrupting(Base):
    def ends(self, x: Tensor) -> Any:
        raise KeyboardInterrupt


class Raising(Base):
    def ends(self, x: Tensor) -> Any:
        raise ValueError("not today")


class Away(Base):
    def ends(self, x: Tensor) -> Any:
        return x.to("cuda:77")


class Demanding(Base):
    def forward(self, x: Tensor, mask: Tensor) -> Any:  # type: ignore[override]  # which nobody gives
        return self.fc(x) * mask


class Looping(Base):
    def ends(self, x: Tensor) -> Any:
        begun.set()
        while True:
            x = x + 1


class Stubborn(Base):
    """Takes every error for one that it can mend."""

    def ends(self, x: Tensor) -> Any:
        for _ in range(2):
            try:
                begun.set()
                while True:
                    x = x + 1
            except BaseException:  # noqa: BLE001  # as some code does
                continue
        return x


class Sleeping(Base):
    def ends(self, x: Tensor) -> Any:
        begun.set()
        time.sleep(3600)  # what waits is not reached by an exception alone


class Calling(Base):
    def ends(self, x: Tensor) -> Any:
        while True:
            x = self.fc(x)


def state_of(net: Base) -> dict[str, Any]:
    """Everything of a module that an import could leave changed, and the random state."""
    return {
        "state": copy.deepcopy(net.state_dict()),
        "grads": [None if each.grad is None else each.grad.clone() for each in net.parameters()],
        "modes": [each.training for each in net.modules()],
        "requires": [each.requires_grad for each in net.parameters()],
        "attributes": [sorted(vars(each)) for each in net.modules()],
        "hooks": [len(each._forward_hooks) for each in net.modules()],
        "own": [net.calls, len(net.seen)],
        "torch": torch.get_rng_state(),
        "python": repr(random.getstate()),
        "numpy": repr(np.random.get_state()),  # noqa: NPY002  # what modules draw with
        "recorded": torch.is_grad_enabled(),
        "dtype": str(torch.get_default_dtype()),
    }


def left_as_it_was(net: Base, importing: Callable[[], Any]) -> None:
    before, places = state_of(net), [id(each) for each in net.parameters()]
    importing()
    assert difference(before, state_of(net)) == ""
    assert [id(each) for each in net.parameters()] == places
    assert not any(thread.name == "pnne_nb-import-limit" for thread in threading.enumerate())


def refused(net: nn.Module, said: str, **options: Any) -> Callable[[], None]:
    def run() -> None:
        with pytest.raises(pn.CompileError, match=said):
            pn.from_module(net, X, **options)

    return run


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Exiting, r"Exiting cannot be imported: its code ends the program.*no licence \(test_bad_modules.py, line"),
        (Raising, r"Raising cannot be called with \(\[2, 4\] float32\): not today"),
        (Away, r"Away cannot be called with .*(CUDA|cuda)"),
        (
            Demanding,
            r"Demanding cannot be called with .*missing 1 required positional argument: 'mask' \(test_bad_modules\.py, line \d+",
        ),
    ],
)
def test_what_a_module_does_instead_is_told(make: Callable[[], Base], said: str) -> None:
    net = make()
    left_as_it_was(net, refused(net, said))


def test_an_interrupt_goes_through() -> None:
    net = Interrupting()

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            pn.from_module(net, X)

    left_as_it_was(net, run)


INTERRUPTED_ANYWHERE = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
"""An interrupt that comes in a destructor is only printed by Python; the next one ends the forward."""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """An interrupt from the keyboard raises, as in a kernel; processes that run tests beside each other ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def lapses_once_begun(interruptible: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is over as soon as the forward runs that does not return, however fast the machine is."""
    begun.clear()
    monkeypatch.setattr(
        bad_modules, "ended_within", lambda seconds, ended: not begun.wait(60 * seconds) or ended.wait(0.05)
    )


@INTERRUPTED_ANYWHERE
@pytest.mark.usefixtures("lapses_once_begun")
@pytest.mark.parametrize("make", [Looping, Stubborn, Sleeping])
def test_a_forward_that_never_returns_is_interrupted_where_it_is(make: Callable[[], Base]) -> None:
    net = make()
    said = rf"{type(net).__name__} cannot be imported: after 5 seconds it still was at test_bad_modules.py, line \d+"
    left_as_it_was(net, refused(net, rf"{said}.*timeout=None", timeout=5.0))


@INTERRUPTED_ANYWHERE
@pytest.mark.usefixtures("lapses_once_begun")
def test_another_thread_is_interrupted_too() -> None:
    net = Looping()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            refused(net, "Looping cannot be imported: after 5 seconds", timeout=5.0)()
        except BaseException as error:  # noqa: BLE001  # a test says what it is
            failed.append(error)

    def within_a_thread() -> None:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    left_as_it_was(net, within_a_thread)
    assert failed == []


def test_calls_without_an_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_calls, "MAX_CALLS", 50)
    net = Calling()
    left_as_it_was(
        net, refused(net, r"fc is called more than 50 times in one call; .* \(test_bad_modules.py, line \d+: x = ")
    )


def test_no_time_is_a_limit_too() -> None:
    net = nn.Linear(4, 4)
    assert pn.verify(pn.from_module(net, X, timeout=None), net, X)
