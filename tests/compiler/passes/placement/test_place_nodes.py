from __future__ import annotations

import pytest
import torch

import pnne_nb as pn
from tests.compiler.passes.graphs import convnet


def test_transfers_are_told_by_the_outputs_that_move() -> None:
    graph = convnet(2)
    done = pn.transform(graph, [pn.passes.PlaceNodes({"block1": "cpu"})])
    (report,) = done.reports
    assert [str(change) for change in report.changes] == ["placed block1: cpu", "moved block0.output: to cpu"]
    assert report.proof is not None
    assert report.proof.worst == 0
    assert 'x = x.to("cpu")' in pn.to_source(done.graph)
    x = torch.randn(2, 3, 8, 8)
    assert done.model(x).shape == (2, 5)


def test_devices_that_are_not_there_or_hold_nothing_are_refused() -> None:
    graph = convnet(1)
    before = graph.to_json()
    for device, message in (
        ("cuda:99", r"block0 cannot be on 'cuda:99': this machine has cpu"),
        ("meta", r"block0 cannot be on 'meta': tensors there hold no data"),
    ):
        with pytest.raises(pn.PassError, match=message):
            pn.transform(graph, [pn.passes.PlaceNodes({"block0": device})])
    with pytest.raises(pn.UnknownPropertyError, match=r"x \(Input\) has no property 'device'"):
        pn.transform(graph, [pn.passes.PlaceNodes({"x": "cpu"})])
    assert graph.to_json() == before
