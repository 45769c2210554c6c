from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.export.subject.subject import plain_result


@dataclass
class Answer:
    scores: Tensor
    loss: Tensor | None
    states: tuple[Any, ...]


class Model(nn.Module):
    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.wrap = wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(x)


def test_data_classes_and_mappings_become_dictionaries() -> None:
    x, y, z = torch.ones(2), torch.zeros(2), torch.zeros(3)
    model = Model(lambda x: Answer(x, None, (UserDict(deep=y), z)))
    assert plain_result(model, model(x)) == {"scores": x, "loss": None, "states": ({"deep": y}, z)}
    assert model(x) == (x, y, z)


def test_a_single_value_stands_alone() -> None:
    x = torch.ones(2)
    model = Model(lambda x: (x, None))
    assert plain_result(model, model(x)) == (x, None)
    assert model(x) is x


def test_what_torch_knows_stays_as_it_is() -> None:
    x = torch.ones(2)
    model = Model(lambda x: {"a": (x, x)})
    assert plain_result(model, model(x)) == {"a": (x, x)}
    assert model(x) == {"a": (x, x)}
