"""Members of a list stay where they are called; what else is never called itself is nested, with arguments by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import pnne_nb as pn


class Turned(nn.Module):
    """A block that takes the angles of its positions."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y: Tensor = self.linear(x * cos + x * sin)
        return y


class Rotary(nn.Module):
    """Gives each of its blocks the part of its tables that the input needs."""

    cosines: Tensor
    sines: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[Turned() for _ in range(3)])
        self.register_buffer("cosines", torch.rand(9, 4))
        self.register_buffer("sines", torch.rand(9, 4))

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = tokens + 1
        for block in self.blocks:
            x = block(x, self.cosines[:length], self.sines[:length])
        return x


class Scaled(nn.Module):
    """Its row is given what no variable holds and no member takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.sigmoid(layer(x)) * torch.exp(x)
        return x


def test_an_argument_is_called_as_the_variable_or_as_the_member_calls_it() -> None:
    net, args = Rotary(), (torch.rand(2, 5, 4),)
    graph = pn.from_module(net, args)
    source = pn.to_source(graph)
    head = source[source.index("class Sequential") :].partition("def forward(")[2].partition(")")[0]
    names = [part.partition(":")[0].strip() for part in head.split(",")]
    assert [name for name in names if name] == ["self", "x", "cos", "sin", "length", "cosines", "sines"]
    assert pn.verify(graph, net, args).equal
    scope: dict[str, Any] = {}
    exec(source, scope)
    made = scope["Rotary"]()
    made.load_state_dict(net.state_dict())
    assert torch.equal(made(*args), net(*args))


def test_other_arguments_keep_the_names_of_their_nodes() -> None:
    net, args = Scaled(), (torch.rand(2, 4),)
    graph = pn.from_module(net, args)
    assert pn.verify(graph, net, args).equal
    source = pn.to_source(graph)
    assert "def forward(self, x: torch.Tensor" in source[source.index("class Sequential") :]


class Decoder(nn.Module):
    """Holds its parts in a dictionary, and its blocks in a list inside that."""

    def __init__(self) -> None:
        super().__init__()
        parts = {"embed": nn.Linear(4, 4), "h": nn.ModuleList([Turned() for _ in range(3)])}
        self.parts = nn.ModuleDict(parts)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.parts["embed"](x)
        for block in self.parts["h"]:  # type: ignore[attr-defined]  # a list
            x = block(x, x, x)
        found: Tensor = self.head(x)
        return found


def test_lists_and_dictionaries_are_no_blocks_and_their_members_have_both_names() -> None:
    net, args = Decoder(), (torch.rand(2, 4),)
    graph = pn.from_module(net, args)
    assert list(graph.nodes) == ["x", "embed", "h_0", "h_1", "h_2", "head", "output"]
    model = pn.compile(graph, reuse=net)
    assert list(model.state_dict()) == list(net.state_dict())
    assert torch.equal(model(*args), net(*args))
    assert "        x = self.parts.h[1](x, x, x)" in pn.to_source(graph)

    assert graph["parts.h.1.linear"].path == "h_1.linear"
    assert graph["parts.h.1"].path == "h_1"
    assert (
        graph.find("parts.h.*", type="Linear")
        == graph.find("h_*", type="Linear")
        == [f"h_{place}.linear" for place in range(3)]
    )
    assert "parts.h.3" not in graph
    assert "parts.h" not in graph
    graph.freeze("parts.h.*")
    frozen = pn.compile(graph)
    assert not any(frozen.get_parameter(f"parts.h.{place}.linear.weight").requires_grad for place in range(3))
    graph.rename("parts.h.1", "middle")
    assert graph["parts.h.1"].path == "middle"
    assert list(pn.compile(graph, reuse=net).state_dict()) == list(net.state_dict())


class Twice(nn.Module):
    """Has two dictionaries of the same keys, and one whose key is that of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.ups = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        self.downs = nn.ModuleDict({"a": nn.Linear(4, 4), "1": nn.Linear(4, 4)})
        self.b = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (*self.ups.values(), *self.downs.values()):
            x = layer(x)
        found: Tensor = self.b(x)
        return found


def test_the_name_of_a_dictionary_stays_where_that_of_its_key_is_not_enough() -> None:
    graph = pn.from_module(Twice(), (torch.rand(2, 4),))
    assert list(graph.nodes) == ["x", "ups_a", "ups_b", "downs_a", "downs_1", "b", "output"]


class Mixed(nn.Module):
    """Reads a weight of a module that it keeps in a list and never calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers[0](x) @ self.layers[1].weight
        return y


def test_a_list_of_which_a_weight_is_read_stays_one_graph() -> None:
    net, args = Mixed(), (torch.rand(2, 4),)
    graph = pn.from_module(net, args)
    assert graph["layers"].type == "Subgraph"
    assert list(pn.compile(graph, reuse=net).state_dict()) == list(net.state_dict())
    assert pn.verify(graph, net, args).equal
