"""Contexts: each names a class of torch's that makes a context manager of these arguments."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from pnne_nb.graph.schema.structural import CONTEXTS, DEVICES, ELEMENTS
from pnne_nb.graph.schema.values import TorchConstant


@pytest.mark.parametrize("name", [name for name in CONTEXTS if "cuda" not in name])
def test_torch_makes_a_context_manager_of_it(name: str) -> None:
    context = CONTEXTS[name]
    make: Any = getattr(torch, context.target.removeprefix("torch."))
    live = {k: getattr(torch, v.name) if isinstance(v, TorchConstant) else v for k, v in context.keywords}
    assert isinstance(make(*context.arguments, **live), AbstractContextManager)


def test_autocast_is_there_for_every_device_and_element_type() -> None:
    assert {f"autocast {device} {element}" for device in DEVICES for element in ELEMENTS} <= set(CONTEXTS)
    for name, context in CONTEXTS.items():
        if name.startswith("autocast"):
            assert context.arguments == (name.split()[1],)
            assert (("enabled", False) in context.keywords) == name.endswith(" off")
