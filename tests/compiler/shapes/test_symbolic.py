from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.compiler.shapes.infer import probe_values
from pnne_nb.compiler.shapes.symbolic import SymbolicSize, add, affine, divide, explain, fit, multiply, number, symbol

N, H, W = symbol("N"), symbol("H"), symbol("W")


def value(size: SymbolicSize, names: dict[str, int]) -> int:
    result = eval(str(size), {"__builtins__": {}}, names)  # our own text
    assert isinstance(result, int)
    return result


def test_expressions_read_as_a_person_would_write_them() -> None:
    assert str(N) == "N"
    assert str(affine(H, 2, 1)) == "2*H + 1"
    assert str(affine(H, 1, -4)) == "H - 4"
    assert str(affine(H, -1, 3)) == "-H + 3"
    assert str(divide(H, 2)) == "H//2"
    assert str(divide(affine(H, 1, 1), 2)) == "(H + 1)//2"
    assert str(affine(divide(H, 2), 2, 0)) == "2*(H//2)"
    assert str(multiply([number(3), H, W])) == "3*H*W"
    assert str(multiply([divide(H, 2), W])) == "(H//2)*W"
    assert str(add([H, W, number(-1)])) == "H + W - 1"
    assert str(divide(divide(H, 2), 2)) == "H//4"
    assert str(affine(divide(H, 2), 1, -4)) == "(H - 8)//2"
    assert str(divide(affine(H, 4, 2), 2)) == "2*H + 1"
    assert str(multiply([number(0), H])) == "0"
    assert number(5).plain() == 5
    assert H.plain() == "H"


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["affine", "divide", "add", "multiply"]), st.integers(1, 5), st.integers(-9, 9)),
    max_size=6,
)


@given(OPERATIONS, st.integers(0, 300), st.integers(0, 300))
def test_simplifying_never_changes_the_value(operations: list[tuple[str, int, int]], h: int, w: int) -> None:
    size, expected = symbol("H"), h
    for kind, factor, offset in operations:
        match kind:
            case "affine":
                size, expected = affine(size, factor, offset), expected * factor + offset
            case "divide":
                size, expected = divide(size, factor), expected // factor
            case "add":
                size, expected = add([size, W, number(offset)]), expected + w + offset
            case _:
                size, expected = multiply([size, W, number(factor)]), expected * w * factor
    assert value(size, {"H": h, "W": w}) == expected


@given(st.integers(1, 8), st.integers(-20, 20), st.sampled_from([1, 2, 3, 4, 5, 8]))
def test_linear_rounded_sizes_are_found_exactly(factor: int, offset: int, divisor: int) -> None:
    trials = probe_values(2, 4, 0)

    def rule(size: int) -> int:
        return (factor * size + offset) // divisor

    seen = tuple(rule(size) for size in trials)
    found = fit(seen, [(H, trials)], [], lambda given, step: rule(given[0] + step))
    assert found is not None
    for size in (*range(40, 60), 224, 1023):
        assert value(found, {"H": size}) == rule(size)


def test_what_has_no_explanation_has_no_expression() -> None:
    trials = probe_values(2, 4, 0)
    assert fit(tuple(size * size + 1 for size in trials), [(H, trials)], [], lambda *_: None) is None


def test_a_size_that_never_changes_is_a_number() -> None:
    assert explain((4, 4, 4), {}, lambda *_: None).sizes == (number(4),)
