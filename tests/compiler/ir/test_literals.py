from __future__ import annotations

import ast
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pnne_nb as pn
from pnne_nb.compiler.ir.literals import emit, emit_index
from pnne_nb.graph.schema.values import DTYPES, TorchConstant

HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.sampled_from(DTYPES).map(TorchConstant)
    | st.just(...)
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
        | st.builds(slice, inner, inner, inner)
    ),
    max_leaves=8,
)

ALLOWED_CALLS = {"float", "complex", "slice"}


def evaluated(text: str) -> object:
    """Evaluate what `emit` wrote, after making sure that it is nothing but a constant."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                assert name in ALLOWED_CALLS
            case ast.Name(id=name):
                assert name in ALLOWED_CALLS | {"torch"}
            case ast.Attribute(value=ast.Name(id="torch"), attr=attr):
                assert attr in DTYPES
            case (
                ast.Expression() | ast.Constant() | ast.Tuple() | ast.List() | ast.Dict() | ast.UnaryOp() | ast.USub()
                | ast.Load()
            ):  # fmt: skip
                pass
            case _:
                pytest.fail(f"{ast.dump(node)} is no part of a constant")
    return eval(text, {"torch": torch})  # checked just above


def same(one: object, other: object) -> bool:
    if isinstance(one, TorchConstant):
        return other is getattr(torch, one.name)
    if type(one) is not type(other):
        return False
    match one, other:
        case float(), float():
            return (math.isnan(one) and math.isnan(other)) or (
                one == other and math.copysign(1, one) == math.copysign(1, other)
            )
        case complex(), complex():
            return same(one.real, other.real) and same(one.imag, other.imag)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(same, one, other))
        case dict(), dict():
            return all(map(same, one, other)) and all(map(same, one.values(), other.values()))
        case slice(), slice():
            return all(same(getattr(one, part), getattr(other, part)) for part in ("start", "stop", "step"))
    return one == other


@given(VALUES)
def test_constants_come_back_as_they_were_and_as_nothing_else(value: object) -> None:
    assert same(value, evaluated(emit(value)))


@given(
    st.recursive(
        st.none()
        | st.integers()
        | st.just(...)
        | st.builds(slice, st.none() | st.integers(), st.none() | st.integers(), st.none() | st.integers()),
        lambda inner: st.lists(inner, max_size=3).map(tuple),
        max_leaves=4,
    )
)
def test_indices_come_back_as_they_were(value: object) -> None:
    class Seen:
        def __getitem__(self, index: object) -> object:
            return index

    assert same(value, eval(f"seen[{emit_index(value)}]", {"seen": Seen()}))  # ints and slices only


@pytest.mark.parametrize("value", [10**5000, -(10**5000)], ids=["positive", "negative"])
def test_long_integers(value: int) -> None:
    assert same(value, evaluated(emit(value)))


class Hostile(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "__import__('os').system('true')"


@pytest.mark.parametrize(
    "value", [Hostile("x"), (Hostile("x"),), {"a": [Hostile("x")]}, object(), torch.float32, b"x", {1}]
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(pn.CompileError, match="cannot be written as source"):
        emit(value)


def test_deep_nesting_is_refused() -> None:
    value: object = 1
    for _ in range(100):
        value = [value]
    with pytest.raises(pn.CompileError, match="nested more than 32 deep"):
        emit(value)


def test_texts_are_quoted_as_a_formatter_would() -> None:
    assert emit("same") == '"same"'
    assert emit('say "hi"') == "'say \"hi\"'"
    assert emit("it's") == '"it\'s"'
    assert emit("a\n") == '"a\\n"'
