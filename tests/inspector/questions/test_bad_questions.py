"""A layer, a unit or a number that does not exist, or is none: every question says so in words, and leaves the net as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError, UnknownNodeError
from pnne_nb.inspector.questions.units import layer_output, look_at_units, peaks
from pnne_nb.widgets.host.static_picture import Card
from tests.inspector.questions.untouched import untouched

Ask = Callable[[nn.Module, Tensor, Any, Any], object]


def net_and_data() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10))
    return net.eval(), torch.randn(3, 1, 8, 8)


def intervened(net: nn.Module, x: Tensor, layer: Any, **part: Any) -> object:
    with pn.intervene(net, {layer: pn.zero(**part)}):
        return net(x)


def explored(net: nn.Module, x: Tensor, layer: Any, question: str, **chosen: Any) -> object:
    explorer = pn.ModuleExplorer(net, x, torch.tensor([0, 1, 2]))
    try:
        return explorer.ask(layer, question, **chosen)
    finally:
        explorer.close()


def kept(net: nn.Module, x: Tensor, layer: Any, unit: Any) -> object:
    return pn.keep(pn.from_module(net, args=(x,)), {layer: pn.zero(channels=unit)})


OF_A_LAYER: dict[str, Ask] = {
    "attribute of": lambda net, x, layer, _: pn.attribute(net, x, (0, 0, 0), of=layer),
    "grad-cam": lambda net, x, layer, _: pn.attribute(net, x, 0, "grad-cam", layer=layer),
    "intervene": lambda net, x, layer, _: intervened(net, x, layer),
    "patch_effects": lambda net, x, layer, _: pn.patch_effects(net, x[:1], x[1:2], at=layer, target=0),
    "keep": kept,
    "explain_value": lambda net, x, layer, _: pn.explain_value(net, x, layer, (0, 0, 0, 0)),
    "receptive_field": lambda net, x, layer, _: pn.receptive_field(net, x, layer, (0, 0, 0, 0)),
    "peaks": lambda net, x, layer, _: peaks(net, x, layer, 0),
    "units": lambda net, x, layer, _: look_at_units(net, x, layer, x[:1]),
    "layer_output": lambda net, x, layer, _: layer_output(net, x, layer),
    "project": lambda net, x, layer, _: pn.project(net, x, layer),
    "compare_layers": lambda net, x, layer, _: pn.compare_layers(net, x, other_data=x + 1, at=layer),
    "logit_lens": lambda net, x, layer, _: pn.logit_lens(net, x, at=layer),
    "explorer": lambda net, x, layer, _: explored(net, x, layer, "Why"),
    "changes": lambda net, x, layer, _: explored(net, x, "2", "Units", changes=[(layer, "zero", "")]),
}

OF_A_PLACE: dict[str, tuple[Ask, object]] = {
    "attribute": (lambda net, x, _, place: pn.attribute(net, x, place), 3),
    "attribute of": (lambda net, x, layer, place: pn.attribute(net, x, place, of=layer), (7, 0, 0)),
    "channels": (lambda net, x, layer, place: intervened(net, x, layer, channels=place), 3),
    "tokens": (lambda net, x, layer, place: intervened(net, x, layer, tokens=place, dim=2), 3),
    "units": (lambda net, x, layer, place: intervened(net, x, layer, units=place), (7, 0, 0)),
    "patch_effects": (lambda net, x, layer, place: pn.patch_effects(net, x[:1], x[1:2], at=layer, target=place), 3),
    "keep": (kept, 3),
    "explain_value": (pn.explain_value, (0, 7, 0, 0)),
    "receptive_field": (pn.receptive_field, (0, 7, 0, 0)),
    "peaks": (peaks, 3),
    "units for": (lambda net, x, layer, place: look_at_units(net, x, layer, x[:1], place), 3),
    "dimension": (lambda net, x, layer, place: look_at_units(net, x, layer, x[:1], dim=place), 3),
    "answer": (lambda net, x, layer, place: explored(net, x, layer, "Why", answer=place), 3),
    "number": (lambda net, x, layer, place: explored(net, x, layer, "Number", number=place), (0, 7, 0, 0)),
    "example": (lambda net, x, layer, place: explored(net, x, layer, "Units", example=place), 2),
}


@pytest.mark.parametrize("ask", OF_A_LAYER.values(), ids=OF_A_LAYER)
def test_a_layer_that_does_not_exist(ask: Ask) -> None:
    net, x = net_and_data()
    with untouched(net), pytest.raises((LayerNotFoundError, UnknownNodeError), match=r"'22'\. Did you mean '2'\?"):
        ask(net, x, "22", 0)


NO_TEXTS: list[tuple[str, object]] = [(name, layer) for name in OF_A_LAYER for layer in (2, 1.5)]
# Python takes no list for a key of a dict.
NO_TEXTS += [(name, ["2", 2]) for name in OF_A_LAYER if name not in ("intervene", "keep")]


@pytest.mark.parametrize(("name", "layer"), NO_TEXTS)
def test_a_layer_that_is_no_text(name: str, layer: object) -> None:
    ask, (net, x) = OF_A_LAYER[name], net_and_data()
    with untouched(net), pytest.raises(ArgumentError, match=r"path of a|no pattern of layers|no row of changes"):
        ask(net, x, layer, 0)


def outside(place: object, by: int) -> object:
    return tuple(by for _ in place) if isinstance(place, tuple) else by


def told(ask: Ask, place: object) -> str:
    """Return what a question about a place says: its error, or in an explorer what is shown."""
    net, x = net_and_data()
    with untouched(net):
        try:
            answer = ask(net, x, "2", place)
        except (ArgumentError, InspectionError) as error:
            return str(error)
    assert isinstance(answer, Card), "it must be refused"
    return answer.html


@pytest.mark.parametrize("by", [99, -99])
@pytest.mark.parametrize(("ask", "place"), OF_A_PLACE.values(), ids=OF_A_PLACE)
def test_a_place_that_does_not_exist(ask: Ask, place: object, by: int) -> None:
    said = told(ask, outside(place, by))
    assert re.search(
        "outside of the output|has no (channel|token|unit|element)|one of the dimensions|number from 0", said
    )
    assert str(by) in said
    assert re.search(r"the shape \[(\d+, )*\d+\]|from 0 to \d|are 0 to \d", said)


@pytest.mark.parametrize("place", ["1", 1.5, True, [], {}], ids=repr)
@pytest.mark.parametrize(("ask", "_place"), OF_A_PLACE.values(), ids=OF_A_PLACE)
def test_a_place_that_is_no_number(ask: Ask, _place: object, place: object) -> None:
    assert re.search(r"must be|cannot be|in one of the dimensions", told(ask, place))


@pytest.mark.parametrize("form", [np.int64, torch.tensor], ids=["NumPy", "torch"])
@pytest.mark.parametrize(("ask", "place"), list(OF_A_PLACE.values())[:9], ids=list(OF_A_PLACE)[:9])
def test_a_place_may_be_a_number_of_numpy_or_torch(ask: Ask, place: Any, form: Callable[[Any], Any]) -> None:
    net, x = net_and_data()
    ask(net, x, "2", tuple(map(form, place)) if isinstance(place, tuple) else form(place))


WRONG_ROWS: dict[str, tuple[object, str]] = {
    "no list": ("1", r"changes must be a list of rows, not '1'. Write changes="),
    "no row": ([3], r"3 is no row of changes\. Write changes="),
    "kind": ([("2", "zerro", "")], r"kind cannot be 'zerro'. Did you mean 'zero'\? It is one of 'zero', 'scale'"),
    "number": ([("2", "scale", "", "x")], "is no row of changes"),
    "part": ([("2", "zero", "chanels 3")], r"2: channels are numbers such as 3, 17; .* 'chanels 3' is none of these"),
    "fraction": ([("2", "zero", 1.5)], r"'1.5' is none of these"),
}


@pytest.mark.parametrize(("rows", "said"), WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_rows_of_changes_that_are_none(rows: object, said: str) -> None:
    net, x = net_and_data()
    with pytest.raises((ArgumentError, InspectionError), match=said):
        explored(net, x, "2", "Units", changes=rows)
