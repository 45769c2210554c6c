"""The structure of arguments: what the code looks at is checked in each call, and nothing else is."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference

Pair = collections.namedtuple("Pair", "x mask", defaults=(None,))  # noqa: PYI024  # as networks write them
Swapped = collections.namedtuple("Swapped", "mask x", defaults=(None,))  # noqa: PYI024  # as above

X, M = torch.linspace(-1, 1, 6).reshape(2, 3), torch.linspace(0, 2, 6).reshape(2, 3)


class Based(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})


def one_key(self: Any, d: Any) -> Any:
    return self.fc(d["x"])


def asked(self: Any, d: Any) -> Any:
    return self.fc(d["x"]) * d["mask"] if "mask" in d else self.fc(d["x"])


def got(self: Any, d: Any) -> Any:
    mask = d.get("mask")
    return self.fc(d["x"]) if mask is None else self.fc(d["x"]) * mask


def tried(self: Any, d: Any) -> Any:
    try:
        mask = d["mask"]
    except KeyError:
        mask = 1
    return self.fc(d["x"]) * mask


def matched(self: Any, d: Any) -> Any:
    match d:
        case {"x": x, "mask": mask}:
            return self.fc(x) * mask
        case {"x": x}:
            return self.fc(x)


def popped(self: Any, d: Any) -> Any:
    mask = d.pop("mask", None)
    return self.fc(d["x"]) if mask is None else self.fc(d["x"]) * mask


def each_item(self: Any, d: Any) -> Any:
    return {key: self.fc(value) for key, value in d.items()}


def in_order(self: Any, d: Any) -> Any:
    found = 0
    for value in d.values():
        found = found * 0.5 + self.fc(value)
    return found


def by_key(self: Any, d: Any) -> Any:
    return sum(self.heads[key](d[key]) for key in d)


def spread(self: Any, d: Any) -> Any:
    def inner(x: Any, mask: Any = None) -> Any:
        return self.fc(x) if mask is None else self.fc(x) * mask

    return inner(**d)


def extended(self: Any, d: Any) -> Any:
    return {**d, "y": self.fc(d["x"])}


def assigned(self: Any, d: Any) -> Any:
    d["y"] = self.fc(d["x"])
    return d["y"] + 1


def each(self: Any, xs: Any) -> Any:
    return torch.stack([self.fc(x) for x in xs]).sum(0)


def zipped(self: Any, xs: Any) -> Any:
    return sum(layer(x) for layer, x in zip(self.layers, xs, strict=False))


def last(self: Any, xs: Any) -> Any:
    return self.fc(xs[-1])


def sliced(self: Any, xs: Any) -> Any:
    return sum([self.fc(x) for x in xs[1:]], xs[0])


def joined(self: Any, xs: Any) -> Any:
    return self.fc(torch.cat(xs))


def appended(self: Any, xs: Any) -> Any:
    xs.append(self.fc(xs[0]))
    return sum(xs)


def present(self: Any, xs: Any) -> Any:
    return sum(self.fc(x) for x in xs if x is not None)


def counted(self: Any, xs: Any) -> Any:
    return self.fc(xs[0]) * len(xs)


def filled(self: Any, xs: Any) -> Any:
    return self.fc(xs[0]) if xs else torch.zeros(2)


def pairs(self: Any, xs: Any) -> Any:
    return sum(self.fc(a) * b for a, b in xs)


def of_kind(self: Any, xs: Any) -> Any:
    return self.fc(xs[0]) if isinstance(xs, list) else self.fc(xs[0]) * 2


def named(self: Any, p: Any) -> Any:
    return self.fc(p.x) if p.mask is None else self.fc(p.x) * p.mask


def nested(self: Any, d: Any) -> Any:
    found = self.fc(d["in"]["x"])
    for part in d["more"]:
        found = found + part[0]
    return found * (2 if d["in"].get("twice") else 1)


def by_word(self: Any, d: Any) -> Any:
    return self.fc(d["x"]) if d["mode"] == "train" else d["x"]


def by_number(self: Any, d: Any) -> Any:
    return self.fc(d["x"]) * d["k"]


def rest(self: Any, x: Any, *rest: Any) -> Any:
    for each in rest:
        x = x + self.fc(each)
    return x


def keywords(self: Any, x: Any, **more: Any) -> Any:
    return self.fc(x) * more["mask"] if "mask" in more else self.fc(x)


def optional(self: Any, x: Any, mask: Any = None) -> Any:
    return self.fc(x) if mask is None else self.fc(x) * 2


def word(self: Any, x: Any, mode: Any = "train") -> Any:
    return self.fc(x) if mode == "train" else x


def untouched(self: Any, d: Any) -> Any:
    return d


def net_of(forward: Callable[..., Any]) -> nn.Module:
    made: nn.Module = type(forward.__name__.title(), (Based,), {"forward": forward})()
    return made


REFUSED: tuple[Any, ...] = (
    (asked, [{"x": X}], [{"x": X, "mask": M}]),
    (asked, [{"x": X, "mask": M}], [{"x": X}]),
    (got, [{"x": X}], [{"x": X, "mask": M}]),
    (got, [{"x": X, "mask": None}], [{"x": X, "mask": M}]),
    (got, [{"x": X, "mask": M}], [{"x": X, "mask": None}]),
    (tried, [{"x": X}], [{"x": X, "mask": M}]),
    (matched, [{"x": X}], [{"x": X, "mask": M}]),
    (popped, [{"x": X}], [{"x": X, "mask": M}]),
    (each_item, [{"a": X}], [{"a": X, "b": M}]),
    (each_item, [{"a": X}], [{"b": X}]),
    (in_order, [{"a": X, "b": M}], [{"b": M, "a": X}]),
    (by_key, [{"a": X, "b": M}], [{"a": X}]),
    (spread, [{"x": X}], [{"x": X, "mask": M}]),
    (spread, [{"x": X, "mask": M}], [{"x": X}]),
    (extended, [{"x": X}], [{"x": X, "z": M}]),
    (each, [[X, M]], [[X]]),
    (each, [[X, M]], [[X, M, X]]),
    (zipped, [[X, M]], [[X]]),
    (sliced, [[X, M]], [[X, M, M]]),
    (sliced, [(X, M)], [(X,)]),
    (joined, [[X, M]], [[X, M, M]]),
    (joined, [(X, M)], [(X, M, M)]),
    (appended, [[X]], [[X, M]]),
    (present, [[X, None]], [[None, X]]),
    (present, [[X, None]], [[X, M]]),
    (counted, [[X, M]], [[X]]),
    (filled, [[X]], [[]]),
    (pairs, [[(X, M)]], [[(X, M), (M, X)]]),
    (of_kind, [[X]], [(X,)]),
    (named, [Pair(X)], [Pair(X, M)]),
    (named, [Pair(X, M)], [Pair(X)]),
    (named, [Pair(X, M)], [Swapped(X, M)]),
    (nested, [{"in": {"x": X, "twice": True}, "more": [(X, 1)]}], [{"in": {"x": X}, "more": [(X, 1)]}]),
    (nested, [{"in": {"x": X}, "more": [(X, 1)]}], [{"in": {"x": X}, "more": []}]),
    (by_word, [{"x": X, "mode": "train"}], [{"x": X, "mode": "eval"}]),
    (rest, [X, M], [X]),
    (rest, [X, M], [X, M, M]),
    (keywords, [X], {"x": X, "mask": M}),
    (keywords, {"x": X, "mask": M}, [X]),
    (optional, [X], [X, M]),
    (optional, [X], {"x": X, "mask": M}),
    (optional, [X, M], [X]),
    (optional, [X, M], [X, None]),
    (optional, [X, None], [X, M]),
    (optional, [X, [M]], [X, None]),
    (word, [X], [X, "eval"]),
    (word, [X, "eval"], [X, "train"]),
)
"""Networks with an example and a call of another structure, which their code sees."""

TAKEN: tuple[Any, ...] = (
    (one_key, [{"x": X}], [{"id": "seven", "x": M, "more": [X]}]),
    (asked, [{"x": X, "mask": M}], [{"mask": X, "other": None, "x": M}]),
    (each, [[X, M]], [(M, X)]),
    (last, [[X, M]], [[M]]),
    (last, [[X, M]], [[M, X, M, X]]),
    (assigned, [{"x": X}], [{"y": M, "x": X, "z": 1}]),
    (filled, [[X]], [[M, X]]),
    (counted, [[X, M]], [[M, None]]),
    (by_number, [{"x": X, "k": 2}], [{"x": X, "k": 2.5}]),
    (of_kind, [(X,)], [(M,)]),
    (untouched, [{"x": X}], [{"y": [X, None]}]),
)
"""Networks with an example and another call, of which their code sees no difference."""


def called(function: Callable[..., Any], given: Any) -> tuple[Any, Any]:
    """Return the result of a call, and its arguments as they are afterwards."""
    given = copy.deepcopy(given)
    return function(**given) if isinstance(given, dict) else function(*given), given


def drawn(forward: Callable[..., Any], example: Any) -> tuple[nn.Module, nn.Module]:
    """Return a network and the model of its graph, which computes the same for the example."""
    net = net_of(forward)
    given = {"kwargs": example} if isinstance(example, dict) else {"args": example}
    graph = pn.from_module(net, **copy.deepcopy(given))
    assert "none is closed" in str(graph.import_report), graph.import_report
    model = pn.compile(pn.NodeGraph.from_json(graph.to_json()), reuse=net)
    assert difference(called(net, example), called(model, example)) == ""
    return net, model


def named_after(case: Any) -> str:
    return case[0].__name__ if isinstance(case, tuple) else ""


@pytest.mark.parametrize("case", REFUSED, ids=named_after)
def test_another_structure_is_refused(case: Any) -> None:
    forward, example, other = case
    _, model = drawn(forward, example)
    with pytest.raises(pn.ExecutionError, match="import again"):
        called(model, other)


@pytest.mark.parametrize("case", TAKEN, ids=named_after)
def test_what_the_code_does_not_see_may_differ(case: Any) -> None:
    forward, example, other = case
    net, model = drawn(forward, example)
    assert difference(called(net, other), called(model, other)) == ""


@pytest.mark.parametrize(
    ("forward", "example", "other", "said"),
    [
        (asked, [{"x": X}], [{"x": X, "mask": M}], r"imported for d without 'mask', and it is dict with \['x', 'mask'\] here"),
        (each_item, [{"a": X}], [{"b": X}], r"imported for d with the keys \['a'\] in order.*test_structures.py, line"),
        (each, [[X, M]], [[X]], r"imported for xs of length 2, and it is list of length 1 here; import again"),
        (filled, [[X]], [[]], r"imported for xs that is not empty, and it is list of length 0"),
        (named, [Pair(X)], [Pair(X, M)], r"imported for p\.mask that is None, and it is Tensor here"),
        (named, [Pair(X)], [Swapped(None, X)], r"imported for p with the fields x, mask"),
        (nested, [{"in": {"x": X}, "more": []}], [{"in": {"x": X, "twice": True}, "more": []}], r"d\['in'\] without 'twice'"),
        (by_word, [{"x": X, "mode": "a"}], [{"x": X, "mode": "b"}], r"d\['mode'\] that is 'a', and it is 'b' here"),
        (of_kind, [[X]], [(X,)], r"imported for xs that is a list, and it is tuple of length 1 here"),
        (optional, [X, M], [X, None], r"imported for mask that is a tensor, and it is None here"),
        (optional, [X, M], [X], r"a call with x, mask, and this one leaves out mask: import again with such a call"),
        (optional, [X], [X, M], r"a call with x, and this one gives mask: import again with such a call"),
        (rest, [X], [X, M], r"a call with x, and this one gives argument 2: import again"),
    ],
)  # fmt: skip
def test_the_message_names_the_argument_and_what_differs(
    forward: Callable[..., Any], example: Any, other: Any, said: str
) -> None:
    _, model = drawn(forward, example)
    with pytest.raises(pn.ExecutionError, match=said):
        called(model, other)


class Asking(Based):
    def forward(self, d: Any) -> Any:
        return self.fc(d["x"]) * d["mask"] if "mask" in d else self.fc(d["x"])


class Below(Based):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Asking()

    def forward(self, one: Any, other: Any) -> Any:
        return self.inner(one) + self.inner(other)


@pytest.mark.parametrize("second", [{"x": M}, {"x": M, "mask": X}])
def test_a_submodule_that_is_given_whole_containers_checks_each(second: Any) -> None:
    net = Below()
    graph = pn.from_module(net, ({"x": X}, second))
    assert "none is closed" in str(graph.import_report)
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model({"x": X}, second), net({"x": X}, second))
    for other in ({"x": X, "mask": M}, second), ({"x": X}, {"x": X} if "mask" in second else {"x": X, "mask": M}):
        with pytest.raises(pn.ExecutionError, match="import again"):
            model(*other)


class Closed(Based):
    def forward(self, d: Any) -> Any:
        if d["x"].sum() > 100:
            return {}
        return {"y": self.fc(d["x"]), **({"mask": d["mask"]} if "mask" in d else {})}


class AroundClosed(Based):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Closed()

    def forward(self, d: Any) -> Any:
        found = self.inner(d)
        return found["y"] * found["mask"] if "mask" in found else found["y"]


def test_what_a_closed_part_returns_is_checked() -> None:
    net = AroundClosed()
    graph = pn.from_module(net, ({"x": X},))
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model({"x": M}), net({"x": M}))
    with pytest.raises(pn.ExecutionError, match=r"imported for the result of inner\(…\) without 'mask'.*import again"):
        model({"x": X, "mask": M})


def test_the_source_that_is_shown_checks_too() -> None:
    source = pn.to_source(pn.from_module(net_of(asked), ({"x": X},)))
    space: dict[str, Any] = {}
    exec(source, space)
    with pytest.raises(AssertionError, match="imported for d without 'mask'"):
        space["Asked"]()({"x": X, "mask": M})
    assert "pnne_nb" not in source


def test_an_input_says_what_the_graph_was_drawn_for() -> None:
    graph = pn.from_module(net_of(each), ([X, M],))
    origin = graph["xs"].origin
    assert origin is not None
    assert any(text == "xs: length 2" for text in origin.assumes)
