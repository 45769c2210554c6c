"""Tied weights: a tensor with several names is one tensor in a new model too."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn


class Named(nn.Module):
    """Has parameters and buffers of two names, of its own and in layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.again = self.scale
        mean = torch.ones(4)
        self.register_buffer("mean", mean)
        self.register_buffer("kept", mean, persistent=False)
        self.second = nn.LSTM(4, 4, batch_first=True)
        self.third = nn.LSTM(4, 4, batch_first=True)
        self.third.weight_ih_l0 = self.second.weight_ih_l0
        self.last = nn.Linear(4, 4)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x) * self.scale * self.again + self.mean - self.kept
        x = self.third(self.second(x)[0])[0]
        out: torch.Tensor = self.last(x)
        return out


def names(model: nn.Module) -> list[list[str]]:
    """Return the names of each tensor."""
    found: dict[int, list[str]] = {}
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for name, tensor in tensors:
        found.setdefault(id(tensor), []).append(name)
    return list(found.values())


@pytest.fixture
def imported() -> pn.NodeGraph:
    return pn.from_module(Named(), (torch.rand(2, 3, 4),))


def test_what_is_one_tensor_is_one_in_a_new_model_and_in_source(imported: pn.NodeGraph) -> None:
    net = Named()
    assert ["scale", "again"] in names(net)
    assert names(pn.compile(imported, reuse=None)) == names(net)
    assert list(pn.compile(imported, reuse=None).state_dict()) == list(net.state_dict())
    source = pn.to_source(imported)
    assert "        self.again = self.scale\n" in source
    assert '        self.register_buffer("kept", self.mean, persistent=False)\n' in source
    assert "        self.last.weight = self.first.weight\n" in source


def test_a_parameter_whose_other_name_is_gone_says_so(imported: pn.NodeGraph) -> None:
    imported.rename("scale", "factor")
    assert ["factor", "again"] in names(pn.compile(imported, reuse=None))
    imported.remove("factor")
    imported.set(["mul", "mul2"], other=1.0)
    with pytest.raises(pn.CompileError, match=r"again: It is the same tensor as factor, which is no longer there\."):
        pn.compile(imported, reuse=None)
