"""Hides logs and warnings of libraries about their own internals."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = (
    "torch.onnx", "torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor", "torch.export",
    "torch.utils._pytree", "onnxscript", "torchao",
)  # fmt: skip


@contextmanager
def quiet() -> Iterator[None]:
    """Hide logs and warnings of libraries in this block; errors are still raised."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    interval = getattr(tqdm, "monitor_interval", 0)
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        if tqdm is not None:
            tqdm.monitor_interval = 0  # a progress bar that nobody sees would start a thread for good
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if tqdm is not None:
            tqdm.monitor_interval = interval
