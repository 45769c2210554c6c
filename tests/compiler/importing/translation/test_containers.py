"""Members of a list are nested in a graph of their own, with arguments that are called what they are."""

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
        self.blocks = nn.ModuleList([Turned() for _ in range(3)])
        self.register_buffer("cosines", torch.rand(9, 4))
        self.register_buffer("sines", torch.rand(9, 4))

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = tokens + 1
        for block in self.blocks:
            x = block(x, self.cosines[:length], self.sines[:length])
        return x


class Scaled(nn.Module):
    """Its list is given what no variable holds and no member takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.sigmoid(layer(x)) * torch.exp(x)
        return x


def test_an_argument_is_called_as_the_variable_or_as_the_member_calls_it() -> None:
    net, args = Rotary(), (torch.rand(2, 5, 4),)
    graph = pn.from_module(net, args)
    source = pn.to_source(graph)
    head = source[source.index("class Blocks") :].partition("def forward(")[2].partition(")")[0]
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
    assert "def forward(self, x: torch.Tensor" in source[source.index("class Layers") :]
