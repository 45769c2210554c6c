"""Objects that a call reads and fills, such as a cache of keys: those of each call, and not those of an import."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.verify import difference

torch.set_num_threads(1)

X = torch.linspace(-1, 1, 6).reshape(2, 3)


@dataclasses.dataclass
class Cache:
    keys: list[Tensor] = dataclasses.field(default_factory=list)

    def updated(self, key: Tensor) -> Tensor:
        self.keys.append(key)
        return torch.cat(self.keys)


class PlainCache:
    def __init__(self, keys: tuple[Tensor, ...] = ()) -> None:
        self.keys = list(keys)

    updated = Cache.updated


class Based(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)


class Filling(Based):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor, cache: Any) -> Tensor:
        found: Tensor = self.inner(x) + cache.updated(self.fc(x)).sum()
        return found


class FillingBelow(Based):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Filling()

    def forward(self, x: Tensor, cache: Any) -> Tensor:
        found: Tensor = self.fc(self.inner(x, cache))
        return found


@pytest.mark.parametrize("make", [Filling, FillingBelow])
@pytest.mark.parametrize("given", [lambda: Cache([X * 2]), Cache, lambda: PlainCache((X * 2,)), PlainCache])
def test_a_cache_is_read_and_filled_in_each_call_and_by_no_import(
    make: Callable[[], nn.Module], given: Callable[[], Any]
) -> None:
    net, example = make(), given()
    model = pn.compile(pn.from_module(net, (X, example)), reuse=net)
    assert difference(vars(example), vars(given())) == ""
    mine, theirs = given(), given()
    for factor in (1, 2):  # a second call finds what the first has left
        assert torch.equal(model(X * factor, theirs), net(X * factor, mine))
    assert difference(vars(mine), vars(theirs)) == ""


def test_a_cache_is_named_where_it_closes_a_module() -> None:
    graph = pn.from_module(Filling(), (X, Cache([X * 2])))
    reasons = pn.verify(graph, Filling(), (X, Cache([X * 2]))).opaque.values()
    assert "its argument cache is a Cache, an object with tensors in it, which no port carries" in next(iter(reasons))
