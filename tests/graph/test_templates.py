"""Every template compiles and runs as it is, and the library that the palette offers is a document."""

from __future__ import annotations

import json

import msgspec
import pytest
import torch

import pnne_nb as pn
from pnne_nb.graph.templates import TEMPLATES, template_library

SHAPES = {
    "LeNet": ((2, 1, 28, 28), (2, 10)),
    "ResNet_block": ((2, 64, 8, 6), (2, 64, 8, 6)),
    "U_Net": ((1, 3, 64, 64), (1, 2, 64, 64)),
    "Autoencoder": ((3, 1, 28, 28), (3, 1, 28, 28)),
    "GPT_block": ((2, 5, 128), (2, 5, 128)),
    "LSTM_classifier": ((4, 7), (4, 2)),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_compiles_and_runs(name: str) -> None:
    given, expected = SHAPES[name]
    graph = TEMPLATES[name]()
    assert graph.diagnostics() == []
    x = torch.randint(1000, given) if name == "LSTM_classifier" else torch.randn(given)
    assert tuple(pn.compile(graph)(x).shape) == expected
    assert TEMPLATES[name].__doc__


def test_the_library_is_a_document_of_blocks_that_stand_in_order() -> None:
    library = pn.NodeGraph.from_json(json.dumps(msgspec.to_builtins(template_library())))
    assert list(library.nodes) == list(TEMPLATES)
    for name in TEMPLATES:
        assert all(node.position is not None for node in library.graphs[name].nodes.values())


def test_the_attention_of_a_gpt_is_read_in_few_cards() -> None:
    svg = TEMPLATES["GPT_block"]().to_svg()
    assert svg.count("data-node=") == 17
    assert 'data-node="q"' not in svg
