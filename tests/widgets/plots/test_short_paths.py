"""Names of layers become short and can still be told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.widgets.plots.short_paths import short_paths

PARTS = ("self_attn", "self_attn.out_proj", "linear1", "linear2", "norm1", "norm2")


def blocks(prefix: str, parts: tuple[str, ...] = PARTS) -> list[str]:
    return [f"{prefix}.{block}.{part}" for block in range(12) for part in parts]


def test_names_that_fit_stay_as_they_are() -> None:
    assert short_paths(["encoder.layers.0", "encoder.layers.1"], 16) == ["encoder.layers.0", "encoder.layers.1"]
    assert short_paths([], 10) == []


def test_what_all_names_begin_with_goes_without_a_trace() -> None:
    assert short_paths(["net.body.first", "net.body.second"], 10) == ["first", "second"]


def test_a_word_without_siblings_becomes_an_ellipsis() -> None:
    short = short_paths(["embed", *blocks("encoder.layers"), "head"], 34)
    assert short[0] == "embed"
    assert short[1:3] == ["encoder…0.self_attn", "encoder…0.self_attn.out_proj"]
    assert short[-2:] == ["encoder…11.norm2", "head"]


def test_what_differs_stays_however_early_it_stands() -> None:
    decoder = blocks("decoder.layers", (*PARTS, "multihead_attn.out_proj"))
    short = short_paths([*blocks("encoder.layers"), *decoder], 34)
    assert short[-1] == "decoder…11.multihead_attn.out_proj"
    assert len(set(short)) == len(short)


def test_first_words_go_while_the_rest_tells_enough() -> None:
    parts = ("attention.self.query", "attention.output.dense", "output.dense")
    names = ["bert.embeddings.words", *blocks("bert.encoder.layer", parts), "bert.pooler.dense", "classifier"]
    short = short_paths(names, 30)
    assert short[0] == "words"
    assert short[-5:] == [
        "11.attention.self.query",
        "11.attention.output.dense",
        "11.output.dense",
        "dense",
        "classifier",
    ]


def test_a_name_that_is_still_too_long_keeps_its_end() -> None:
    assert short_paths(["a" * 20 + "1", "a" * 20 + "2"], 5) == ["…aaa1", "…aaa2"]


WORDS = st.text(alphabet="ab1", min_size=1, max_size=4)
PATHS = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(".".join), min_size=1, max_size=20, unique=True)


@given(PATHS, st.integers(2, 30))
def test_none_is_longer_than_allowed_and_each_ends_as_it_did(paths: list[str], limit: int) -> None:
    short = short_paths(paths, limit)
    assert len(short) == len(paths)
    for path, name in zip(paths, short, strict=True):
        assert len(name) <= limit
        last = path.rpartition(".")[2]
        assert name.endswith(last) or (name.startswith("…") and last.endswith(name[1:]))


@given(PATHS)
def test_no_two_are_the_same_unless_one_had_to_be_cut(paths: list[str]) -> None:
    for limit in range(2, max(map(len, paths)) + 1):
        short = short_paths(paths, limit)
        if not any(name.startswith("…") for name in short):
            assert len(set(short)) == len(short)
