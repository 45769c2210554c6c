"""Calculations in place of numbers: the same cases are replayed by ``js/tests/values.test.ts``."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import pnne_nb as pn
from pnne_nb.errors import BadValueError
from pnne_nb.graph.schema.calculation import calculated
from pnne_nb.graph.schema.values import from_json

CASES = json.loads((Path(__file__).parents[2] / "cases/calculations.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("text", "value", "sizes"), [(*case, {})[:3] for case in CASES])
def test_case(text: str, value: int | None, sizes: dict[str, object]) -> None:
    assert calculated(text, {name: from_json(size) for name, size in sizes.items()}) == value  # type: ignore[misc]  # numbers


def test_random_calculations_give_what_python_gives() -> None:
    draw = random.Random(0)

    def made(depth: int) -> str:
        if depth == 0:
            return str(draw.randrange(20))
        sign = draw.choice(["+", "-", " * ", "//"])
        text = f"{made(depth - 1)}{sign}{draw.choice(['', '-'])}{made(draw.randrange(depth))}"
        return f"({text})" if draw.random() < 0.4 else text

    for text in (made(draw.randrange(1, 5)) for _ in range(300)):
        try:
            expected = eval(text)
        except ZeroDivisionError:
            expected = None
        assert calculated(text) == expected, text


def test_deep_and_long_texts_are_refused() -> None:
    assert calculated("(" * 5_000 + "1+1" + ")" * 5_000) is None
    assert calculated("1+" * 5_000 + "1") is None


def test_properties_take_calculations_and_open_sizes() -> None:
    graph = pn.NodeGraph()
    assert graph.add("Linear", out_features="2*64").properties["out_features"] == 128
    assert graph.add("Conv2d", out_channels=8, kernel_size=("6//2", 5)).properties["kernel_size"] == (3, 5)
    assert graph.add("Input", shape=(None, 3, -1, "16*2")).properties["shape"] == ("N", 3, "D2", 32)
    for text in ("64//0", "2*", "2*hidden"):
        with pytest.raises(BadValueError, match=r"out_features cannot be '.*': it must be a whole number ≥ "):
            graph.add("Linear", out_features=text)
