"""Sets torch's process-wide switches; no other file of the package sets one.

They are deterministic algorithms, the precision of matrix products, the default dtype,
anomaly detection and the flags of cuDNN and oneDNN. A setting that a training has to itself is set around each of its
steps and put back after it; what `DeviceManager.configure` is told stays.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from typing import Any, TypeAlias, TypeVar, final

import torch

from pnne_nb.process.fork import renewed_after_fork
from pnne_nb.runtime.thread.step_lock import StepLock, is_of_a_step

_BACKENDS: dict[str, Any] = {"cudnn": torch.backends.cudnn, "mkldnn": torch.backends.mkldnn}
_NAMES = (("cudnn", "enabled"), ("cudnn", "benchmark"), ("cudnn", "deterministic"), ("mkldnn", "enabled"))


def switches() -> dict[str, Any]:
    """Return the settings of this process, in plain values."""
    return {
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "anomalies": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        **{f"{backend}.{name}": getattr(_BACKENDS[backend], name) for backend, name in _NAMES},
    }


TF32: TypeAlias = "bool | str"
"""Which operations of float32 may use TF32: all, none, or one of `TF32_ALONE`."""

TF32_ALONE = ("convolutions", "matrix products")


def tf32() -> TF32:
    """Return which operations of float32 may use TF32."""
    products, convolutions = torch.get_float32_matmul_precision() != "highest", torch.backends.cudnn.allow_tf32
    return products if products == convolutions else TF32_ALONE[products]


def configure(tf32: TF32 | None, cudnn_benchmark: bool | None, deterministic: bool | None) -> None:
    """Set the switches that are not None permanently; see `DeviceManager.configure`."""
    if tf32 is not None:
        torch.set_float32_matmul_precision("high" if tf32 in (True, "matrix products") else "highest")
        torch.backends.cudnn.allow_tf32 = tf32 in (True, "convolutions")
    if cudnn_benchmark is not None:
        torch.backends.cudnn.benchmark = cudnn_benchmark
    if deterministic is not None:
        torch.use_deterministic_algorithms(deterministic)


def set_switches(found: dict[str, Any]) -> None:
    """Take over the settings of another process."""
    torch.set_default_dtype(getattr(torch, found["dtype"]))
    torch.set_float32_matmul_precision(found["precision"])
    enabled, warn_only = found["deterministic"]
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    anomalies, check_nan = found["anomalies"]
    torch.autograd.set_detect_anomaly(anomalies, check_nan)
    for backend, name in _NAMES:
        value = found[f"{backend}.{name}"]
        if getattr(_BACKENDS[backend], name) != value:
            setattr(_BACKENDS[backend], name, value)


E = TypeVar("E")
R = TypeVar("R")


@final
class Determinism:
    """Sets torch's switches for a training on `device`, if that is `wanted`; entered around each step, and restored after it.

    An operation that has no deterministic version then raises, and the training fails there by name.

    Attributes:
        repeats: Whether a step made again gives the same bits: kernels of accelerators need not.
    """

    def __init__(self, device: torch.device, *, wanted: bool) -> None:
        self._wanted = wanted
        self.repeats = wanted or device.type == "cpu"
        self._before: tuple[bool, bool, bool] | None = None
        if wanted:
            renewed_after_fork(self)
        if wanted and device.type == "cuda":
            # Read when cuBLAS is first used; without it, its operations raise.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    def __enter__(self) -> None:
        if self._wanted:
            self._before = (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
                torch.backends.cudnn.benchmark,
            )
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            self._put_back()

    def renew_after_fork(self) -> None:
        """Restore the public switches in a forked child, if another thread of its parent was in the block."""
        if not is_of_a_step():
            self._put_back()

    def _put_back(self) -> None:
        if self._before is not None:
            enabled, warn_only, benchmark = self._before
            torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
            torch.backends.cudnn.benchmark = benchmark
            self._before = None

    def over(self, events: Generator[E, None, R], turn: StepLock) -> Generator[E, None, R]:
        """Yield the events, each run under the switches and in a turn, so that no other training sets them meanwhile."""
        # What is not wanted costs nothing.
        return self._each(events, turn) if self._wanted else events

    def _each(self, events: Generator[E, None, R], turn: StepLock) -> Generator[E, None, R]:
        with closing(events):
            while True:
                try:
                    with turn.here(), self:
                        event = next(events)
                except StopIteration as end:
                    result: R = end.value
                    return result
                yield event
