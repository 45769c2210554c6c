"""Which sizes stay free when torch traces a model, and what is said where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from tests.export.kinds import chained, linear


def counting_bytes() -> pn.NodeGraph:
    """Return a graph with a node that asks a size for what torch's symbol of a size does not have."""

    @pn.register_node(category="Custom")
    class Bytes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.shape[1].to_bytes(4, "big")[-1]

    return chained("bytes", ("N", "T", 4), linear("fc", 4, 4), ("Bytes", "bytes"))


def test_only_the_size_is_fixed_that_torch_cannot_trace_free(tmp_path: Path) -> None:
    drawn = counting_bytes()
    report = pn.export(drawn, tmp_path / "bytes.pt2")
    assert report.ok
    assert (report.sizes["T"].how, report.sizes["T"].nodes) == ("fixed", ("bytes",))
    assert report.sizes["N"].how == "automatic"
    assert [(each.code, each.node) for each in pn.check_export(drawn, "pt2")] == [
        ("size-fixed", "bytes"), ("axis-fixed", "x"),
    ]  # fmt: skip


class Packing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 2, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        last: Tensor = self.gru(packed)[1][-1]
        return last


def test_what_cannot_be_traced_is_refused_at_its_node_with_a_repair(tmp_path: Path) -> None:
    data = torch.randn(3, 5, 3), torch.tensor([5, 2, 3])
    with pytest.raises(pn.ExportError, match=r"at node 'gru'") as caught:
        pn.export(Packing(), tmp_path / "net.pt2", data=data)
    (finding,) = caught.value.diagnostics
    assert finding.node == "gru"
    assert "torch.export traces no packed sequences: leave pack_padded_sequence out" in str(finding.hint)
    assert not list(tmp_path.iterdir())
