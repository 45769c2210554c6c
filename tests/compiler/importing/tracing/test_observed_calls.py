"""Tests of `pnne_nb.compiler.importing.tracing.observed_calls`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from pnne_nb.compiler.importing.tracing import observed_calls
from pnne_nb.compiler.importing.tracing.observed_calls import observe
from pnne_nb.compiler.weights.deepcopy import duplicate


def test_the_memory_of_what_is_called_is_free_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[nn.Module]] = []

    def noted(net: nn.Module, tensor: Callable[[torch.Tensor], Any] | None = None) -> nn.Module:
        made.append(weakref.ref(copy := duplicate(net, tensor)))
        return copy

    monkeypatch.setattr(observed_calls, "duplicate", noted)
    gc.disable()
    try:
        observe(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), (torch.ones(2, 3),), {})
        assert made[0]() is None  # the other copy has tensors without data
    finally:
        gc.enable()
