"""Every network of the zoo comes back equal, and nothing of it is opaque that could be drawn."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.compiler.analysis.verify import key_prefix
from pnne_nb.process.random_state import private_random_state
from tests.compiler.importing.zoo import MODELS


def run(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with private_random_state():
        return module(*copy.deepcopy(args), **kwargs)


@pytest.mark.parametrize("name", MODELS)
def test_it_comes_back_equal(name: str) -> None:
    entry = MODELS[name]
    net = entry.make()
    before = copy.deepcopy(net.state_dict())
    graph = pn.from_module(net, entry.args, entry.kwargs)
    assert difference(before, net.state_dict()) == ""
    read = pn.NodeGraph.from_json(graph.to_json())
    assert read == graph
    report = pn.verify(read, net, entry.args, entry.kwargs)
    assert report, str(report)
    assert set(report.opaque) == set(entry.opaque)
    model = pn.compile(read, reuse=net)
    copied = copy.deepcopy(model)
    assert list(model.state_dict()) == [key_prefix(read) + key for key in net.state_dict()]
    for others in entry.others:
        numbers = {key: value for key, value in entry.kwargs.items() if not isinstance(value, torch.Tensor)}
        for mode in (True, False):
            # Under the same seed: dropout draws the same numbers, for other sizes too.
            expected = run(net.train(mode), others, numbers)
            assert difference(expected, run(model.train(mode), others, numbers)) == ""
            assert difference(expected, run(copied.train(mode), others, numbers)) == ""
