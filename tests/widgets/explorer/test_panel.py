"""Fields of one's own are rows of the panel, escaped, and change nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.inspector.tools.dataflow import FlowLayer
from pnne_nb.widgets.explorer.panel import Details, facts_html


def shown(layer: nn.Module) -> str:
    return facts_html(Details(FlowLayer("fc", type(layer).__name__, ""), layer))


def test_a_field_is_a_row_of_the_layers_that_it_is_about() -> None:
    @pn.register_field("<Rank>")
    def rank(layer: nn.Module) -> int | None:
        assert not torch.is_grad_enabled()
        torch.rand(1)
        return int(torch.linalg.matrix_rank(layer.weight)) if isinstance(layer, nn.Linear) else None

    state = torch.random.get_rng_state()
    assert "<tr><th>&lt;Rank&gt;</th><td>3</td></tr>" in shown(nn.Linear(4, 3, bias=False).requires_grad_(False))
    assert "Rank" not in shown(nn.ReLU())
    torch.random.set_rng_state(state)
    before = torch.random.get_rng_state()
    shown(nn.ReLU())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_field_that_fails_says_so_in_its_row() -> None:
    pn.register_field("Mine")(lambda layer: layer.nothing)
    assert "<th>Mine</th><td>failed: AttributeError: " in shown(nn.ReLU())


def test_what_cannot_be_a_field_is_refused() -> None:
    with pytest.raises(pn.ArgumentError, match=r'Write @pn.register_field\("Rank"\)'):
        pn.register_field(3)  # type: ignore[arg-type]  # which is the point
    with pytest.raises(pn.ArgumentError, match="'rank' cannot be called"):
        pn.register_field("Rank")("rank")  # type: ignore[type-var]  # as above
