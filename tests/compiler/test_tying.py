"""Tensors that have several names: as the original has them, and made once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import making


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


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "LARGE", -1)


def test_what_is_one_tensor_is_one_in_a_new_model_and_in_source(imported: pn.NodeGraph) -> None:
    net = Named()
    assert ["scale", "again"] in names(net)
    assert names(pn.compile(imported)) == names(net)
    assert list(pn.compile(imported).state_dict()) == list(net.state_dict())
    source = pn.to_source(imported)
    assert "        self.again = self.scale\n" in source
    assert '        self.register_buffer("kept", self.mean, persistent=False)\n' in source
    assert "        self.last.weight = self.first.weight\n" in source


def test_a_parameter_whose_other_name_is_gone_says_so(imported: pn.NodeGraph) -> None:
    imported.rename("scale", "factor")
    with pytest.raises(pn.CompileError, match=r"again: It is the same tensor as scale, which is no longer there\."):
        pn.compile(imported)


@pytest.mark.usefixtures("always")
def test_models_that_are_made_once_draw_as_their_source_does(
    imported: pn.NodeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    once = pn.compile(imported)
    monkeypatch.setattr(making, "LARGE", 2**62)
    torch.manual_seed(0)
    plain = pn.compile(imported)
    assert names(once) == names(plain)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, once.state_dict()[name]), name
    x = torch.rand(2, 3, 4)
    assert torch.equal(once(x), plain(x))
    storages = [tensor.untyped_storage().data_ptr() for tensor in (*once.parameters(), *once.buffers())]
    assert len(set(storages)) == len(storages)


class Row(nn.Module):
    """Remembers where its weight was when it was made, and how many it made."""

    seen: list[int] = []  # emptied by the test
    unlike = False

    def __init__(self) -> None:
        super().__init__()
        if self.unlike and torch.get_default_device().type == "meta":
            self.extra = nn.Parameter(torch.ones(8))
        self.weight = nn.Parameter(torch.ones(8))
        self.seen.append(self.weight.data_ptr())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.ModuleList(Row() for _ in range(10))
        for row in self.rows:
            row.weight = self.rows[0].weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for row in self.rows:
            x = row(x)
        return x


@pytest.fixture
def rows() -> pn.NodeGraph:
    pn.register_node(category="Custom")(Row)
    return pn.from_module(Rows(), (torch.ones(2, 8),))


@pytest.mark.usefixtures("always")
def test_what_is_dropped_takes_the_memory_of_one(rows: pn.NodeGraph) -> None:
    Row.seen.clear()
    model = pn.compile(rows)
    assert len(Row.seen) == 20, "made without data first"
    assert len(set(Row.seen) - {0}) == 2, "the one that stays, and one for the nine others"
    assert len(list(model.parameters())) == 1


@pytest.mark.usefixtures("always")
def test_a_constructor_that_does_otherwise_without_data_gets_what_it_makes(
    rows: pn.NodeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Row, "unlike", True)
    model = pn.compile(rows)
    assert names(model) == names(Rows())
    assert torch.equal(model(torch.ones(2, 8)), torch.ones(2, 8))
