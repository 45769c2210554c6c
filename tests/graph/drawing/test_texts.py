"""What a card says of a node's values, and what is cut."""

from __future__ import annotations

from typing import Any

import pytest

import pnne_nb as pn
from pnne_nb.graph.drawing.texts import fitted, shape_label, summary


@pytest.mark.parametrize(
    ("type", "properties", "text"),
    [
        ("Conv2d", {"in_channels": 1, "out_channels": 6, "kernel_size": 5, "stride": 2}, "1→6 · 5×5 · stride 2"),
        ("Conv2d", {"in_channels": 1, "out_channels": 6, "kernel_size": (3, 5), "bias": False}, "1→6 · 3×5 · no bias"),
        ("Conv2d", {}, "auto→?"),
        ("Dropout", {}, ""),
        ("Dropout", {"p": 0.25}, "p 0.25"),
        ("LayerNorm", {"normalized_shape": (64, 64)}, "normalized_shape 64×64"),
        ("Embedding", {"num_embeddings": 10, "embedding_dim": 3}, "embeddings 10 · embedding_dim 3"),
        ("MultiheadAttention", {"embed_dim": 8, "num_heads": 2}, "embed_dim 8 · heads 2"),
        ("Input", {"shape": ("N", 1)}, "N×1"),
    ],
)
def test_the_values_that_matter(type: str, properties: dict[str, Any], text: str) -> None:
    graph = pn.NodeGraph()
    node = graph.add(type, name="n", **properties)
    assert summary(node, node.spec, {}) == text


def test_shapes() -> None:
    assert shape_label((), "float32") == "scalar"
    assert shape_label(("N", "H//2", 3), "bool") == "N×(H//2)×3 bool"


def test_what_does_not_fit_is_cut() -> None:
    assert fitted("conv1", 100, 13) == "conv1"
    assert fitted("a_branch_with_a_very_long_name", 100, 13) == "a_branch_wit…"
    assert fitted("層" * 20, 65, 13) == "層層層層…"
    assert fitted("long", 1, 13) == "…"
