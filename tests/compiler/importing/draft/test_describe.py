"""Checks say in words which size they ask for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)


class ByRemainder(Layered):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] % 4:
            x = x + 1
        y: Tensor = self.fc(x)
        return y + (1 if x.size(0) % 3 == 2 else 0)


class ByQuotient(Layered):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(len(x) // 3):
            x = self.fc(x)
        return x


class ByDifference(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * 2 if x.shape[0] - 1 == 7 and x.shape[1] + 2 <= 6 else y


class ByBound(Layered):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * 2 if x.shape[0] > 2 else y


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (ByRemainder, ("dimension 0 of x must be a multiple of 4", "must be 2 more than a multiple of 3")),
        (ByQuotient, ("dimension 0 of x must be from 6 to 8",)),
        (ByDifference, ("dimension 0 of x must be 8", "dimension 1 of x must be at most 4")),
        (ByBound, ("dimension 0 of x must be more than 2",)),
    ],
)
def test_a_check_of_a_size_is_said_in_words(make: type[Layered], said: tuple[str, ...]) -> None:
    graph = pn.from_module(make(), torch.linspace(-1, 1, 32).reshape(8, 4))
    checks = [node for node in graph.nodes.values() if node.type == "check"]
    messages = [str(node.properties["message"]) for node in checks]
    for text in said:
        assert any(text in message and "test_describe.py, line" in message for message in messages), messages
