"""What a model would say after each block is what its head makes of the block's output."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from tests.inspector.questions.nets import made
from tests.inspector.questions.untouched import untouched


def test_the_answers_are_those_of_the_head() -> None:
    case = made("GPT")
    with untouched(case.net):
        found = pn.logit_lens(case.net, case.data, name=lambda token: "abcdefghijk"[token])
    assert found.blocks == ("blocks.0", "blocks.1")
    net: Any = case.net.eval()
    x = net.tokens(case.data) + net.places(torch.arange(6))
    before = None
    for row, block in enumerate(net.blocks):
        x = block(x)
        top = net.head(x)[0].softmax(-1).max(-1)
        assert found.best[row].tolist() == top.indices.tolist()
        torch.testing.assert_close(torch.from_numpy(found.shares[row]).float(), top.values.detach())
        if before is not None:
            ratio = ((x - before)[0].norm(dim=-1) / before[0].norm(dim=-1)).detach()
            torch.testing.assert_close(torch.from_numpy(found.added[row]).float(), ratio)
        before = x
    assert repr(found).startswith("LogitLens(2 blocks, the last of 6 positions)\n  blocks.0: ")
    assert "<th>blocks.1</th>" in found._repr_html_()
    assert pn.logit_lens(case.net, case.data, "blocks.?").best.tolist() == found.best.tolist()


def test_what_does_not_work_is_explained() -> None:
    with pytest.raises(pn.InspectionError, match="There is no row of blocks"):
        pn.logit_lens(made("MLP").net, torch.randn(1, 5))
    with pytest.raises(pn.InspectionError, match="returns no scores"):
        pn.logit_lens(nn.Sequential(nn.Sequential(nn.ReLU(), nn.ReLU()), nn.Unflatten(1, (1, 1, 3))), torch.ones(1, 3))
