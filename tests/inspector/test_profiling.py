"""A profile names layers and operators, writes a trace, and runs alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pnne_nb.errors import InspectionError
from pnne_nb.inspector import profiling
from pnne_nb.inspector.profiling import profile
from tests.inspector.models import Encoder, hooks_on


def test_layers_and_operators_have_times(tmp_path: Path) -> None:
    net, trace = Encoder(), tmp_path / "trace.json"
    found = profile(net, torch.randn(2, 3, 8), trace=trace, warmup=1)
    layers: Any = found.layers
    operators: Any = found.operators
    assert list(layers.index[:3]) == ["", "blocks.0", "blocks.0.norm"]
    assert "unused" not in found.layers.index
    assert layers.loc["blocks.0.ffn", "total_ms"] >= layers.loc["blocks.0.ffn.0", "total_ms"]
    assert operators.loc["aten::addmm", "calls"] >= 1
    assert found.forward > 0
    assert found.backward is not None
    assert any(event.get("name") == "layer: head" for event in json.loads(trace.read_text())["traceEvents"])
    assert repr(found).startswith(f"Profile({len(found.layers)} layers, ")
    assert "<h4>By layer</h4>" in found._repr_html_()
    assert hooks_on(net) == 0
    assert all(parameter.grad is None for parameter in net.parameters())


def test_without_backward() -> None:
    assert profile(Encoder(), torch.randn(2, 3, 8), backward=False, warmup=0).backward is None


def test_one_profile_at_a_time() -> None:
    with profiling._one_at_a_time, pytest.raises(InspectionError, match="Another profile is running"):
        profile(Encoder(), torch.randn(2, 3, 8))
    profile(Encoder(), torch.randn(2, 3, 8), warmup=0)
