"""Which sizes stay free when torch traces a model, and what is said where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import Tensor, nn

import pnne_nb as pn
from tests.export.kinds import chained, linear


def counting_bits() -> pn.NodeGraph:
    """Return a graph with a node that asks a size for what torch's symbol of a size has not."""

    @pn.register_node(category="Custom")
    class Bits(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.shape[1].bit_length()

    return chained("bits", ("N", "T", 4), linear("fc", 4, 4), ("Bits", "bits"))


def test_only_the_size_is_fixed_that_torch_cannot_trace_free(tmp_path: Path) -> None:
    drawn = counting_bits()
    report = pn.export(drawn, tmp_path / "bits.pt2")
    assert report.ok
    assert (report.sizes["T"].how, report.sizes["T"].nodes) == ("fixed", ("bits",))
    assert report.sizes["N"].how == "automatic"
    assert [(each.code, each.node) for each in pn.check_export(drawn, "pt2")] == [("size-fixed", "bits")]


def test_what_cannot_be_traced_is_refused_at_its_node_with_a_repair(tmp_path: Path) -> None:
    @pn.register_node(category="Custom")
    class Outside(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * float(x.numpy().max())

    with pytest.raises(pn.ExportError, match=r"at node 'outside'.*keep it as it is in a package: pn\.save") as caught:
        pn.export(chained("outside", ("N", 4), ("Outside", "outside")), tmp_path / "net.pt2")
    assert [(each.node, bool(each.hint)) for each in caught.value.diagnostics] == [("outside", True)]
