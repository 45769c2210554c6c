"""What fits is placed, what nearly fits is fitted, and the report says all of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn


def head(out: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, out))


X = torch.linspace(-1, 1, 6).reshape(2, 3)


def named() -> pn.NodeGraph:
    graph = pn.sequential(("first", nn.Linear(3, 4)), "ReLU", ("second", nn.Linear(4, 2)), input=("N", 3))
    graph.group(["first"], name="block")
    return graph


def test_names_of_another_kind_are_matched_in_their_order_and_told() -> None:
    net, graph = head(), named()
    report = pn.load_weights(graph, net.state_dict())
    assert report.moved == {
        "block.first.weight": "0.weight", "block.first.bias": "0.bias", "second.weight": "2.weight", "second.bias": "2.bias",
    }  # fmt: skip
    assert torch.equal(pn.compile(graph)(X), net(X))
    assert not report.complete
    assert repr(report).splitlines()[:2] == [
        "the state_dict into Model: 0 placed, 4 moved",
        "  moved      block.first.weight  is 0.weight there",
    ]


def test_an_order_that_does_not_fit_one_to_one_is_not_taken() -> None:
    for other in (nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)), head(5)):
        with pytest.raises(
            pn.ArgumentError, match=r"Nothing fits\. the state_dict into Model: 0 placed, 4 new, . left over"
        ):
            pn.load_weights(named(), other.state_dict())


def test_a_file_of_the_time_before_nodes_were_renamed_fits() -> None:
    net = head()
    graph = pn.from_module(net, args=(X,))
    graph.rename("0", "stem")
    graph.group(["stem"], name="block")
    for names in (net.state_dict(), pn.compile(graph).state_dict()):
        doubled = {name: 2 * value for name, value in names.items()}
        report = pn.load_weights(graph, doubled)
        assert len(report.placed) + len(report.moved) == 4
        assert torch.equal(pn.compile(graph).get_parameter("block.stem.weight"), 2 * net.get_parameter("0.weight"))


def test_a_partly_fitting_source_is_answered_with_a_table() -> None:
    source = head(5)
    given = {"0.weight": source.state_dict()["0.weight"], "2.weight": torch.ones(9, 9), "extra": torch.ones(1)}
    graph = pn.from_module(net := head(), args=(X,))
    said = (
        r"Not all weights fit\. the state_dict into Sequential: 1 placed, 3 new, 2 left over\n(.*\n)*"
        r"  new        2\.weight  \(2, 4\)\n(.*\n)*  left over  2\.weight  \(9, 9\)"
    )
    with pytest.warns(UserWarning, match=said):
        model = pn.compile(graph, reuse=given)
    assert torch.equal(model.get_parameter("0.weight"), given["0.weight"])
    assert torch.equal(model.get_parameter("2.weight"), net.get_parameter("2.weight")), "the rest is as it was"


def test_a_layer_that_was_made_wider_keeps_its_rows() -> None:
    net = head()
    graph = pn.from_module(net, args=(X,))
    graph.set("2", out_features=3)
    report = pn.load_weights(graph, net.state_dict())
    assert report.reshaped == {"2.weight": ((2, 4), (3, 4)), "2.bias": ((2,), (3,))}
    model = pn.compile(graph)
    assert torch.equal(model(X)[:, :2], net(X))
    assert "reshaped   2.weight  (2, 4) became (3, 4)" in repr(report)


def test_axes_of_size_one_do_not_matter() -> None:
    net = nn.Conv1d(3, 4, 1)
    report = pn.load_weights(net, {"weight": torch.ones(4, 3), "bias": torch.ones(4, 1)})
    assert set(report.reshaped) == {"weight", "bias"}
    assert torch.equal(net.weight, torch.ones(4, 3, 1))


def test_what_is_placed_keeps_the_type_of_the_model_and_is_not_shared() -> None:
    net = head().double()
    source = head()
    net[0].requires_grad_(requires_grad=False)
    weight = net.get_parameter("0.weight")
    report = pn.load_weights(net, source)
    assert report.complete
    assert net.get_parameter("0.weight") is weight, "an optimizer still has it"
    assert weight.dtype == torch.float64
    assert not weight.requires_grad
    with torch.no_grad():
        source.get_parameter("0.weight").zero_()
    assert weight.any()


def test_a_notebook_shows_a_table() -> None:
    report = pn.load_weights(head(), {"0.weight": torch.ones(4, 3), "<b>": torch.ones(2)})
    html = report._repr_html_()
    assert "<td>left over</td><td>&lt;b&gt;</td><td>(2,)</td>" in html
    many = pn.load_weights(head(), {"0.weight": torch.ones(4, 3), **{f"n{n}": torch.ones(1) for n in range(30)}})
    assert "and 10 more" in repr(many)
